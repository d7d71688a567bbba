//! The table, for people and for programs.

use crate::stage::{Pace, QUICK, Stage};
use serde_json::{Value, json};
use std::process::Command;
use testkit::Server;

/// One thing that was measured.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    /// With the unit of `ours` and `reference`.
    pub(crate) unit: &'static str,
    pub(crate) ours: f64,
    pub(crate) reference: Option<f64>,
    pub(crate) ratio: Option<f64>,
    pub(crate) must: Must,
}

/// What the ratio must be, or the value where there is no reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Must {
    /// Equal to two decimals.
    Equal(f64),
    AtMost(f64),
    AtLeast(f64),
    /// Anything: the value is only shown.
    Stated,
}

/// All rows of a run, and where it ran.
#[derive(Debug)]
pub(crate) struct Report {
    scene: Scene,
    pace: Pace,
    rows: Vec<(Row, f64)>,
}

/// Where and when a run was.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) server: String,
    pub(crate) machine: String,
    pub(crate) date: String,
}

impl Scene {
    pub(crate) fn now(server: &Server) -> Self {
        let info = server.info("server");
        let version = |field: &str| info.get(field).map(|text| text.trim().to_owned());
        let version = version("valkey_version").or_else(|| version("redis_version"));
        Self {
            server: format!("{} {}", server.kind().name(), version.unwrap_or_default()),
            machine: machine(),
            date: output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        }
    }
}

impl Must {
    fn holds(self, value: f64) -> Option<bool> {
        match self {
            Must::Equal(wanted) => Some((value - wanted).abs() < 0.005),
            Must::AtMost(most) => Some(value <= most),
            Must::AtLeast(least) => Some(value >= least),
            Must::Stated => None,
        }
    }

    fn text(self) -> String {
        match self {
            Must::Equal(wanted) => format!("{wanted:.2}"),
            Must::AtMost(most) => format!("≤ {most}"),
            Must::AtLeast(least) => format!("≥ {least}"),
            Must::Stated => "stated".to_owned(),
        }
    }
}

impl Row {
    /// Whether it is as it must be; `None`: it may be anything.
    fn passed(&self) -> Option<bool> {
        self.must.holds(self.ratio.unwrap_or(self.ours))
    }

    fn verdict(&self) -> &'static str {
        match self.passed() {
            Some(true) => "pass",
            Some(false) => "FAIL",
            None => "",
        }
    }
}

impl Report {
    pub(crate) fn new(stage: &Stage) -> Self {
        Self {
            scene: Scene::now(&stage.server),
            pace: stage.pace,
            rows: Vec::new(),
        }
    }

    /// Adds rows that were measured while a PING took `ping` microseconds.
    pub(crate) fn add(&mut self, rows: Vec<Row>, ping: f64) {
        self.rows.extend(rows.into_iter().map(|row| (row, ping)));
    }

    pub(crate) fn passed(&self) -> bool {
        self.rows.iter().all(|(row, _)| row.passed() != Some(false))
    }

    pub(crate) fn print(&self, json: bool) {
        if json {
            println!("{}", self.json());
        } else {
            print!("{}", self.table());
        }
    }

    fn table(&self) -> String {
        let scene = &self.scene;
        let mut lines = vec![
            format!("{} · {} · {}", scene.server, scene.machine, scene.date),
            String::new(),
            "| what | ours | reference | ratio | must be | | PING p50 |".to_owned(),
            "|---|---|---|---|---|---|---|".to_owned(),
        ];
        lines.extend(self.rows.iter().map(|(row, ping)| {
            let unit = row.unit;
            let amount = |value: f64| format!("{}{unit}", figures(value));
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
            format!(
                "| {} | {} | {} | {} | {} | {} | {ping:.0} µs |",
                row.what,
                amount(row.ours),
                or_dash(row.reference.map(amount)),
                or_dash(row.ratio.map(|ratio| format!("{ratio:.2}"))),
                row.must.text(),
                row.verdict(),
            )
        }));
        lines.push(String::new());
        if self.pace == Pace::Quick {
            lines.extend([QUICK.to_owned(), String::new()]);
        }
        lines.join("\n")
    }

    fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|(row, ping)| {
                json!({
                    "what": row.what,
                    "unit": row.unit.trim(),
                    "ours": row.ours,
                    "reference": row.reference,
                    "ratio": row.ratio,
                    "must_be": row.must.text(),
                    "passed": row.passed(),
                    "ping_p50_us": ping,
                })
            })
            .collect();
        json!({
            "server": self.scene.server,
            "machine": self.scene.machine,
            "date": self.scene.date,
            "quick": self.pace == Pace::Quick,
            "passed": self.passed(),
            "rows": rows,
        })
    }
}

/// Three significant figures or so.
pub(crate) fn figures(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = std::fs::read_to_string("/proc/cpuinfo")
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or_else(String::new, |(_, model)| format!(" of {model}"));
    let system = output_of("uname", &["-sr"]);
    let compiler = output_of("rustc", &["--version"]);
    format!("{cores} cores{model} · {system} · {compiler}")
}

/// The output of a program, or a text that says that it is missing.
fn output_of(program: &str, args: &[&str]) -> String {
    match Command::new(program).args(args).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        Err(_) => format!("no `{program}` here"),
    }
}
