//! Plays recorded scenarios and compares each step: outcome, messages, keys that were written, keyspace.
//!
//! For the comparison, each field that our clients write for a tenure is replaced by the owner that wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ferrolock::{ErrorKind, Unlocked};
use testkit::fixtures::{
    Call, Caller, Content, KeyState, Object, Outcome, Primitive, Returned, Scenario, Step, Ttl,
    Word,
};
use testkit::{Reply, Server, Value};

use crate::actor::{Actor, Seen, object};
use crate::differences::{Habit, Instead, LeftKey, Ours, difference};
use crate::journal::Journal;

pub(crate) struct Player<'a> {
    server: &'a Server,
    scenario: &'a Scenario,
    journal: Journal,
    clients: BTreeMap<char, Actor>,
    /// Results of calls that returned earlier than in Java.
    early: BTreeMap<usize, Seen>,
    /// The keys that the last step left.
    left: BTreeSet<String>,
    /// When each step began, in milliseconds of the server's clock.
    begun: Vec<i64>,
    first: Instant,
    /// How much of the time since `first` passed in Java as well.
    meant: Duration,
    habits: BTreeSet<Habit>,
}

impl<'a> Player<'a> {
    /// Plays all steps; returns the habits in which our clients differed.
    pub(crate) async fn play(server: &'a Server, scenario: &'a Scenario) -> BTreeSet<Habit> {
        server.command(&["FLUSHALL"]);
        let mut clients = BTreeMap::new();
        for letter in ['U', 'V'] {
            clients.insert(letter, Actor::connect(server).await);
        }
        let mut player = Self {
            server,
            scenario,
            journal: Journal::of(server),
            clients,
            early: BTreeMap::new(),
            left: BTreeSet::new(),
            begun: Vec::new(),
            first: Instant::now(),
            meant: Duration::ZERO,
            habits: BTreeSet::new(),
        };
        for step in &scenario.steps {
            player.step(step).await;
        }
        player.end().await
    }

    async fn step(&mut self, step: &Step) {
        let ours = difference(&self.scenario.name, step.step).map(|difference| difference.ours);
        let at = format!(
            "{}, step {}: {:?}",
            self.scenario.name, step.step, step.call
        );
        self.begun.push(now(self.server));
        self.act(&at, step, ours).await;
        let served = match ours {
            Some(Ours::Served { step, .. }) => Some(step),
            Some(Ours::Instead(instead)) => instead.served,
            _ => None,
        };
        if let Some(step) = served
            && !self.early.contains_key(&step)
        {
            let seen = self.caller_of(step).finish(step).await;
            self.early.insert(step, seen);
        }
        for completion in &step.completes {
            let seen = match self.early.remove(&completion.step) {
                Some(seen) => seen,
                None => {
                    self.caller_of(completion.step)
                        .finish(completion.step)
                        .await
                }
            };
            let call = &self.scenario.steps[completion.step - 1];
            check_outcome(&at, call, &completion.reply, &seen, self.late());
        }
        self.check_pending(&at, step);
        let expected = self.expected(&at, step, ours);
        self.check_journal(&at, step, ours, &expected);
        self.check_keyspace(&at, &expected);
        self.left = expected.into_iter().map(|state| state.key).collect();
    }

    /// Does what the step says, and compares what its caller sees.
    async fn act(&mut self, at: &str, step: &Step, ours: Option<Ours>) {
        match &step.call {
            Call::Sleep(time) => {
                tokio::time::sleep(*time).await;
                self.meant += *time;
            }
            Call::WaitFor(_) => {}
            Call::Interrupt(of) => self.caller_of(*of).interrupt(*of),
            Call::Command(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let reply = self.server.command(&words);
                assert!(!matches!(reply, Reply::Error(_)), "{at}: {reply:?}");
            }
            Call::Create | Call::Method { .. } => self.call(at, step, ours).await,
        }
    }

    async fn call(&mut self, at: &str, step: &Step, ours: Option<Ours>) {
        let actor = self.caller_of(step.step);
        if let Some(Ours::NoSuchCall | Ours::NothingToGiveBack) = ours {
            assert_eq!(actor.guards(step), 0, "{at}: there is a guard to unlock");
            return;
        }
        let seen = actor.call(step).await;
        if let Some(Ours::Refused(kind)) = ours {
            assert_eq!(seen, Seen::Failed(kind), "{at}");
            return;
        }
        match ours {
            Some(Ours::Instead(Instead {
                seen: Some(other), ..
            })) => assert_eq!(seen, *other, "{at}"),
            _ => check_outcome(at, step, step.reply.as_ref().unwrap(), &seen, self.late()),
        }
        match seen {
            Seen::Pending => {
                let channel = prefixed(channel_of(step), &object(step).name);
                self.server.wait_for_subscribers(&channel, 1);
            }
            // In the recording the call waited for its whole time as well.
            Seen::Flag(false) => {
                let wait = step.call.millis("wait").unwrap_or(0);
                self.meant += Duration::from_millis(u64::try_from(wait).unwrap_or(0));
            }
            Seen::Unlocked(_) => drop(self.habits.insert(Habit::NoLatch)),
            _ => {}
        }
    }

    /// The client that made the call of a step.
    fn caller_of(&mut self, step: usize) -> &mut Actor {
        match self.scenario.steps[step - 1].owner {
            Caller::Thread { client, .. } => self.clients.get_mut(&client).unwrap(),
            other => panic!("{other} calls no method"),
        }
    }

    fn check_pending(&self, at: &str, step: &Step) {
        for (waiting, returned) in self.clients.values().flat_map(Actor::waiting) {
            assert!(!returned, "{at}: step {waiting} has returned");
            assert_ne!(step.call, Call::WaitFor(waiting), "{at}: it still waits");
        }
    }

    /// The keyspace that the step should leave.
    fn expected(&mut self, at: &str, step: &Step, ours: Option<Ours>) -> Vec<KeyState> {
        match ours {
            Some(Ours::Refused(_) | Ours::NothingToGiveBack) => Vec::new(),
            Some(Ours::Lease(lease)) => {
                let [held] = &step.keyspace[..] else {
                    panic!("{at}: one key")
                };
                let ttl = fresh(lease);
                vec![KeyState {
                    ttl,
                    ..held.clone()
                }]
            }
            Some(Ours::Served { step, lease }) => {
                let earlier = &self.scenario.steps[step - 1];
                vec![KeyState {
                    key: object(earlier).name.clone(),
                    kind: "hash".to_owned(),
                    value: Content::hash([(&earlier.owner.to_string(), "1")]),
                    ttl: fresh(lease),
                }]
            }
            Some(Ours::Instead(Instead {
                keys: Some(keys), ..
            })) => keys.iter().map(left_key).collect(),
            Some(Ours::NoSuchCall | Ours::Instead(_)) | None => {
                let left = with_one_hold_key(&step.keyspace);
                if left.len() != step.keyspace.len() {
                    self.habits.insert(Habit::OneHoldKey);
                }
                left
            }
        }
    }

    fn check_journal(&mut self, at: &str, step: &Step, ours: Option<Ours>, left: &[KeyState]) {
        let heard = self.journal.take();
        let silent = matches!(
            ours,
            Some(Ours::Refused(_) | Ours::NothingToGiveBack | Ours::NoSuchCall)
        );
        match ours {
            Some(Ours::Instead(Instead {
                messages: Some(other),
                ..
            })) => {
                let said = heard.messages.iter().map(|message| &*message.payload);
                assert!(said.eq(other.iter().copied()), "{at}: {heard:?}");
            }
            _ => {
                let recorded = if silent { &[][..] } else { &step.messages };
                assert_eq!(heard.messages, recorded, "{at}: messages");
            }
        }
        let touched: BTreeSet<_> = heard
            .touched
            .iter()
            .map(|key| self.named_key(key))
            .collect();
        for key in &touched {
            let recorded = self.left.contains(key) || left.iter().any(|state| state.key == *key);
            assert!(recorded, "{at}: {key:?} was written");
        }
        if !step.transient.is_empty() && !silent {
            let others = touched.iter().filter(|key| !key.contains(HOLD_KEY));
            // An unlock that finds nothing writes nothing.
            let found = matches!(step.reply, Some(Outcome::Returns(_)));
            let lock = found.then_some(&object(step).name);
            assert!(others.eq(lock), "{at}: the lock and no latch: {touched:?}");
        }
    }

    fn check_keyspace(&self, at: &str, expected: &[KeyState]) {
        let mut found = self.server.dump();
        for entry in &mut found {
            entry.key = self.named_key(&entry.key);
        }
        found.sort_by(|one, other| one.key.cmp(&other.key));
        let keys: Vec<_> = found.iter().map(|entry| &entry.key).collect();
        let recorded: Vec<_> = expected.iter().map(|state| &state.key).collect();
        assert_eq!(keys, recorded, "{at}: keys");
        for (entry, state) in found.iter().zip(expected) {
            let (key, value) = (&entry.key, self.named(at, &entry.value));
            assert_eq!(entry.kind, state.kind, "{at}: {key:?}");
            assert!(
                state.value.admits(&value, &self.begun),
                "{at}: {key:?} holds {value:?}, not {:?}",
                state.value
            );
            assert!(
                self.with_delays(state.ttl).admits(entry.ttl),
                "{at}: {key:?} lives {:?}, not {:?}",
                entry.ttl,
                state.ttl
            );
        }
    }

    /// How much longer the scenario took until now than it was meant to.
    fn late(&self) -> Duration {
        self.first.elapsed().saturating_sub(self.meant)
    }

    /// A slow machine makes times to live shorter, never longer, and by no more than it was late.
    fn with_delays(&self, ttl: Ttl) -> Ttl {
        let late = self.late();
        match ttl {
            Ttl::Unlimited => ttl,
            // The recording took a little longer from step to step than we do: what was left of a lease then may be more here.
            Ttl::Within { min, max } => Ttl::Within {
                min: min.saturating_sub(late),
                max: Duration::from_secs(max.as_millis().div_ceil(1000).try_into().unwrap()),
            },
        }
    }

    /// The value with our fields replaced by their owners.
    fn named(&self, at: &str, value: &Value) -> Value {
        let Value::Hash(fields) = value else {
            return value.clone();
        };
        let mut named = BTreeMap::new();
        for (field, count) in fields {
            let owner = self.named_field(field);
            let earlier: Option<&String> = named.get(&owner);
            // Of a reader that died the field stays, beside that of its next tenure.
            let count = match earlier.filter(|_| fields.contains_key("mode")) {
                Some(dead) => {
                    let counts = [dead, count].map(|count| count.parse::<u32>().unwrap());
                    counts.iter().sum::<u32>().to_string()
                }
                None => {
                    assert_eq!(earlier, None, "{at}: two fields of one owner in {fields:?}");
                    count.clone()
                }
            };
            named.insert(owner, count);
        }
        Value::Hash(named)
    }

    /// The field with its tenure replaced by the owner.
    fn named_field(&self, field: &str) -> String {
        let (tenure, end) = match field.strip_suffix(":write") {
            Some(tenure) => (tenure, ":write"),
            None => (field, ""),
        };
        let mut owners = self.clients.values();
        let owner = owners.find_map(|actor| actor.owner_of(tenure));
        owner.map_or(field.to_owned(), |owner| format!("{owner}{end}"))
    }

    /// The key with the tenure of a reader replaced by the owner.
    fn named_key(&self, key: &str) -> String {
        let parts = key.split_once(HOLD_KEY).and_then(|(front, number)| {
            let (front, thread) = front.rsplit_once(':')?;
            let (front, client) = front.rsplit_once(':')?;
            Some((front, format!("{client}:{thread}"), number))
        });
        match parts {
            Some((front, field, number)) => {
                format!("{front}:{}{HOLD_KEY}{number}", self.named_field(&field))
            }
            None => key.to_owned(),
        }
    }

    /// Asserts that no call waits, and that releasing what is left changes nothing.
    async fn end(mut self) -> BTreeSet<Habit> {
        let at = format!("{}, the end", self.scenario.name);
        let waiting: Vec<_> = self.clients.values().flat_map(Actor::waiting).collect();
        assert_eq!(waiting, [], "{at}");
        assert_eq!(self.early, BTreeMap::new(), "{at}");
        let is_all_given_up = self.left.is_empty();
        assert!(
            is_all_given_up || self.scenario.primitive == Primitive::ReadWriteLock,
            "{at}"
        );
        for actor in std::mem::take(&mut self.clients).into_values() {
            self.habits.append(&mut actor.leave().await);
        }
        if !is_all_given_up {
            return self.habits;
        }
        let heard = self.journal.take();
        assert_eq!(heard.messages, [], "{at}");
        assert_eq!(heard.touched, BTreeSet::new(), "{at}");
        assert_eq!(self.server.dump(), [], "{at}");
        self.habits
    }
}

/// Compares what the caller of `step` saw, in that step or later.
fn check_outcome(at: &str, step: &Step, recorded: &Outcome, seen: &Seen, late: Duration) {
    let same = match (recorded, seen) {
        (Outcome::Pending, Seen::Pending) => true,
        (Outcome::Returns(Returned::Void), Seen::Void) => true,
        (Outcome::Returns(Returned::Void), Seen::Unlocked(unlocked)) => {
            *unlocked == unlocked_in_java(at, step)
        }
        (Outcome::Returns(Returned::Flag(a)), Seen::Flag(b)) => a == b,
        (Outcome::Returns(Returned::Number(a)), Seen::Number(b)) => a == b,
        (Outcome::Returns(Returned::Millis(range)), Seen::Number(ms)) => {
            range.with_delay(late).admits(*ms)
        }
        (Outcome::Throws { class, cause: None }, Seen::Failed(kind)) => {
            *kind == counterpart(at, step, class)
        }
        _ => false,
    };
    assert!(same, "{at}: {seen:?}, not {recorded:?}");
}

/// The kind of error that corresponds to a Java exception.
fn counterpart(at: &str, step: &Step, class: &str) -> ErrorKind {
    match (class, step.call.method()) {
        ("IllegalMonitorStateException", "unlock") => ErrorKind::Lost,
        ("IllegalMonitorStateException", "lock" | "tryLock") => ErrorKind::WouldDeadlock,
        ("InterruptedException", "lockInterruptibly") => ErrorKind::Cancelled,
        (class, method) => panic!("{at}: {class} of {method}"),
    }
}

/// The result of an unlock according to Redisson's latch, which says whether the lock is free now.
fn unlocked_in_java(at: &str, step: &Step) -> Unlocked {
    let text = |word: &Word| match word {
        Word::Text(text) => text.clone(),
        other => panic!("{at}: {other:?}"),
    };
    let [
        KeyState {
            value: Content::Text(word),
            ..
        },
    ] = &step.transient[..]
    else {
        panic!("{at}: one latch, not {:?}", step.transient);
    };
    let Object { kind, name, .. } = object(step);
    let field = match kind.as_str() {
        "write lock" => format!("{}:write", step.owner),
        _ => step.owner.to_string(),
    };
    let count = step.keyspace.iter().find_map(|state| match &state.value {
        Content::Hash(fields) if state.key == *name => fields.get(&field).map(text),
        _ => None,
    });
    match (text(word).as_str(), count) {
        // A reader that leaves others behind has not freed the lock.
        ("1", _) | ("0", None) => Unlocked::Released,
        ("0", Some(count)) => Unlocked::StillHeld(count.parse().unwrap()),
        (other, _) => panic!("{at}: a latch of {other}"),
    }
}

/// In the name of every hold key of a reader.
const HOLD_KEY: &str = ":rwlock_timeout:";

/// What the channel of an object's releases is called.
fn channel_of(step: &Step) -> &'static str {
    match object(step).kind.as_str() {
        "read lock" | "write lock" => "redisson_rwlock",
        _ => "redisson_lock__channel",
    }
}

fn left_key(key: &LeftKey) -> KeyState {
    let word = |text: &str| Word::Text(text.to_owned());
    let fields = key.fields.iter();
    let fields = fields.map(|(field, value)| ((*field).to_owned(), word(value)));
    let (kind, value) = match key.fields.is_empty() {
        true => ("string", Content::Text(word("1"))),
        false => ("hash", Content::Hash(fields.collect())),
    };
    KeyState {
        key: key.name.to_owned(),
        kind: kind.to_owned(),
        value,
        ttl: fresh(key.lease),
    }
}

/// The keys with one hold key for each thread, which lives as long as the longest of those that were recorded.
fn with_one_hold_key(recorded: &[KeyState]) -> Vec<KeyState> {
    let mut left: Vec<KeyState> = Vec::new();
    for state in recorded {
        let mut state = state.clone();
        if let Some((front, _)) = state.key.split_once(HOLD_KEY) {
            state.key = format!("{front}{HOLD_KEY}1");
        }
        match left.last_mut().filter(|last| last.key == state.key) {
            Some(last) if most(last.ttl) >= most(state.ttl) => {}
            Some(last) => *last = state,
            None => left.push(state),
        }
    }
    left
}

fn most(ttl: Ttl) -> Duration {
    match ttl {
        Ttl::Unlimited => Duration::MAX,
        Ttl::Within { max, .. } => max,
    }
}

/// The name of something that belongs to an object, in the object's slot.
pub(crate) fn prefixed(prefix: &str, name: &str) -> String {
    match name.contains('{') {
        true => format!("{prefix}:{name}"),
        false => format!("{prefix}:{{{name}}}"),
    }
}

/// The time to live of a lease that began in this step.
pub(crate) fn fresh(lease: Duration) -> Ttl {
    Ttl::Within {
        min: lease.saturating_sub(Duration::from_millis(1200)),
        max: lease,
    }
}

fn now(server: &Server) -> i64 {
    let time = server.command(&["TIME"]).texts();
    let [seconds, micros] = [&time[0], &time[1]].map(|part| part.parse::<i64>().unwrap());
    seconds * 1000 + micros / 1000
}
