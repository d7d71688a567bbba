//! Plays recorded scenarios with our library and compares each step.
//!
//! An owner `U:42` is client `U` and an [`Owner`] of it, with the stack of guards it has on each name; `unlock` gives
//! back the youngest. The numbers that our clients take for tenures are read back as the owner that took them.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::time::{Duration, Instant};

use ferrolock::{CancellationToken, Client, ErrorKind, Guard, Lock, Owner, Remaining};
use testkit::fixtures::{KeyState, Outcome, Returned, Scenario, Step, Ttl};
use testkit::{LIMIT, Server, Value};
use tokio::task::JoinHandle;

use crate::differences::{Ours, difference};
use crate::journal::Journal;

type Taken = ferrolock::Result<Option<Guard>>;

pub(crate) struct Player<'a> {
    server: &'a Server,
    scenario: &'a Scenario,
    begun: Instant,
    journal: Journal,
    clients: BTreeMap<char, Client>,
    owners: BTreeMap<String, Owner>,
    guards: BTreeMap<(String, String), Vec<Guard>>,
    pending: BTreeMap<usize, Pending>,
    /// Fields on the server, and whose they are.
    fields: HashMap<String, String>,
}

struct Pending {
    owner: String,
    name: String,
    stop: CancellationToken,
    call: JoinHandle<Taken>,
}

impl<'a> Player<'a> {
    pub(crate) async fn new(server: &'a Server, scenario: &'a Scenario) -> Self {
        let mut clients = BTreeMap::new();
        for letter in ['U', 'V'] {
            let client = Client::connect(server.url()).await.unwrap();
            clients.insert(letter, client);
        }
        Self {
            server,
            scenario,
            begun: Instant::now(),
            journal: Journal::of(server),
            clients,
            owners: BTreeMap::new(),
            guards: BTreeMap::new(),
            pending: BTreeMap::new(),
            fields: HashMap::new(),
        }
    }

    pub(crate) async fn play(&mut self, step: &Step) {
        let ours = difference(&self.scenario.name, step.step).map(|difference| difference.ours);
        let at = format!("{}, step {}: {}", self.scenario.name, step.step, step.call);
        match ours {
            Some(Ours::NoSuchCall | Ours::NothingToGiveBack) => {
                assert_eq!(step.call, "unlock()", "{at}");
                let (owner, name) = self.who(step);
                let held = self.guards.get(&(owner, name)).map_or(0, Vec::len);
                assert_eq!(held, 0, "{at}: there is a guard to call it on");
            }
            Some(Ours::Refused(kind)) => {
                let outcome = self.act(step).await;
                assert_eq!(outcome, Some(Seen::Failed(kind)), "{at}");
            }
            _ => {
                let outcome = self.act(step).await;
                check_outcome(&at, step.reply.as_ref(), outcome);
            }
        }
        if let Some(Ours::Served { step, .. }) = ours {
            self.finish(&at, step).await;
        }
        for completion in &step.completes {
            if let Some(seen) = self.finish(&at, completion.step).await {
                check_outcome(&at, Some(&completion.reply), Some(seen));
            }
        }
        self.check_server(&at, step, ours);
        self.check_pending(&at);
    }

    /// Makes the call of a step.
    async fn act(&mut self, step: &Step) -> Option<Seen> {
        if step.owner == "peer" {
            let words: Vec<&str> = step
                .call
                .strip_prefix("redis: ")
                .unwrap()
                .split(' ')
                .collect();
            self.server.command(&words);
            return None;
        }
        if let Some(millis) = number_after(&step.call, "sleep ") {
            tokio::time::sleep(Duration::from_millis(millis)).await;
            return None;
        }
        if step.call.starts_with("wait until") {
            return None;
        }
        if let Some(of) = number_after(&step.call, "interrupt the thread that waits in step ") {
            self.pending[&usize::try_from(of).unwrap()].stop.cancel();
            return None;
        }
        let (owner, name) = self.who(step);
        let handle = self.handle(step, &owner, &name);
        let me = self.owners[&owner].clone();
        Some(match verb(&step.call) {
            "lock" | "lockInterruptibly" | "tryLock" => {
                return self.take(step, owner, name, handle).await;
            }
            "unlock" => {
                let guard = self.guards.get_mut(&(owner, name)).unwrap().pop().unwrap();
                seen(guard.unlock().await.map(|_| Seen::Void))
            }
            "forceUnlock" | "delete" => seen(handle.force_unlock().await.map(Seen::Flag)),
            "isLocked" => seen(handle.is_locked().await.map(Seen::Flag)),
            "isHeldByCurrentThread" => seen(handle.is_held_by(&me).await.map(Seen::Flag)),
            "getHoldCount" => seen(handle.hold_count(&me).await.map(|n| Seen::Number(n.into()))),
            "remainTimeToLive" => seen(handle.remaining().await.map(|rest| match rest {
                Remaining::Free => Seen::Number(-2),
                Remaining::Left(left) => Seen::Number(i64::try_from(left.as_millis()).unwrap()),
                other => panic!("{other:?}"),
            })),
            other => panic!("no such verb: {other}"),
        })
    }

    /// Acquires; whoever is to wait is left waiting, with its subscription made.
    async fn take(
        &mut self,
        step: &Step,
        owner: String,
        name: String,
        handle: Lock,
    ) -> Option<Seen> {
        let stop = CancellationToken::new();
        let handle = handle.cancelled_by(&stop);
        let wait = number_after(&step.call, "wait ").map(Duration::from_millis);
        let tries = step.call.starts_with("tryLock");
        let call = tokio::spawn(async move {
            match wait {
                Some(wait) => handle.try_lock_for(wait).await,
                None if tries => handle.try_lock().await,
                None => handle.lock().await.map(Some),
            }
        });
        if step.reply == Some(Outcome::Pending(true)) {
            let channel = channel(&name);
            self.server.wait_for_subscribers(&channel, 1);
            let pending = Pending {
                owner,
                name,
                stop,
                call,
            };
            self.pending.insert(step.step, pending);
            return Some(Seen::Pending);
        }
        let taken = tokio::time::timeout(LIMIT, call).await.unwrap().unwrap();
        Some(self.taken(&step.call, owner, name, taken))
    }

    fn taken(&mut self, call: &str, owner: String, name: String, taken: Taken) -> Seen {
        let void = call.starts_with("lock");
        match taken {
            Ok(Some(guard)) => {
                let field = guard.owner_id().to_string();
                self.fields.insert(field, owner.clone());
                self.guards.entry((owner, name)).or_default().push(guard);
                if void { Seen::Void } else { Seen::Flag(true) }
            }
            Ok(None) => Seen::Flag(false),
            Err(error) => Seen::Failed(error.kind()),
        }
    }

    /// Waits for the end of a call that was pending; `None` if its end was seen already.
    async fn finish(&mut self, at: &str, step: usize) -> Option<Seen> {
        let pending = self.pending.remove(&step)?;
        let taken = tokio::time::timeout(LIMIT, pending.call)
            .await
            .unwrap_or_else(|_| panic!("{at}: the call of step {step} still waits"))
            .unwrap();
        let call = &self.scenario.steps[step - 1].call;
        Some(self.taken(call, pending.owner, pending.name, taken))
    }

    fn check_pending(&self, at: &str) {
        for (step, pending) in &self.pending {
            assert!(
                !pending.call.is_finished(),
                "{at}: step {step} has returned"
            );
        }
    }

    fn check_server(&mut self, at: &str, step: &Step, ours: Option<Ours>) {
        let messages = self.journal.take();
        let empty = matches!(ours, Some(Ours::Refused(_) | Ours::NothingToGiveBack));
        let recorded = if empty { &[][..] } else { &step.messages };
        assert_eq!(messages, recorded, "{at}: messages");

        let expected: Vec<KeyState> = match ours {
            _ if empty => Vec::new(),
            Some(Ours::Lease(lease)) => {
                let [held] = &step.keyspace[..] else {
                    panic!("{at}: one key")
                };
                vec![KeyState {
                    ttl: fresh(lease),
                    ..held.clone()
                }]
            }
            Some(Ours::Served { step, lease }) => {
                let earlier = &self.scenario.steps[step - 1];
                vec![KeyState {
                    key: self.who(earlier).1,
                    kind: "hash".to_owned(),
                    value: Value::hash([(&earlier.owner, "1")]),
                    ttl: fresh(lease),
                }]
            }
            _ => step.keyspace.clone(),
        };
        let found = self.server.dump();
        let names = |keys: Vec<&String>| format!("{keys:?}");
        assert_eq!(
            names(found.iter().map(|entry| &entry.key).collect()),
            names(expected.iter().map(|state| &state.key).collect()),
            "{at}: keys"
        );
        for (entry, state) in found.iter().zip(&expected) {
            assert_eq!(entry.kind, state.kind, "{at}");
            assert_eq!(self.named(&entry.value), state.value, "{at}");
            let admitted = self.with_time_passed(state.ttl).admits(entry.ttl);
            assert!(
                admitted,
                "{at}: {:?} lives {:?}, not {:?}",
                entry.key, entry.ttl, state.ttl
            );
        }
    }

    /// A slow machine makes times to live shorter, never longer, and by no more than the time that has passed.
    fn with_time_passed(&self, ttl: Ttl) -> Ttl {
        match ttl {
            Ttl::Unlimited => ttl,
            Ttl::Within { min, max } => Ttl::Within {
                min: min.saturating_sub(self.begun.elapsed()),
                max,
            },
        }
    }

    /// The value with our fields read as their owners.
    fn named(&self, value: &Value) -> Value {
        let Value::Hash(fields) = value else {
            return value.clone();
        };
        let owner = |field: &String| self.fields.get(field).unwrap_or(field).clone();
        Value::Hash(
            fields
                .iter()
                .map(|(field, count)| (owner(field), count.clone()))
                .collect(),
        )
    }

    /// The caller of a step, and the name it is about.
    fn who(&mut self, step: &Step) -> (String, String) {
        let on = step.on.as_deref().unwrap();
        let name = on
            .strip_prefix("non-reentrant lock ")
            .or(on.strip_prefix("lock "))
            .unwrap();
        let name = name.strip_suffix(" (second object)").unwrap_or(name);
        self.owners
            .entry(step.owner.clone())
            .or_insert_with(Owner::new);
        (step.owner.clone(), name.to_owned())
    }

    fn handle(&mut self, step: &Step, owner: &str, name: &str) -> Lock {
        let acquires = matches!(verb(&step.call), "lock" | "tryLock" | "lockInterruptibly");
        if let Some(guards) = self.guards.get_mut(&(owner.to_owned(), name.to_owned()))
            && acquires
        {
            // Nobody comes for a lock again with a guard in hand that says it is lost.
            guards.retain(Guard::is_held);
        }
        let client = &self.clients[&owner.chars().next().unwrap()];
        let mut lock = client.lock(name).owned_by(&self.owners[owner]);
        if step.on.as_deref().unwrap().starts_with("non-reentrant") {
            lock = lock.non_reentrant();
        }
        match number_after(&step.call, "lease ") {
            Some(millis) => lock.lease(Duration::from_millis(millis)),
            None => lock,
        }
    }
}

/// What our caller saw.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Void,
    Flag(bool),
    Number(i64),
    Failed(ErrorKind),
    Pending,
}

fn seen(result: ferrolock::Result<Seen>) -> Seen {
    result.unwrap_or_else(|error| Seen::Failed(error.kind()))
}

fn check_outcome(at: &str, recorded: Option<&Outcome>, seen: Option<Seen>) {
    let same = match (recorded, &seen) {
        (None, None) => true,
        (Some(Outcome::Returns(Returned::Void)), Some(Seen::Void)) => true,
        (Some(Outcome::Returns(Returned::Flag(a))), Some(Seen::Flag(b))) => a == b,
        (Some(Outcome::Returns(Returned::Number(a))), Some(Seen::Number(b))) => a == b,
        (Some(Outcome::ReturnsMs(range)), Some(Seen::Number(ms))) => range.admits(*ms),
        (Some(Outcome::Pending(true)), Some(Seen::Pending)) => true,
        (Some(Outcome::Throws(class)), Some(Seen::Failed(kind))) => match class.as_str() {
            "IllegalMonitorStateException" => {
                matches!(kind, ErrorKind::Lost | ErrorKind::WouldDeadlock)
            }
            "InterruptedException" => *kind == ErrorKind::Cancelled,
            other => panic!("{at}: {other}"),
        },
        _ => false,
    };
    assert!(same, "{at}: {seen:?}, not {recorded:?}");
}

fn verb(call: &str) -> &str {
    call.split('(').next().unwrap()
}

/// The number behind a word; negative ones, which mean "none" in Java, are none.
fn number_after(call: &str, word: &str) -> Option<u64> {
    let rest = &call[call.find(word)? + word.len()..];
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn channel(name: &str) -> String {
    match name.contains('{') {
        true => format!("redisson_lock__channel:{name}"),
        false => format!("redisson_lock__channel:{{{name}}}"),
    }
}

fn fresh(lease: Duration) -> Ttl {
    Ttl::Within {
        min: lease.saturating_sub(Duration::from_millis(1200)),
        max: lease,
    }
}
