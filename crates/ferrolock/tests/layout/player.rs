//! Plays recorded scenarios and compares each step: outcome, messages, keys that were written, keyspace.
//!
//! For the comparison, each field that our clients write for a tenure is replaced by the owner that wrote it.

mod keys;
mod ours;
mod outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use testkit::fixtures::{
    Call, Caller, Content, KeyState, Message, Outcome, Primitive, Scenario, Step, Ttl, Word,
};
use testkit::{LIMIT, Reply, Server, Value, eventually_async};

use crate::actor::{Actor, Seen, names};
use crate::differences::{Habit, Instead, Ours, difference};
use crate::journal::{Heard, Journal};
use keys::{HOLD_KEY, left_key, with_lease, with_one_hold_key};
use ours::{TOKEN, is_of_queue, is_own_of_queue, refusals};
use outcome::check_outcome;

pub(crate) use keys::{fresh, prefixed};

pub(crate) struct Player<'a> {
    server: &'a Server,
    scenario: &'a Scenario,
    journal: Journal,
    clients: BTreeMap<char, Actor>,
    /// Results of calls that returned earlier than in Java.
    early: BTreeMap<usize, Seen>,
    /// The steps whose calls returned at once, and still waited in Java.
    returned: BTreeSet<usize>,
    /// The keys that the last step left.
    left: Vec<KeyState>,
    /// The fences that were given out, in order.
    fences: Vec<u64>,
    /// In which step each waiter that is in the queue came.
    came: BTreeMap<String, usize>,
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
            let actor = Actor::connect(server, scenario.primitive).await;
            clients.insert(letter, actor);
        }
        let mut player = Self {
            server,
            scenario,
            journal: Journal::of(server),
            clients,
            early: BTreeMap::new(),
            returned: BTreeSet::new(),
            left: Vec::new(),
            fences: Vec::new(),
            came: BTreeMap::new(),
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
            if self.returned.remove(&completion.step) {
                continue;
            }
            let seen = match self.early.remove(&completion.step) {
                Some(seen) => seen,
                None => {
                    let caller = self.caller_of(completion.step);
                    caller.finish(completion.step).await
                }
            };
            let call = &self.scenario.steps[completion.step - 1];
            let seen = self.named_seen(&at, call, seen);
            match (ours, &step.call) {
                (
                    Some(Ours::Instead(Instead {
                        seen: Some(other), ..
                    })),
                    Call::WaitFor(_),
                ) => assert_eq!(seen, *other, "{at}"),
                _ => check_outcome(&at, call, &completion.reply, &seen, self.late()),
            }
        }
        self.check_pending(&at, step);
        let expected = self.expected(&at, step, ours);
        self.settled(&at, &expected).await;
        self.check_journal(&at, step, ours, &expected).await;
        self.check_keyspace(&at, &expected);
        self.left = expected;
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
                let words: Vec<String> = words.iter().map(|word| self.written(word)).collect();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let reply = self.server.command(&words);
                assert!(!matches!(reply, Reply::Error(_)), "{at}: {reply:?}");
            }
            Call::Create | Call::Method { .. } => self.call(at, step, ours).await,
        }
    }

    async fn call(&mut self, at: &str, step: &Step, ours: Option<Ours>) {
        let refused = refusals(self.server);
        let instead = match ours {
            Some(Ours::Instead(instead)) => instead.seen.as_ref(),
            _ => None,
        };
        let waits = step.reply == Some(Outcome::Pending) && instead.is_none();
        let actor = self.caller_of(step.step);
        if let Some(Ours::NoSuchCall | Ours::NothingToGiveBack) = ours {
            assert_eq!(actor.guards(step), 0, "{at}: there is a guard to unlock");
            return;
        }
        let seen = actor.call(step, waits).await;
        if let Some(Ours::Refused(kind)) = ours {
            assert_eq!(seen, Seen::Failed(kind), "{at}");
            return;
        }
        if names(step).len() > 1 {
            self.learn_fields(step);
        }
        let seen = self.named_seen(at, step, seen);
        match instead {
            Some(other) => {
                assert_eq!(seen, *other, "{at}");
                if step.reply == Some(Outcome::Pending) {
                    self.returned.insert(step.step);
                }
            }
            None => check_outcome(at, step, step.reply.as_ref().unwrap(), &seen, self.late()),
        }
        match seen {
            Seen::Pending => self.until_it_waits(step, refused).await,
            // In the recording the call waited for its whole time as well.
            Seen::Flag(false) | Seen::Null => {
                let wait = step.call.millis("wait").unwrap_or(0);
                self.meant += Duration::from_millis(u64::try_from(wait).unwrap_or(0));
            }
            Seen::Unlocked(_) => drop(self.habits.insert(Habit::NoLatch)),
            _ => {}
        }
    }

    /// A word of a command, with the time that it stands for.
    fn written(&self, word: &str) -> String {
        match Word::try_from(word.to_owned()) {
            Ok(Word::Time(moment)) => (self.begun.last().unwrap() + moment.after).to_string(),
            _ => word.to_owned(),
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
        let left = match ours {
            Some(Ours::Refused(_) | Ours::NothingToGiveBack) => Vec::new(),
            Some(Ours::Lease(lease)) => with_lease(at, &step.keyspace, lease),
            Some(Ours::Served { step, lease }) => {
                let earlier = &self.scenario.steps[step - 1];
                vec![KeyState {
                    key: names(earlier)[0].clone(),
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
        };
        self.with_own_deadlines(step, left)
    }

    /// Waits for what comes after a call has returned: a node that answers last joins the hold, and a place in a queue goes.
    async fn settled(&self, at: &str, expected: &[KeyState]) {
        let is_counted = |kind: &str| match self.scenario.primitive {
            Primitive::RedLock => kind == "hash",
            _ => self.is_fair() && kind == "list",
        };
        let size = |value: &Content| match value {
            Content::List(waiters) => waiters.len(),
            _ => 1,
        };
        let expected = expected.iter().filter(|state| is_counted(&state.kind));
        let wanted: usize = expected.map(|state| size(&state.value)).sum();
        let is_there = async || {
            let found = self.server.dump();
            let found = found.iter().filter(|entry| is_counted(&entry.kind));
            let sizes = found.map(|entry| match &entry.value {
                Value::List(waiters) => waiters.len(),
                _ => 1,
            });
            sizes.sum::<usize>() == wanted
        };
        eventually_async(LIMIT, &format!("{at}: {wanted} holds or waiters"), is_there).await;
    }

    async fn check_journal(
        &mut self,
        at: &str,
        step: &Step,
        ours: Option<Ours>,
        left: &[KeyState],
    ) {
        let silent = matches!(
            ours,
            Some(Ours::Refused(_) | Ours::NothingToGiveBack | Ours::NoSuchCall)
        );
        let instead = match ours {
            Some(Ours::Instead(instead)) => Some(instead),
            _ => None,
        };
        let recorded = if silent { &[][..] } else { &step.messages };
        let said = instead.and_then(|instead| instead.messages);
        let heard = self.hear(said.map_or(recorded.len(), <[_]>::len)).await;
        match said {
            Some(said) => {
                let heard = heard.messages.iter().map(|message| &*message.payload);
                assert!(heard.eq(said.iter().copied()), "{at}: messages");
            }
            None => assert_eq!(heard.messages, recorded, "{at}: messages"),
        }
        let passing = instead.map_or(&[][..], |instead| instead.passing);
        for key in &heard.touched {
            let states = self.left.iter().chain(left);
            let is_known = states.into_iter().any(|state| state.key == *key);
            // A waiter that gives up within its step: of keys that come and go the recording has only latches.
            let waited = step.call.millis("wait").is_some() && is_of_queue(key);
            let is_own = is_own_of_queue(key) || self.is_of_nodes(key);
            let is_meant = is_known || passing.contains(&&**key) || waited || is_own;
            assert!(is_meant, "{at}: {key:?} was written");
        }
        if step.call.method() == "unlock" && !step.transient.is_empty() && !silent {
            let others = heard.touched.iter();
            // The next holder, if there is one, has got a fence by now.
            let is_for_next = |key: &str| key.starts_with(TOKEN) && !step.completes.is_empty();
            let is_beside = |key: &str| key.contains(HOLD_KEY) || is_of_queue(key);
            let others = others.filter(|key| !is_beside(key) && !is_for_next(key));
            // An unlock that finds nothing writes nothing.
            let instead = instead.and_then(|instead| instead.seen.as_ref());
            let found = matches!(step.reply, Some(Outcome::Returns(_)))
                && !matches!(instead, Some(Seen::Failed(_) | Seen::NoSuchCall));
            let latches: BTreeSet<&str> = step.transient.iter().map(|state| &*state.key).collect();
            let is_unlocked = |name: &&String| {
                let latch = prefixed("redisson_unlock_latch", name);
                found && latches.iter().any(|key| key.starts_with(&latch))
            };
            let locks = names(step).iter().filter(is_unlocked);
            assert!(others.eq(locks), "{at}: locks and no latch: {heard:?}");
        }
    }

    /// What was heard in this step. A quorum gives back some holds after its call has returned.
    async fn hear(&mut self, messages: usize) -> Heard {
        let mut heard = self.journal.take();
        if self.scenario.primitive == Primitive::RedLock {
            let until = Instant::now() + LIMIT;
            while heard.messages.len() < messages && Instant::now() < until {
                let mut more = self.journal.take();
                heard.messages.append(&mut more.messages);
                heard.touched.append(&mut more.touched);
            }
        }
        let messages = std::mem::take(&mut heard.messages).into_iter();
        heard.messages = messages
            .map(|message| self.named_message(message))
            .collect();
        if self.is_of_several() {
            // The members are given back at the same time.
            let key = |message: &Message| message.channel.clone();
            heard.messages.sort_by_key(key);
        }
        heard.touched = heard
            .touched
            .iter()
            .map(|key| self.named_key(key))
            .collect();
        heard
    }

    fn is_of_several(&self) -> bool {
        matches!(
            self.scenario.primitive,
            Primitive::MultiLock | Primitive::RedLock
        )
    }

    fn check_keyspace(&mut self, at: &str, expected: &[KeyState]) {
        let found = self.found(at);
        let keys: Vec<_> = found.iter().map(|entry| &entry.key).collect();
        let recorded: Vec<_> = expected.iter().map(|state| &state.key).collect();
        assert_eq!(keys, recorded, "{at}: keys");
        for (entry, state) in found.iter().zip(expected) {
            let (key, value) = (&entry.key, &entry.value);
            assert_eq!(entry.kind, state.kind, "{at}: {key:?}");
            assert!(
                state.value.admits(value, &self.begun),
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

    /// Asserts that no call waits, and that releasing what is left changes nothing.
    async fn end(mut self) -> BTreeSet<Habit> {
        let at = format!("{}, the end", self.scenario.name);
        let waiting: Vec<_> = self.clients.values().flat_map(Actor::waiting).collect();
        assert_eq!(waiting, [], "{at}");
        assert_eq!(self.early, BTreeMap::new(), "{at}");
        let is_all_given_up = !self.left.iter().any(|state| state.kind == "hash");
        let may_hold = self.is_fair()
            || matches!(
                self.scenario.primitive,
                Primitive::ReadWriteLock | Primitive::RedLock
            );
        assert!(is_all_given_up || may_hold, "{at}");
        for actor in std::mem::take(&mut self.clients).into_values() {
            self.habits.append(&mut actor.leave().await);
        }
        if !is_all_given_up {
            return self.habits;
        }
        let heard = self.journal.take();
        assert_eq!(heard.messages, [], "{at}");
        let touched: Vec<_> = heard
            .touched
            .iter()
            .filter(|key| !is_own_of_queue(key))
            .collect();
        assert_eq!(touched, [""; 0], "{at}");
        let left: Vec<_> = self.left.iter().map(|state| &state.key).collect();
        let keys = self.server.keys();
        let is_shared = |key: &&String| !is_own_of_queue(key) && !self.is_of_nodes(key);
        let keys: Vec<_> = keys.iter().filter(is_shared).collect();
        assert_eq!(keys, left, "{at}");
        self.habits
    }
}

fn now(server: &Server) -> i64 {
    let time = server.command(&["TIME"]).texts();
    let [seconds, micros] = [&time[0], &time[1]].map(|part| part.parse::<i64>().unwrap());
    seconds * 1000 + micros / 1000
}
