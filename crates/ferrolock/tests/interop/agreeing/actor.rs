//! The actors: a Java thread, or an owner of ours.

use std::time::Duration;

use ferrolock::{Client, Guard, Lock, LostReason, Owner, Remaining, Result, Unlocked};
use testkit::java::{JavaLock, JavaThread, Pending, json};

use super::model::{Asked, Side};
use super::{NAMES, name_of};

/// How a lock is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum How {
    Waits,
    Tries,
    TriesFor(Duration),
}

/// The result of a call. Java's exception for a thread that holds nothing counts as a loss, too.
pub(super) type Came<T> = std::result::Result<T, Option<LostReason>>;

/// What an actor sees of a lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) is_locked: bool,
    pub(super) is_held: bool,
    pub(super) count: u32,
    pub(super) left: Option<Duration>,
    /// The holder, of either side, and its hold count; Java has no call for that.
    pub(super) holder: Option<Option<(String, u32)>>,
}

#[derive(Debug)]
pub(super) enum Actor {
    Java {
        thread: JavaThread,
        id: i64,
    },
    Ours {
        client: Client,
        owner: Owner,
        /// What it holds, or believes to hold, by name.
        guards: [Vec<Guard>; NAMES],
    },
}

impl Actor {
    pub(super) fn java(thread: JavaThread) -> Self {
        let id = thread.id();
        Self::Java { thread, id }
    }

    pub(super) fn ours(client: &Client) -> Self {
        Self::Ours {
            client: client.clone(),
            owner: Owner::new(),
            guards: [const { Vec::new() }; NAMES],
        }
    }

    pub(super) fn side(&self) -> Side {
        match self {
            Actor::Java { .. } => Side::Java,
            Actor::Ours { .. } => Side::Ours,
        }
    }

    /// Asks for a lock; returns whether it was granted.
    pub(super) async fn take(&mut self, name: usize, asked: Asked, how: How) -> Came<bool> {
        match self {
            Actor::Java { thread, .. } => Ok(javas_take(&java_lock(thread, name), asked, how)),
            Actor::Ours {
                client,
                owner,
                guards,
            } => {
                let lock = client.lock(name_of(name)).owned_by(owner);
                let guard = our_take(lock, asked, how).await;
                let guard = guard.map_err(|error| error.lost_reason())?;
                let is_granted = guard.is_some();
                guards[name].extend(guard);
                Ok(is_granted)
            }
        }
    }

    /// The field of this actor on the server, while it holds the lock.
    pub(super) fn field(&self, name: usize) -> String {
        match self {
            Actor::Java { thread, id } => format!("{}:{id}", thread.client().uuid()),
            Actor::Ours { guards, .. } => {
                let guard = guards[name].last().expect("it holds the lock");
                guard.owner_id().to_string()
            }
        }
    }

    /// Releases a hold: the one of that number where holds can be distinguished. Returns how many holds are left, if the
    /// call returns that.
    pub(super) async fn leave(&mut self, name: usize, hold: usize) -> Came<Option<u32>> {
        match self {
            Actor::Java { thread, .. } => match java_lock(thread, name).unlock() {
                Ok(()) => Ok(None),
                Err(exception) => {
                    assert!(exception.is("IllegalMonitorStateException"), "{exception}");
                    Err(None)
                }
            },
            Actor::Ours { guards, .. } => match guards[name].remove(hold).unlock().await {
                Ok(Unlocked::StillHeld(left)) => Ok(Some(left)),
                Ok(_) => Ok(Some(0)),
                Err(error) => Err(Some(
                    error.lost_reason().unwrap_or_else(|| panic!("{error}")),
                )),
            },
        }
    }

    /// Frees the lock, whichever client holds it; returns whether it was held.
    pub(super) async fn force(&self, name: usize) -> bool {
        match self {
            Actor::Java { thread, .. } => java_lock(thread, name).force_unlock().unwrap(),
            Actor::Ours { client, .. } => client.lock(name_of(name)).force_unlock().await.unwrap(),
        }
    }

    /// How many guards it has of that lock, lost ones included.
    pub(super) fn guards(&self, name: usize) -> usize {
        match self {
            Actor::Java { .. } => 0,
            Actor::Ours { guards, .. } => guards[name].len(),
        }
    }

    /// Waits until its last hold is over by the clock.
    pub(super) async fn last_is_lost(&self, name: usize) -> Option<LostReason> {
        match self {
            Actor::Java { .. } => None,
            Actor::Ours { guards, .. } => Some(guards[name].last()?.lost().await),
        }
    }

    /// Looks at all locks.
    pub(super) async fn look(&self) -> Vec<Seen> {
        match self {
            Actor::Java { thread, id } => javas_look(thread, *id),
            Actor::Ours { client, owner, .. } => {
                let mut seen = Vec::new();
                for name in 0..NAMES {
                    seen.push(our_look(client.lock(name_of(name)), owner).await.unwrap());
                }
                seen
            }
        }
    }
}

/// With a new object for each call: an object that is used again remembers its last lease (W15).
fn java_lock(thread: &JavaThread, name: usize) -> JavaLock {
    thread.lock(name_of(name)).fresh()
}

fn javas_take(lock: &JavaLock, asked: Asked, how: How) -> bool {
    let granted = match (how, asked) {
        (How::Waits, Asked::Watchdog) => lock.lock().map(|()| true),
        (How::Waits, Asked::For(lease)) => lock.lock_for(lease).map(|()| true),
        (How::Tries, Asked::Watchdog) => lock.try_lock(),
        (How::Tries, Asked::For(lease)) => lock.try_lock_within_for(Duration::ZERO, lease),
        (How::TriesFor(wait), Asked::Watchdog) => lock.try_lock_within(wait),
        (How::TriesFor(wait), Asked::For(lease)) => lock.try_lock_within_for(wait, lease),
    };
    match granted {
        // What 3.17.7 may throw when its time is over while it subscribes.
        Err(late) if late.is("CancellationException") && matches!(how, How::TriesFor(_)) => false,
        granted => granted.unwrap(),
    }
}

async fn our_take(lock: Lock, asked: Asked, how: How) -> Result<Option<Guard>> {
    let lock = match asked {
        Asked::Watchdog => lock,
        Asked::For(lease) => lock.lease(lease),
    };
    match how {
        How::Waits => lock.lock().await.map(Some),
        How::Tries => lock.try_lock().await,
        How::TriesFor(wait) => lock.try_lock_for(wait).await,
    }
}

/// Sends all commands first, and reads the answers then.
fn javas_look(thread: &JavaThread, id: i64) -> Vec<Seen> {
    let asked: Vec<_> = (0..NAMES)
        .map(|name| {
            let lock = java_lock(thread, name);
            let is_locked: Pending<bool> = lock.begin("isLocked", json!([]));
            let is_held: Pending<bool> = lock.begin("isHeldByThread", json!([id]));
            let count: Pending<u32> = lock.begin("getHoldCount", json!([]));
            let left: Pending<i64> = lock.begin("remainTimeToLive", json!([]));
            (is_locked, is_held, count, left)
        })
        .collect();
    let answers = asked.into_iter();
    answers
        .map(|(is_locked, is_held, count, left)| Seen {
            is_locked: is_locked.wait().unwrap(),
            is_held: is_held.wait().unwrap(),
            count: count.wait().unwrap(),
            left: match left.wait().unwrap() {
                -2 => None,
                left => Some(Duration::from_millis(
                    left.try_into().expect("it has an end"),
                )),
            },
            holder: None,
        })
        .collect()
}

async fn our_look(lock: Lock, owner: &Owner) -> Result<Seen> {
    Ok(Seen {
        is_locked: lock.is_locked().await?,
        is_held: lock.is_held_by(owner).await?,
        count: lock.hold_count(owner).await?,
        left: match lock.remaining().await? {
            Remaining::Free => None,
            Remaining::Left(left) => Some(left),
            other => panic!("it has an end: {other:?}"),
        },
        holder: Some(match lock.holders().await?.as_slice() {
            [] => None,
            [one] => Some((one.owner.to_string(), one.count)),
            many => panic!("one at a time: {many:?}"),
        }),
    })
}
