//! Everything that `ferrolock` prints: one line per event on the error output, for people or for programs.
#![allow(
    clippy::print_stderr,
    reason = "the one place that prints; the output belongs to the command"
)]

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use ferrolock::{Holder, Remaining};
use rustix::stdio;
use rustix::termios::tcgetpgrp;
use serde_json::{Map, Value, json};

use crate::clock;
use crate::exit::Failure;
use crate::process::group::Group;

mod line;
mod queue;

pub(crate) use line::describe;
pub(crate) use queue::{Log, flush};

/// How long we wait for the terminal to clear the status line.
const CLEARING_MAX: Duration = Duration::from_millis(500);

/// How much is printed, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// For people: what went wrong, and which holder we wait for.
    People,
    /// For people: only what went wrong with the run itself.
    Quiet,
    /// For programs: every event, as JSON.
    Json,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(crate) enum Event<'a> {
    /// We wait for the lock. `None`: the server or the store did not answer who has it.
    Waiting { holders: Option<&'a [Holder]> },
    /// Another owner has the lock, and we give up.
    Busy { holders: Option<&'a [Holder]> },
    /// A signal has ended the wait.
    Interrupted { signal: &'a str },
    /// The lock is ours.
    Acquired { owner: &'a str, address: &'a str },
    /// The command runs.
    Started { pid: i32 },
    /// The lock is no longer ours.
    Lost { reason: &'a str },
    /// We have sent the command a signal.
    Signalled {
        signal: &'static str,
        reason: &'a str,
    },
    /// The command has ended.
    Ended {
        code: Option<u8>,
        signal: Option<&'a str>,
    },
    /// The lock was released, or stays taken for `held_seconds`.
    Released { held_seconds: Option<f64> },
    /// Something is not as it should be, and the run goes on.
    Warning { message: &'a str },
}

/// Prints what happens to one lock.
#[derive(Debug)]
pub(crate) struct Report {
    style: Style,
    name: String,
    has_status: bool,
}

impl Report {
    pub(crate) fn new(style: Style, name: &str) -> Self {
        let name_of_lock = name.to_owned();
        queue::say_omissions_so(move |count| omission(style, &name_of_lock, count));
        Self {
            style,
            name: name.to_owned(),
            has_status: false,
        }
    }

    /// Prints the event, as far as the style asks for it.
    pub(crate) fn tell(&mut self, event: &Event<'_>) {
        self.take_status_away();
        match self.style {
            Style::Json => self.tell_program(event),
            Style::People => self.tell_people(event),
            Style::Quiet if matches!(event, Event::Busy { .. } | Event::Waiting { .. }) => {}
            Style::Quiet => self.tell_people(event),
        }
    }

    /// Prints why the run ends without the command's exit code.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        self.take_status_away();
        match self.style {
            Style::Json => {
                let fields = json!({ "code": failure.code, "message": failure.message });
                self.print_json("error", fields);
            }
            Style::People | Style::Quiet => complain(&failure.message),
        }
    }

    /// Shows which holder we wait for, on a line that is cleared later; only on a terminal.
    pub(crate) fn show_status(&mut self, holders: Option<&[Holder]>) {
        if self.shows_status() && is_in_foreground() {
            let text = line::status(&self.name, holders, line::width());
            print(&format!("\r\x1b[K{text}"));
            self.has_status = true;
        }
    }

    /// Whether holders are printed at all.
    pub(crate) fn tells_holders(&self) -> bool {
        self.style != Style::Quiet
    }

    /// Whether there is a terminal for the status line.
    pub(crate) fn shows_status(&self) -> bool {
        self.style == Style::People && stderr().is_terminal()
    }

    /// Clears the status line, and waits until it is cleared: else the command's first output would be cleared with it. If the
    /// terminal is held (Ctrl-S), the wait ends after `CLEARING_MAX` or that limit, whichever is shorter.
    pub(crate) async fn clear_status(&mut self, limit: Option<Duration>) {
        if self.take_status_away() {
            queue::flush_within(limit.map_or(CLEARING_MAX, |limit| limit.min(CLEARING_MAX))).await;
        }
    }

    /// Queues the clearing of the status line; returns whether there was one. What we print next comes after it anyway.
    fn take_status_away(&mut self) -> bool {
        let had_status = std::mem::take(&mut self.has_status);
        if had_status {
            print("\r\x1b[K");
        }
        had_status
    }

    fn tell_people(&self, event: &Event<'_>) {
        let name = &self.name;
        match event {
            Event::Busy { holders } => {
                let who = holders.map(|holders| format!(": {}", describe(holders)));
                let who = who.unwrap_or_default();
                complain(&format!(
                    "lock {name:?} is busy{who}; try later, or wait longer"
                ));
            }
            Event::Lost { reason } => complain(&format!("lock {name:?} was lost: {reason}")),
            Event::Signalled { signal, reason } => {
                complain(&format!(
                    "lock {name:?}: {reason}: sent {signal} to the command"
                ));
            }
            Event::Warning { message } => complain(&format!("lock {name:?}: {message}")),
            Event::Waiting { .. }
            | Event::Interrupted { .. }
            | Event::Acquired { .. }
            | Event::Started { .. }
            | Event::Ended { .. }
            | Event::Released { .. } => {}
        }
    }

    fn tell_program(&self, event: &Event<'_>) {
        let (kind, fields) = match event {
            Event::Waiting { holders } => ("waiting", json!({ "holders": holders.map(values) })),
            Event::Busy { holders } => ("busy", json!({ "holders": holders.map(values) })),
            Event::Interrupted { signal } => ("interrupted", json!({ "signal": signal })),
            Event::Acquired { owner, address } => {
                ("acquired", json!({ "owner": owner, "address": address }))
            }
            Event::Started { pid } => ("started", json!({ "pid": pid })),
            Event::Lost { reason } => ("lost", json!({ "reason": reason })),
            Event::Signalled { signal, reason } => {
                ("signalled", json!({ "signal": signal, "reason": reason }))
            }
            Event::Ended { code, signal } => ("ended", json!({ "code": code, "signal": signal })),
            Event::Released { held_seconds } => {
                ("released", json!({ "held_seconds": held_seconds }))
            }
            Event::Warning { message } => ("warning", json!({ "message": message })),
        };
        self.print_json(kind, fields);
    }

    fn print_json(&self, kind: &str, fields: Value) {
        print(&json_line(&self.name, kind, fields));
    }
}

/// The line that says how many lines were left out here.
fn omission(style: Style, name: &str, count: usize) -> String {
    let message = format!("{count} lines were left out: the error output was not read");
    match style {
        Style::Json => json_line(name, "warning", json!({ "message": message })),
        Style::People | Style::Quiet => line_for_people(&message),
    }
}

fn json_line(name: &str, kind: &str, fields: Value) -> String {
    let mut object = Map::new();
    object.insert("event".into(), kind.into());
    object.insert("name".into(), name.into());
    object.insert("time".into(), clock::time_of_day().as_secs_f64().into());
    if let Value::Object(fields) = fields {
        object.extend(fields.into_iter().filter(|(_, value)| !value.is_null()));
    }
    format!("{}\n", Value::Object(object))
}

/// Whether we are in the terminal's foreground, and not another job.
fn is_in_foreground() -> bool {
    // It may be the terminal of another session, whose foreground we cannot ask for.
    tcgetpgrp(stdio::stderr()).map_or(true, |group| Some(Group::of(group)) == Group::own())
}

/// Prints one line for people.
pub(crate) fn complain(message: &str) {
    print(&line_for_people(message));
}

fn line_for_people(message: &str) -> String {
    // Line breaks would make several lines of one.
    format!("ferrolock: {}\n", message.replace(['\n', '\r'], " "))
}

/// Prints it in one write, so that lines of several processes do not mix.
fn print(text: &str) {
    queue::write(text.as_bytes().to_vec());
}

fn values(holders: &[Holder]) -> Vec<Value> {
    holders.iter().map(value).collect()
}

fn value(holder: &Holder) -> Value {
    let left = match holder.remaining {
        Remaining::Left(left) => Some(left.as_secs_f64()),
        _ => None,
    };
    json!({
        "owner": holder.owner.as_str(),
        "host": holder.host,
        "pid": holder.pid,
        "label": holder.label,
        "held_seconds": holder.held_for.map(|time| time.as_secs_f64()),
        "lease_left_seconds": left,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_of_left_out_lines_has_the_style_of_the_other_lines() {
        let for_people = omission(Style::Quiet, "x", 3);
        let for_programs = omission(Style::Json, "x", 3);

        assert!(for_people.starts_with("ferrolock: 3 lines were left out"));
        let event: Value = serde_json::from_str(&for_programs).unwrap();
        assert_eq!(
            (&event["event"], &event["name"]),
            (&json!("warning"), &json!("x"))
        );
        assert!(for_people.ends_with('\n') && for_programs.ends_with('\n'));
    }
}
