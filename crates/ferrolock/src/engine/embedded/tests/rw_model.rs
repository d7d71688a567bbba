//! Random sequences of reads, writes, re-entries, downgrades, releases and expiries, against a small model.
//!
//! On each embedded engine, and on servers. After every step the replies and all keys are the same. Independent of the model: a hold is there until the end that it
//! was promised, whatever others do; and while one writes, nobody else holds.

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::rw_places::InFile;
use super::rw_places::{OnServer, Place};
use super::rw_table::{GRANTED, Table, bearer, hold};
use super::*;
use crate::protocol::renewal;
use crate::protocol::rw_lock::ReadScheme;
use crate::protocol::scheme::{
    AttemptReply, Release, Rest, Scheme, Standing, read_release, read_standing,
};

/// What the server should have. Times are in ms; `now` is even and leases are odd, so that none ends just now.
#[derive(Debug, Default)]
struct Model {
    now: u64,
    mode: Option<&'static str>,
    until: u64,
    fields: BTreeMap<String, u32>,
    holds: BTreeMap<String, u64>,
}

impl Model {
    fn pass(&mut self, time: u64) {
        self.now += time;
        let now = self.now;
        self.holds.retain(|_, until| *until > now);
        if self.until < now {
            self.vanish();
        }
    }

    fn vanish(&mut self) {
        self.mode = None;
        self.until = 0;
        self.fields.clear();
    }

    /// When the last living reader ends.
    fn last_reader(&self) -> Option<u64> {
        let living = self.fields.keys().filter_map(|field| self.holds.get(field));
        living.max().copied()
    }

    fn raise(&mut self, until: u64) {
        self.until = self.until.max(until);
    }

    fn raise_hold(&mut self, field: &str, until: u64) {
        let held = self.holds.entry(field.to_owned()).or_default();
        *held = until.max(*held);
        self.raise(until);
    }

    fn busy(&self, until: u64) -> AttemptReply {
        AttemptReply::Busy(Rest::Left(Duration::from_millis(until - self.now)).into())
    }

    fn read(&mut self, field: &str, beside: Option<&str>, lease: u64) -> AttemptReply {
        let own = beside.is_some_and(|write| self.fields.contains_key(write));
        if self.mode == Some("write") && !own {
            return self.busy(self.until);
        }
        self.mode.get_or_insert("read");
        self.fields.insert(field.to_owned(), 1);
        self.raise_hold(field, self.now + lease);
        GRANTED
    }

    fn write(&mut self, field: &str, lease: u64) -> AttemptReply {
        match (self.mode, self.last_reader()) {
            (Some("write"), _) => return self.busy(self.until),
            (Some(_), Some(until)) => return self.busy(until),
            _ => self.vanish(),
        }
        self.mode = Some("write");
        self.fields.insert(field.to_owned(), 1);
        self.until = self.now + lease;
        GRANTED
    }

    /// What a call finds that needs the hold of that field.
    fn standing(&self, field: &str) -> Standing {
        let is_write = field.ends_with(":write");
        match self.fields.contains_key(field) {
            true if is_write || self.holds.contains_key(field) => Standing::Ours,
            true => Standing::Gone,
            false if self.mode == Some("write") || is_write && self.mode.is_some() => {
                Standing::Taken
            }
            false => Standing::Gone,
        }
    }

    /// A renewal, a re-entry or a release that leaves something.
    fn keep(&mut self, field: &str, lease: u64, count: Option<u32>) -> Standing {
        let standing = self.standing(field);
        if standing == Standing::Ours {
            match field.ends_with(":write") {
                true => self.raise(self.now + lease),
                false => self.raise_hold(field, self.now + lease),
            }
            let held = self.fields.entry(field.to_owned()).or_default();
            *held = count.unwrap_or(*held);
        }
        standing
    }

    fn delay(&mut self, field: &str, stay: u64) -> Standing {
        let (standing, until) = (self.standing(field), self.now + stay);
        if standing == Standing::Ours {
            if let Some(held) = self.holds.get_mut(field) {
                *held = until;
            }
            self.until = match self.fields.len() {
                1 => until,
                _ => self.until.max(until),
            };
        }
        standing
    }

    fn release(&mut self, field: &str) -> Release {
        if self.fields.remove(field).is_none() {
            return Release::Not(self.standing(field));
        }
        self.holds.remove(field);
        if field.ends_with(":write") {
            self.after_write();
            return Release::Free { heard: 0 };
        }
        match (self.mode, self.last_reader()) {
            (Some("write"), _) => return Release::Shared,
            (_, Some(until)) => self.until = self.until.min(until),
            (_, None) => {
                self.vanish();
                return Release::Free { heard: 0 };
            }
        }
        Release::Shared
    }

    fn after_write(&mut self) {
        match self.last_reader() {
            Some(until) => (self.mode, self.until) = (Some("read"), until),
            None => self.vanish(),
        }
    }

    fn downgrade(&mut self, from: &str, to: &str, lease: u64) -> AttemptReply {
        if self.fields.remove(from).is_none() {
            return AttemptReply::Busy(Rest::NoExpiry.into());
        }
        self.fields.insert(to.to_owned(), 1);
        self.raise_hold(to, self.now + lease);
        self.after_write();
        GRANTED
    }
}

/// An owner's holds, and until when each was promised.
#[derive(Debug, Default)]
struct OwnerHolds {
    read: Option<(String, u64)>,
    write: Option<(String, u64)>,
}

struct Play<P> {
    table: Table<P>,
    model: Model,
    owners: [OwnerHolds; 3],
    numbers: u32,
    random: fastrand::Rng,
    log: Vec<String>,
}

/// Plays as many sequences as that, each at a place without a key.
async fn play<P: Place>(rounds: u32, place: impl Fn() -> P) {
    let seed = testkit::seed("FERROLOCK_MODEL_SEED", || fastrand::u64(..1 << 32));
    for round in 0..u64::from(rounds) {
        let mut play = Play::new(seed + round, place());
        for _ in 0..80 {
            play.step().await;
            play.compare(seed + round);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn random_sequences_leave_what_the_model_says() {
    play(testkit::count(100, 1000), || MemoryEngine::open(None)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn random_sequences_in_a_store_leave_what_the_model_says() {
    play(testkit::count(10, 100), InFile::new).await;
}

#[tokio::test]
async fn random_sequences_on_servers_leave_what_the_model_says() {
    for kind in testkit::servers() {
        let server = OnServer::new(kind);
        let cleared = || {
            server.clear();
            &server
        };
        play(testkit::count(20, 200), cleared).await;
    }
}

impl<P: Place> Play<P> {
    fn new(seed: u64, place: P) -> Self {
        Self {
            table: Table::at(place),
            model: Model::default(),
            owners: Default::default(),
            numbers: 0,
            random: fastrand::Rng::with_seed(seed),
            log: Vec::new(),
        }
    }

    fn next_field(&mut self, owner: usize, suffix: &str) -> String {
        self.numbers += 1;
        format!("{owner}:{}{suffix}", self.numbers)
    }

    async fn step(&mut self) {
        let owner = self.random.usize(..3);
        let lease = self.random.u64(1..5000) * 2 + 1;
        let is_read = self.random.bool();
        match self.random.u8(..12) {
            0..=3 => self.acquire(owner, is_read, lease),
            4..=7 => self.change(owner, is_read, lease),
            8 => self.downgrade(owner, lease),
            _ => {
                let time = self.random.u64(..1500) * 2;
                self.log.push(format!("{time} ms pass"));
                self.table.engine.pass(self.table.time(time)).await;
                self.model.pass(time);
            }
        }
    }

    /// A first acquire, as the client makes it: none if the owner is inside, or would wait for itself.
    fn acquire(&mut self, owner: usize, is_read: bool, lease: u64) {
        let now = self.model.now;
        let live = |held: &Option<(String, u64)>| {
            let held = held.as_ref().filter(|(_, until)| *until > now);
            held.map(|(field, _)| field.clone())
        };
        let OwnerHolds { read, write } = &self.owners[owner];
        let (read, write) = (live(read), live(write));
        if is_read && read.is_some() || !is_read && (read.is_some() || write.is_some()) {
            return;
        }
        let field = self.next_field(owner, if is_read { "" } else { ":write" });
        self.log
            .push(format!("{field} beside {write:?} for {lease}"));
        let (by, ms) = (bearer(&field), self.table.time(lease));
        let (found, expected) = match (is_read, &write) {
            (true, Some(write)) => (
                self.table.reads_beside(&by, write, ms),
                self.model.read(&field, Some(write), lease),
            ),
            (true, None) => (
                self.table.reads(&by, ms),
                self.model.read(&field, None, lease),
            ),
            (false, _) => (self.table.writes(&by, ms), self.model.write(&field, lease)),
        };
        assert_eq!(found, expected, "{:#?}", self.log);
        if found == GRANTED {
            *self.side(owner, is_read) = Some((field, now + lease));
        }
    }

    fn side(&mut self, owner: usize, is_read: bool) -> &mut Option<(String, u64)> {
        let holds = &mut self.owners[owner];
        match is_read {
            true => &mut holds.read,
            false => &mut holds.write,
        }
    }

    /// One of the calls that need a hold, also after its end.
    fn change(&mut self, owner: usize, is_read: bool, lease: u64) {
        let Some((field, promised)) = self.side(owner, is_read).take() else {
            return;
        };
        let (by, ms) = (bearer(&field), self.table.time(lease));
        let count = self.random.u32(1..4);
        let what = self.random.u8(..6);
        self.log
            .push(format!("{what} of {field}, {lease} ms, count {count}"));
        let Play { table, model, .. } = self;
        let side: &dyn Scheme = if is_read { &table.read } else { &table.write };
        let run = |call| table.engine.run(call);
        let (found, expected) = match what {
            0 => (
                read_standing(run(side.reenter(&by, ms, count))).unwrap(),
                model.keep(&field, lease, Some(count)),
            ),
            1 => (
                renewal::read_one(run(side.renew(&by, ms).call())).unwrap(),
                model.keep(&field, lease, None),
            ),
            2 => (
                read_standing(run(side.delay_release(&by, ms))).unwrap(),
                model.delay(&field, lease),
            ),
            3 => {
                let found = read_release(run(side.release(&by, count, ms)), count).unwrap();
                let found = match found {
                    Release::Left => Standing::Ours,
                    Release::Not(standing) => standing,
                    other => panic!("{other:?}"),
                };
                (found, model.keep(&field, lease, Some(count)))
            }
            _ => {
                let found = read_release(run(side.release(&by, 0, ms)), 0).unwrap();
                assert_eq!(found, model.release(&field), "{:#?}", self.log);
                return;
            }
        };
        assert_eq!(found, expected, "{:#?}", self.log);
        let until = match what {
            2 => model.now + lease,
            _ => promised.max(model.now + lease),
        };
        if found == Standing::Ours {
            *self.side(owner, is_read) = Some((field, until));
        }
    }

    fn downgrade(&mut self, owner: usize, lease: u64) {
        let Some((from, _)) = self.side(owner, false).take() else {
            return;
        };
        let to = self.next_field(owner, "");
        self.log.push(format!("{from} becomes {to} for {lease}"));
        let scheme = ReadScheme::instead_of("orders".into(), bearer(&from));
        let ms = self.table.time(lease);
        let found = self.table.acquire(&scheme, &bearer(&to), ms);
        assert_eq!(
            found,
            self.model.downgrade(&from, &to, lease),
            "{:#?}",
            self.log
        );
        if found == GRANTED {
            *self.side(owner, true) = Some((to, self.model.now + lease));
        }
    }

    fn compare(&self, seed: u64) {
        let (table, model) = (&self.table, &self.model);
        let at = || format!("seed {seed}, {model:#?} after {:#?}", self.log);
        let rest = |until: u64| Some((until - model.now) as i64);
        let until = model.mode.and_then(|_| rest(model.until));
        assert_eq!(table.left("orders"), until, "{}", at());
        assert_eq!(table.field("mode").as_deref(), model.mode, "{}", at());
        for (field, count) in &model.fields {
            assert_eq!(table.field(field), Some(count.to_string()), "{}", at());
        }
        let numbers = 0..=self.numbers;
        let fields =
            numbers.flat_map(|number| (0..3).map(move |owner| format!("{owner}:{number}")));
        let fields: Vec<String> = fields.collect();
        let keys: Vec<String> = fields.iter().map(|field| hold(field)).collect();
        for (field, left) in fields.iter().zip(table.lefts(&keys)) {
            let held = model.holds.get(field).and_then(|until| rest(*until));
            assert_eq!(left, held, "{}", at());
        }
        self.promises_are_kept(at);
    }

    /// Says nothing of what the scripts do: only of what holders were told.
    fn promises_are_kept(&self, at: impl Fn() -> String) {
        let now = self.model.now;
        let kept =
            |held: &Option<(String, u64)>| held.as_ref().is_some_and(|(_, until)| *until > now);
        let lasts = |until: u64| self.table.left("orders").unwrap_or(0) >= (until - now) as i64;
        for (owner, holds) in self.owners.iter().enumerate() {
            for (field, until) in holds.read.iter().chain(&holds.write) {
                if *until > now {
                    assert!(
                        self.table.field(field).is_some() && lasts(*until),
                        "{}",
                        at()
                    );
                }
            }
            let others = self.owners.iter().enumerate();
            let mut others = others.filter(|(other, _)| *other != owner);
            let is_alone =
                |(_, other): (usize, &OwnerHolds)| !kept(&other.read) && !kept(&other.write);
            assert!(!kept(&holds.write) || others.all(is_alone), "{}", at());
        }
    }
}
