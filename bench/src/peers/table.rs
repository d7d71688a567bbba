//! The results of both sides, for people and for programs.

use super::duel::{Record, Row};
use crate::report::{Scene, figures};
use crate::rounds::{Turns, micros_since, now};
use crate::stage::{Pace, QUICK};
use serde_json::{Value, json};
use std::process::Command;
use testkit::{Redisson, Server};

/// All rows of a run, and where it ran.
pub(crate) struct Table {
    scene: Scene,
    redisson: String,
    java: String,
    pace: Pace,
    begun: u64,
    /// Each with the p50 of a PING right after it, in microseconds.
    rows: Vec<(Row, f64)>,
}

impl Table {
    pub(crate) fn new(server: &Server, pace: Pace) -> Self {
        Self {
            scene: Scene::now(server),
            redisson: Redisson::Newest.version().to_owned(),
            java: java(),
            pace,
            begun: now(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, row: Row, ping: f64) {
        self.rows.push((row, ping));
    }

    pub(crate) fn print(&self, json: bool) {
        match json {
            true => println!("{}", self.json()),
            false => println!("{}", self.text()),
        }
    }

    fn text(&self) -> String {
        let Scene {
            server,
            machine,
            date,
        } = &self.scene;
        let (redisson, java) = (&self.redisson, &self.java);
        let mut lines = vec![
            format!("{server} · Redisson {redisson} · {java} · {machine} · {date}"),
            String::new(),
        ];
        if self.pace == Pace::Quick {
            lines.extend([QUICK.to_owned(), String::new()]);
        }
        lines.extend(self.main());
        lines.push(String::new());
        lines.extend(self.beside());
        lines.push(String::new());
        lines.push(format!(
            "The run took {:.1} minutes.",
            self.seconds() / 60.0
        ));
        lines.join("\n")
    }

    fn main(&self) -> Vec<String> {
        let mut lines = vec![
            "| what | ours | Redisson | ratio | commands | server CPU µs | client CPU µs | per | PING p50 |"
                .to_owned(),
            "|---|---|---|---|---|---|---|---|---|".to_owned(),
        ];
        lines.extend(self.rows.iter().map(|(row, ping)| {
            let (turns, unit) = (row.turns(), row.plan.unit);
            let both = |cost: fn(&Record) -> f64| {
                let [ours, rivals] = [&row.ours, &row.rivals].map(|side| figures(cost(side)));
                format!("{ours} : {rivals}")
            };
            format!(
                "| {} | {}{unit} | {}{unit} | {} | {} | {} | {} | {} | {ping:.0} µs |",
                row.plan.what,
                figures(turns.ours()),
                figures(turns.reference()),
                ratio(&turns),
                both(|side| side.commands.total()),
                both(Record::server_cpu),
                both(Record::client_cpu),
                row.plan.operation,
            )
        }));
        lines
    }

    /// How each rival warmed up, and the counts under the lock.
    fn beside(&self) -> Vec<String> {
        let mut lines = vec![
            "| row | warm-up of Redisson | counted under the lock, exact |".to_owned(),
            "|---|---|---|".to_owned(),
        ];
        lines.extend(self.rows.iter().map(|(row, _)| {
            let counted = row
                .exact
                .iter()
                .map(|(who, count)| format!("{count} {who}"));
            let counted = counted.collect::<Vec<_>>().join(", ");
            let counted = if counted.is_empty() { "–" } else { &counted };
            format!("| {} | {} | {counted} |", row.plan.what, warm_up(row))
        }));
        lines
    }

    fn seconds(&self) -> f64 {
        micros_since(self.begun) / 1e6
    }

    fn json(&self) -> Value {
        let rows = self.rows.iter().map(|(row, ping)| row_json(row, *ping));
        json!({
            "server": self.scene.server,
            "redisson": self.redisson,
            "java": self.java,
            "machine": self.scene.machine,
            "date": self.scene.date,
            "quick": self.pace == Pace::Quick,
            "seconds": self.seconds(),
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}

/// The ratio, with the quartiles of the rounds' own ratios.
fn ratio(turns: &Turns) -> String {
    let [low, high] = turns.spread();
    // Zero divided by zero: in a quick run no hold is renewed.
    if !turns.ratio().is_finite() {
        return "–".to_owned();
    }
    let ratio = figures(turns.ratio());
    format!("{ratio} ({}–{})", figures(low), figures(high))
}

fn warm_up(row: &Row) -> String {
    let warm_up = &row.warm_up;
    let ([first, ..], Some(last)) = (warm_up.values.as_slice(), warm_up.values.last()) else {
        return "–".to_owned();
    };
    let unit = row.plan.unit;
    let still = if warm_up.is_over {
        ""
    } else {
        ", still getting better"
    };
    let (first, last) = (figures(*first), figures(*last));
    format!(
        "{:.0} s, {first}{unit} → {last}{unit}{still}",
        warm_up.seconds
    )
}

fn row_json(row: &Row, ping: f64) -> Value {
    let turns = row.turns();
    let exact = row.exact.iter();
    json!({
        "what": row.plan.what,
        "rival": row.plan.rival,
        "unit": row.plan.unit.trim(),
        "costs_per": row.plan.operation,
        "ratio": turns.ratio(),
        "ratio_quartiles": turns.spread(),
        "ours": side_json(&row.ours, turns.ours()),
        "rivals": side_json(&row.rivals, turns.reference()),
        "round_seconds": row.plan.round.as_secs_f64(),
        "warm_up": {
            "seconds": row.warm_up.seconds,
            "values": row.warm_up.values,
            "had_settled": row.warm_up.is_over,
        },
        "counted_exactly": exact
            .map(|(who, count)| json!({"who": who, "count": count}))
            .collect::<Vec<_>>(),
        "ping_p50_us": ping,
    })
}

fn side_json(side: &Record, median: f64) -> Value {
    let rounds = side.rounds.iter().map(|round| {
        json!({
            "value": round.work.value,
            "operations": round.work.operations,
            "server_cpu_us": round.server_cpu,
            "client_cpu_us": round.client_cpu,
        })
    });
    json!({
        "value": median,
        "commands": side.commands.total(),
        "commands_by_name": side.commands.0,
        "server_cpu_us": side.server_cpu(),
        "client_cpu_us": side.client_cpu(),
        "rounds": rounds.collect::<Vec<_>>(),
    })
}

/// The first line of `java -version`, which it prints to its error output.
fn java() -> String {
    let output = Command::new("java").arg("-version").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().next().unwrap_or_default().replace('"', "")
}
