//! What our clients leave on a server, translated into what Redisson would have left there.
//!
//! The field of a tenure becomes its owner, a fence its number in the row of all fences, and a message to a client's inbox the
//! one to the waiter's own channel. Keys of ours alone are checked here, and left out. Nothing that is not translated here
//! goes unnoticed: it is compared with the recording.

use std::collections::BTreeMap;
use std::time::Duration;

use testkit::fixtures::{Content, KeyState, Message, Moment, Primitive, Step, Ttl, Word};
use testkit::{Entry, LIMIT, Value, eventually_async};

use super::Player;
use super::keys::{HOLD_KEY, channel_of, prefixed};
use crate::actor::{NODE_NAME, Seen, object};
use crate::differences::Habit;

pub(super) const TOKEN: &str = "redisson_lock_token:";
const QUEUE: &str = "redisson_lock_queue";
const INBOX: &str = "ferrolock_fair_inbox";
const OWN_CHANNEL: &str = "redisson_lock__channel";
/// How long a waiter that died keeps its place if only Redisson is left, in ms.
const RESERVE_MS: i64 = 300_000;
const HOUR: Duration = Duration::from_secs(3600);

/// Whether it is one of the keys of a fair lock's queue.
pub(super) fn is_of_queue(key: &str) -> bool {
    key.starts_with(QUEUE) || key.starts_with("redisson_lock_timeout") || is_own_of_queue(key)
}

pub(super) fn is_own_of_queue(key: &str) -> bool {
    key.starts_with("ferrolock_fair_")
}

impl Player<'_> {
    pub(super) fn is_fair(&self) -> bool {
        use Primitive::{FairLock, NonReentrantFairLock};
        matches!(self.scenario.primitive, FairLock | NonReentrantFairLock)
    }

    /// Whether it is a last fence of a quorum's node.
    pub(super) fn is_of_nodes(&self, key: &str) -> bool {
        self.scenario.primitive == Primitive::RedLock && key.starts_with(TOKEN)
    }

    /// Waits until the call of this step waits, and knows how the server calls it.
    pub(super) async fn until_it_waits(&mut self, step: &Step, refused: u64) {
        let name = &object(step).name;
        if object(step).kind == "spin lock" {
            let is_refused = async || refusals(self.server) > refused + 1;
            return eventually_async(LIMIT, "it asks again and again", is_refused).await;
        }
        if !self.is_fair() {
            let channel = prefixed(channel_of(step), name);
            return self.server.wait_for_subscribers(&channel, 1);
        }
        let queue = prefixed(QUEUE, name);
        let recorded = step.keyspace.iter().find_map(|state| match &state.value {
            Content::List(waiters) => Some(waiters.len()),
            _ => None,
        });
        let waiting = || {
            let queue = self.server.command(&["LRANGE", &queue, "0", "-1"]);
            queue.texts()
        };
        let is_in_line = async || Some(waiting().len()) == recorded;
        eventually_async(LIMIT, "it has a place", is_in_line).await;
        let place = waiting().pop().unwrap();
        let inbox = prefixed(INBOX, name);
        let client = place.rsplit_once(':').unwrap().0;
        let inbox = format!("{inbox}:{client}");
        self.caller_of(step.step).waits_as(place, step.owner);
        self.server.wait_for_subscribers(&inbox, 1);
    }

    /// Notes which fields are new on the server: those of a call that took several locks.
    pub(super) fn learn_fields(&mut self, step: &Step) {
        for entry in self.server.dump() {
            let Value::Hash(fields) = entry.value else {
                continue;
            };
            for field in fields.into_keys() {
                self.caller_of(step.step).may_have_taken(field, step.owner);
            }
        }
    }

    /// What is on the server, as Redisson would have it.
    pub(super) fn found(&mut self, at: &str) -> Vec<Entry> {
        let dumped = self.server.dump();
        let mut found: Vec<Entry> = dumped
            .iter()
            .filter(|entry| !self.is_of_ours_alone(at, entry, &dumped))
            .cloned()
            .collect();
        for entry in &mut found {
            entry.value = match &entry.value {
                Value::Text(fence) if entry.key.starts_with(TOKEN) => {
                    let number = self.number_of(at, fence.parse().unwrap());
                    Value::Text(number.to_string())
                }
                value => self.named(at, value),
            };
            entry.key = self.named_key(&entry.key);
        }
        found.sort_by(|one, other| one.key.cmp(&other.key));
        found
    }

    /// Whether Redisson has no such key; then it must be what `docs/keys.md` says.
    fn is_of_ours_alone(&mut self, at: &str, entry: &Entry, all: &[Entry]) -> bool {
        let at = format!("{at}: {entry:?}");
        if self.is_of_nodes(&entry.key) {
            let is_number =
                matches!(&entry.value, Value::Text(text) if text.parse::<u64>().is_ok());
            assert!(is_number && entry.ttl.is_none(), "{at}");
            self.habits.insert(Habit::FencedNodes);
            return true;
        }
        if !self.is_fair() || !is_own_of_queue(&entry.key) {
            return false;
        }
        let ends_within = |limit| entry.ttl.is_some_and(|ttl| ttl <= limit);
        match (entry.key.split_once(':').unwrap().0, &entry.value) {
            ("ferrolock_fair_clients", Value::SortedSet(heard)) => {
                let is_known = |id: &str| self.clients.values().any(|actor| actor.has_id(id));
                assert!(heard.iter().all(|(id, _)| is_known(id)), "{at}");
                assert!(ends_within(Duration::from_secs(60)), "{at}");
            }
            ("ferrolock_fair_waiters", Value::Hash(waiters)) => {
                let queue = all.iter().find(|other| other.key.starts_with(QUEUE));
                let queue = queue.map(|queue| &queue.value);
                let is_in_line =
                    |field| matches!(queue, Some(Value::List(queue)) if queue.contains(field));
                assert!(waiters.keys().all(is_in_line), "{at}: {queue:?}");
                assert!(ends_within(HOUR), "{at}");
            }
            ("ferrolock_fair_amnesty", Value::Text(_)) => {
                assert!(ends_within(Duration::from_secs(5)), "{at}");
            }
            _ => panic!("{at}: no such key"),
        }
        self.habits.insert(Habit::OwnPlaces);
        true
    }

    /// The recorded queue with the deadlines that we give: a reserve from when a waiter came, whatever others do.
    pub(super) fn with_own_deadlines(
        &mut self,
        step: &Step,
        mut keys: Vec<KeyState>,
    ) -> Vec<KeyState> {
        let lists = keys.iter().filter_map(|state| match &state.value {
            Content::List(waiters) => Some(waiters),
            _ => None,
        });
        let waiters: Vec<Word> = lists.flatten().cloned().collect();
        let is_waiting = |name: &String| waiters.contains(&Word::Text(name.clone()));
        self.came.retain(|name, _| is_waiting(name));
        for waiter in &waiters {
            if let Word::Text(name) = waiter
                && name.starts_with(['U', 'V'])
            {
                self.came.entry(name.clone()).or_insert(step.step);
            }
        }
        if self.came.is_empty() {
            return keys;
        }
        for state in keys.iter_mut().filter(|state| is_of_queue(&state.key)) {
            state.ttl = Ttl::Within {
                min: Duration::ZERO,
                max: HOUR,
            };
            if let Content::SortedSet(rows) = &mut state.value {
                for (member, score) in rows {
                    let Word::Text(name) = member else { continue };
                    *score = Word::Time(Moment {
                        step: self.came.get(name).copied(),
                        after: RESERVE_MS,
                    });
                }
            }
        }
        keys
    }

    /// The number of a fence among all that this scenario has seen; a new one is larger than all, and than the server's time.
    fn number_of(&mut self, at: &str, fence: u64) -> usize {
        if let Some(known) = self.fences.iter().position(|known| *known == fence) {
            return known + 1;
        }
        let (last, begun) = (self.fences.last(), self.begun.last().unwrap());
        assert!(last.is_none_or(|last| fence > *last), "{at}: {fence}");
        assert!(fence >= begun.unsigned_abs() * 1000, "{at}: {fence}");
        self.habits.insert(Habit::FencesFromTime);
        self.fences.push(fence);
        self.fences.len()
    }

    /// What a caller saw, with a fence as its number.
    pub(super) fn named_seen(&mut self, at: &str, step: &Step, seen: Seen) -> Seen {
        match seen {
            Seen::Number(fence) if step.call.method().ends_with("Token") => {
                let number = self.number_of(at, fence.unsigned_abs());
                Seen::Number(i64::try_from(number).unwrap())
            }
            seen => seen,
        }
    }

    /// The value with our fields replaced by their owners.
    fn named(&self, at: &str, value: &Value) -> Value {
        match value {
            Value::Hash(fields) => Value::Hash(self.named_fields(at, fields)),
            Value::List(fields) => {
                Value::List(fields.iter().map(|field| self.named_field(field)).collect())
            }
            Value::SortedSet(rows) => {
                let named =
                    |(field, score): &(String, String)| (self.named_field(field), score.clone());
                Value::SortedSet(rows.iter().map(named).collect())
            }
            other => other.clone(),
        }
    }

    fn named_fields(
        &self,
        at: &str,
        fields: &BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
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
        named
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

    /// The key as Redisson would call it: with the owner in place of a reader's tenure, and without what a node adds.
    pub(super) fn named_key(&self, key: &str) -> String {
        let parts = key.split_once(HOLD_KEY).and_then(|(front, number)| {
            let (front, thread) = front.rsplit_once(':')?;
            let (front, client) = front.rsplit_once(':')?;
            Some((front, format!("{client}:{thread}"), number))
        });
        match parts {
            Some((front, field, number)) => {
                format!("{front}:{}{HOLD_KEY}{number}", self.named_field(&field))
            }
            None => key.replace(NODE_NAME, ""),
        }
    }

    /// A message to a client's inbox is the one that Redisson sends to the waiter.
    pub(super) fn named_message(&mut self, message: Message) -> Message {
        let inbox = message.channel.strip_prefix(INBOX);
        let Some((name, client)) = inbox.and_then(|inbox| inbox.rsplit_once(':')) else {
            let channel = message.channel.replace(NODE_NAME, "");
            return Message { channel, ..message };
        };
        self.habits.insert(Habit::Inbox);
        let owner = self.named_field(&format!("{client}:{}", message.payload));
        Message {
            channel: format!("{OWN_CHANNEL}{name}:{owner}"),
            payload: "0".to_owned(),
        }
    }
}

/// How often the server has answered that a lock is held.
pub(super) fn refusals(server: &testkit::Server) -> u64 {
    let stats = server.commandstats();
    stats.get("pttl").copied().unwrap_or_default()
}
