//! The same calls on the embedded engines and on servers: equal replies, equal keys, equal deadlines.
//!
//! The server runs a batch of calls first and replies its time; the embedded engines then run the same batch at that
//! time: `memory:` as a whole on all keys, `file:` two calls at a time, with all keys loaded from the table and written back.
//! So times are compared exactly, but for the clock of Redis 7.0, which goes on while a script runs. Keys
//! expire on both sides between batches; a batch is begun again if a key expires just as it begins.

mod branches;
mod bundle_calls;
mod calls;
mod compare;
mod fair_calls;
mod full;
mod known;
mod peers;
mod rw_calls;
mod seen;

use std::collections::BTreeSet;
use std::time::Duration;

use self::branches::Branches;
use self::calls::{Call, Source, Way};
use self::peers::{Key, Ours, Theirs};
use self::seen::Seen;
use super::super::emulator::commands;
use crate::protocol::scripts;
use testkit::{Kind, Server};

/// How many calls go in one batch.
const BATCH: usize = 60;
/// How many calls are compared with each server by default.
const CALLS: u64 = 200_000;

#[test]
fn the_embedded_engines_are_like_redis() {
    run_on(Kind::Redis);
}

#[test]
fn the_embedded_engines_are_like_valkey() {
    run_on(Kind::Valkey);
}

fn run_on(kind: Kind) {
    if !kind.is_here() {
        return;
    }
    let setting = |name: &str| Some(std::env::var(name).ok()?.parse().unwrap());
    let calls: u64 = setting("FERROLOCK_DIFF_CALLS").unwrap_or(CALLS);
    let seed = setting("FERROLOCK_DIFF_SEED").unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!(
        "{}: {calls} calls on memory and on file, seed {seed}",
        kind.name()
    );
    let server = Server::start(kind);
    let mut course = Course::new(&server, seed);
    while course.tally.calls < calls {
        if let Err(how) = course.step() {
            let batch = course.calls.iter().map(|call| call.words.join(" "));
            let batch: Vec<String> = batch.collect();
            panic!("seed {seed}: {how}\nin the batch {batch:#?}");
        }
    }
    let tally = course.tally;
    println!("{}: {tally:?}", kind.name());
    assert!(tally.errors < tally.calls / 2, "too few calls do something");
    assert!(tally.expired >= tally.calls / 5000, "too few keys expire");
    assert!(tally.left_out <= tally.calls / 50, "too much is left out");
    // A run that a caller made short sees less.
    let missing = course.branches.missing();
    println!("never seen: {missing:?}");
    // The calls are random: the rarest replies may not come.
    assert!(calls < CALLS || missing.len() < 3, "{missing:?}");
}

/// What a run has counted.
#[derive(Debug, Default)]
struct Tally {
    calls: u64,
    errors: u64,
    /// Keys that were gone when the next batch began.
    expired: u64,
    /// Calls that were not made, because a server could not say which of two deadlines is later.
    left_out: u64,
    /// Batches that were begun again, because a key expired just then.
    again: u64,
}

/// One server and the embedded engines, in step.
struct Course {
    kind: Kind,
    source: Source,
    theirs: Theirs,
    ours: [Ours; 2],
    /// The batch that runs.
    calls: Vec<Call>,
    /// What the last batch left.
    keys: Vec<Key>,
    tally: Tally,
    branches: Branches,
}

impl Course {
    fn new(server: &Server, seed: u64) -> Self {
        Self {
            kind: server.kind(),
            source: Source::new(seed),
            theirs: Theirs::new(server),
            ours: [Ours::in_memory(), Ours::in_file()],
            calls: Vec::new(),
            keys: Vec::new(),
            tally: Tally::default(),
            branches: Branches::default(),
        }
    }

    /// Runs one batch on all sides and compares.
    fn step(&mut self) -> Result<(), String> {
        self.calls = (0..BATCH).map(|_| self.source.call()).collect();
        if self.source.below(16) == 0 {
            let pause = Duration::from_millis(20 + self.source.below(40));
            #[expect(clippy::disallowed_methods, reason = "keys expire as time goes by")]
            std::thread::sleep(pause);
        }
        let deadline = |key: &Key| Some(key.deadline).filter(|at| *at > 0);
        let deadlines = self
            .keys
            .iter()
            .map(|key| deadline(key).unwrap_or(i64::MAX));
        let deadlines: Vec<i64> = deadlines.collect();
        let theirs = loop {
            match self.theirs.run(&deadlines, &self.calls) {
                Some(report) => break report,
                None => self.tally.again += 1,
            }
        };
        let is_past = |at: &&i64| **at < theirs.start / 1000;
        self.tally.expired += deadlines.iter().filter(is_past).count() as u64;
        for (call, reply) in self.calls.iter_mut().zip(&theirs.replies) {
            self.tally.calls += 1;
            self.branches.note(call, reply);
            self.tally.errors += u64::from(matches!(reply, Seen::Error(_)));
            if is_close(reply) {
                call.way = Way::Skip;
                self.tally.left_out += 1;
            }
        }
        for engine in &mut self.ours {
            let ours = engine.run(theirs.start, &self.calls);
            compare::compare(engine.name(), self.kind, &self.calls, &ours, &theirs)?;
            engine.follow(&ours, &theirs);
        }
        self.keys = theirs.keys;
        Ok(())
    }
}

/// Whether `batch.lua` left a call out.
fn is_close(reply: &Seen) -> bool {
    let is_word = |seen: &Seen| matches!(seen, Seen::Text(text) if text == "close");
    match reply {
        Seen::Plain(inner) => is_word(inner),
        other => is_word(other),
    }
}

#[test]
fn every_command_and_every_script_is_called() {
    let mut source = Source::new(1);
    let names = (0..20_000).filter_map(|_| source.call().words.first().cloned());
    let names: BTreeSet<String> = names.map(|name| name.to_uppercase()).collect();

    for name in commands::names() {
        assert!(names.contains(name), "{name}");
    }
    for script in scripts() {
        assert!(
            names.contains(&script.name.to_uppercase()),
            "{}",
            script.name
        );
    }
}
