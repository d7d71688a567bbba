//! What a stage shows of its locks from outside, and what others than their holders do to them.

use std::collections::BTreeMap;
use std::time::Duration;

use ferrolock::{OwnerId, Remaining};
use testkit::{LIMIT, Server, Value, eventually_async};
use tokio::time::sleep;

use super::kinds::Parts;
use super::{Stage, TestGuard, TestLock};

/// A lock as another client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Fields and counts: those of the first part whose counts all parts show, or most of a quorum's; else those of all parts.
    pub(crate) holds: BTreeMap<String, u32>,
    pub(crate) ttl: Duration,
    /// Fields and counts of each part that is held.
    parts: Vec<BTreeMap<String, u32>>,
}

impl Look {
    fn new(holds: BTreeMap<String, u32>, ttl: Duration) -> Self {
        Self {
            parts: vec![holds.clone()],
            holds,
            ttl,
        }
    }

    /// How many holds the guard's owner has; if the guard does not say whose it is, the only holder.
    pub(crate) fn count_of(&self, guard: &TestGuard) -> Option<u32> {
        let owner = guard.owner_id().map(OwnerId::as_str);
        match owner {
            Some(id) => self.parts.iter().find_map(|holds| holds.get(id)).copied(),
            None if self.holds.len() == 1 => self.holds.values().next().copied(),
            None => None,
        }
    }

    /// Whether the parts that `before` had are as they were; so many of them may differ.
    pub(crate) fn still_has(&self, before: &Look, spare: usize) -> bool {
        let parts = before.parts.iter();
        parts.filter(|part| !self.parts.contains(part)).count() <= spare
    }

    /// Of the parts that are held, of that many, with the time after which the lock has no longer what it needs.
    fn of(parts: Parts, looks: Vec<Look>, of: usize) -> Option<Look> {
        let mut ttls: Vec<_> = looks.iter().map(|look| look.ttl).collect();
        ttls.sort_unstable();
        let ttl = match parts {
            Parts::One | Parts::All => ttls.first()?,
            Parts::Sides => ttls.last()?,
            Parts::Majority => ttls.iter().rev().nth(of / 2)?,
        };
        let all: Vec<_> = looks.into_iter().map(|look| look.holds).collect();
        let same = |one: &BTreeMap<String, u32>| {
            all.iter().filter(|it| it.values().eq(one.values())).count()
        };
        let need = match parts {
            Parts::One | Parts::All => of,
            Parts::Sides => usize::MAX,
            Parts::Majority => of / 2 + 1,
        };
        let agreed = all.iter().find(|holds| same(holds) >= need).cloned();
        let of_all = || {
            all.iter()
                .flatten()
                .map(|(field, count)| (field.clone(), *count))
        };
        Some(Look {
            holds: agreed.unwrap_or_else(|| of_all().collect()),
            ttl: *ttl,
            parts: all.clone(),
        })
    }
}

impl Stage {
    /// What the lock's keys hold; `None`: it is free.
    pub(crate) async fn look(&self, name: &str) -> Option<Look> {
        let looks = self.look_at_parts(name).await;
        let of = looks.len();
        Look::of(self.kind.parts(), looks.into_iter().flatten().collect(), of)
    }

    /// What the keys of each part hold.
    async fn look_at_parts(&self, name: &str) -> Vec<Option<Look>> {
        let mut looks = Vec::new();
        if self.server().is_some() && self.kind.is_a_hash_of_holders() {
            for server in self.servers() {
                let names = self.kind.names(name);
                looks.extend(names.iter().map(|name| look_at_hash(server, name)));
            }
            return looks;
        }
        for part in self.client().await.parts_of(name) {
            looks.push(look_as_a_client(&part).await);
        }
        looks
    }

    /// The counts under the lock's key, of all holders.
    pub(crate) async fn counts(&self, name: &str) -> Vec<u32> {
        let look = self.look(name).await;
        look.map_or_else(Vec::new, |look| look.holds.into_values().collect())
    }

    pub(crate) async fn ttl(&self, name: &str) -> Duration {
        self.look(name).await.expect("it is held").ttl
    }

    /// Removes the lock's keys, and not by an unlock of its holder.
    pub(crate) async fn vanish(&self, name: &str) {
        if self.server().is_none() {
            let lock = self.client().await.lock(name);
            return assert!(lock.force_unlock().await.unwrap());
        }
        let mut removed = 0;
        for server in self.servers() {
            let keys = self.keys_of_holds(server, name);
            // A quorum need not have all of its nodes.
            if !keys.is_empty() {
                remove(server, &keys);
                removed += 1;
            }
        }
        assert!(
            removed + self.kind.spare() >= self.kind.engines(),
            "{name} is held"
        );
    }

    /// Makes the rest of the lease shorter: by a command on a server, by waiting elsewhere.
    pub(crate) async fn run_down(&self, name: &str, by: Duration) {
        if self.server().is_none() {
            return sleep(by).await;
        }
        let left = self.ttl(name).await - by;
        for server in self.servers() {
            for key in self.keys_of_holds(server, name) {
                server.command(&["PEXPIRE", &key, &left.as_millis().to_string()]);
            }
        }
    }

    /// Another owner gets the lock in place of its holder.
    pub(crate) async fn take_over(&self, name: &str) {
        let lease = Duration::from_secs(30);
        if self.server().is_none() {
            let other = self.opposite().await;
            // One part after the other: so there is but a moment in which a renewal finds nothing.
            let parts = match self.kind.parts() {
                Parts::All | Parts::Majority => other.parts_of(name),
                Parts::One | Parts::Sides => vec![other.lock(name)],
            };
            for part in parts.into_iter().map(|part| part.lease(lease)) {
                assert!(part.force_unlock().await.unwrap());
                std::mem::forget(part.try_lock().await.unwrap().expect("it is free"));
            }
            return;
        }
        let fields = self
            .kind
            .opposite()
            .fields_of("6f6b6f1e-1111-4222-8333-444455556666:1");
        for server in self.servers() {
            let keys = self.keys_of_holds(server, name);
            let mut connection = server.connect();
            connection.command(&["MULTI"]);
            for key in &keys {
                connection.command(&["DEL", key]);
            }
            for name in self.kind.names(name) {
                let words = ["HSET", &name].into_iter();
                let words: Vec<&str> = words.chain(fields.iter().map(String::as_str)).collect();
                connection.command(&words);
                connection.command(&["PEXPIRE", &name, &lease.as_millis().to_string()]);
            }
            connection.command(&["EXEC"]);
        }
    }

    /// The keys by which a lock of that name is held on that server.
    fn keys_of_holds(&self, server: &Server, name: &str) -> Vec<String> {
        let (names, hold) = (self.kind.names(name), format!("{{{name}}}:"));
        let is_of_hold = |key: &String| names.contains(key) || key.starts_with(&hold);
        server.keys().into_iter().filter(is_of_hold).collect()
    }

    pub(crate) async fn is_free(&self, name: &str) -> bool {
        self.look(name).await.is_none()
    }

    /// Waits until the lock is free, and each part of it.
    pub(crate) async fn freed(&self, name: &str) {
        let what = format!("{name} is free");
        let is_free = async || self.look_at_parts(name).await.iter().all(Option::is_none);
        eventually_async(LIMIT, &what, is_free).await;
    }

    /// The servers' keys, without those that the kind of lock keeps for good; none on other engines.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> = self.servers().flat_map(Server::keys).collect();
        keys.retain(|key| !self.kind.keeps(key));
        keys
    }

    /// Waits until no such key is left. A lock on one server has none at once: what was released was answered.
    pub(crate) async fn no_keys(&self, why: &str) {
        if self.kind.engines() > 1 {
            eventually_async(LIMIT, why, async || self.keys().is_empty()).await;
        }
        assert_eq!(self.keys(), [""; 0], "{why}");
    }
}

async fn look_as_a_client(part: &TestLock) -> Option<Look> {
    let Remaining::Left(ttl) = part.remaining().await.unwrap() else {
        return None;
    };
    let holders = part.holders().await.unwrap().into_iter();
    let holds = holders.map(|holder| (holder.owner.to_string(), holder.count));
    Some(Look::new(holds.collect(), ttl))
}

fn look_at_hash(server: &Server, name: &str) -> Option<Look> {
    let entry = server.dump().into_iter().find(|entry| entry.key == name)?;
    let Value::Hash(fields) = entry.value else {
        panic!("no lock: {entry:?}");
    };
    let holds = fields
        .into_iter()
        .map(|(field, count)| (field, count.parse().unwrap()));
    Some(Look::new(
        holds.collect(),
        entry.ttl.expect("a lock has an end"),
    ))
}

fn remove(server: &Server, keys: &[String]) {
    let words = std::iter::once("DEL").chain(keys.iter().map(String::as_str));
    server.command(&words.collect::<Vec<_>>());
}
