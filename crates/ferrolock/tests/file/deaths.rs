//! A process that held a lock is killed: waiters get the lock by a message, before the lease ends and before their own next
//! poll.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::Stalls;

use crate::actor::Actor;
use crate::stage::{Store, boot_nanos};

/// How often a scenario must end by a message.
const STORIES: usize = 3;
/// How often a scenario may fail because the machine stalled.
const STALLED_MAX: usize = 10;
/// From the death of a holder to the grant a few threads run one after the other, and a waiter polls for the first time after
/// 750 ms. If the poll comes before the message, at least one of these threads was stalled for this time.
const STALL: Duration = Duration::from_millis(150);

/// Each of these scenarios ends by a message. If the waiter's own poll came first and the machine stalled meanwhile, the
/// scenario is repeated; if the machine did not stall, a wake-up was lost.
#[track_caller]
fn assert_woken(story: impl Fn() -> bool) {
    let (mut woken, mut stalled) = (0, 0);
    while woken < STORIES {
        let stalls = Stalls::watch();
        let is_woken = story();
        let longest = stalls.seen().last().copied().unwrap_or_default();
        if is_woken {
            woken += 1;
            continue;
        }
        assert!(
            longest > STALL,
            "nobody was woken, and the machine stood still for {longest:?} at most"
        );
        stalled += 1;
        assert!(stalled < STALLED_MAX, "the machine stands still each time");
    }
}

/// A store with a holder of the names in another process.
fn held(names: &[&str]) -> (Store, Actor) {
    let (store, mut holder) = (Store::new(), Actor::start());
    holder.connects(&store);
    names.iter().for_each(|name| holder.takes(name));
    (store, holder)
}

/// An actor that waits for the lock.
fn waiter(store: &Store, name: &str) -> Actor {
    let [waiter] = waiters(store, [name]);
    waiter
}

/// Actors that wait for one lock each. All begin within a short time, so that none of them polls by itself before the test goes
/// on.
fn waiters<const N: usize>(store: &Store, names: [&str; N]) -> [Actor; N] {
    let mut waiters = names.map(|_| Actor::start());
    waiters.iter_mut().for_each(|waiter| waiter.connects(store));
    for (waiter, name) in waiters.iter_mut().zip(names) {
        waiter.waits(name);
    }
    waiters
}

#[test]
fn a_waiter_is_woken_when_the_holder_is_killed() {
    assert_woken(|| {
        let (store, mut holder) = held(&["x"]);
        let mut waiter = waiter(&store, "x");

        let killed = boot_nanos();
        holder.is_killed();

        waiter.gets().is_woken(killed)
    });
}

#[test]
fn everything_a_killed_process_held_is_free_at_once() {
    let names = ["a", "b", "c", "d", "e"];
    assert_woken(|| {
        let (store, mut holder) = held(&names);
        let mut newcomer = Actor::start();
        newcomer.connects(&store);
        assert_eq!(newcomer.does(&["try", "d"]), "busy");
        let mut waiters = waiters(&store, ["a", "b", "c"]);

        let killed = boot_nanos();
        holder.is_killed();

        let mut grants = waiters.iter_mut().map(Actor::gets);
        let are_woken = grants.all(|grant| grant.is_woken(killed));
        newcomer.takes("d");
        newcomer.takes("e");
        are_woken
    });
}

#[test]
fn a_newcomer_finds_the_lock_of_a_killed_process_free() {
    let (store, mut holder) = held(&["x", "y"]);
    holder.is_killed();

    let mut newcomer = Actor::start();
    newcomer.connects(&store);

    newcomer.takes("x");
    newcomer.takes("y");
}

#[test]
fn a_holder_that_is_stopped_is_not_dead() {
    let (store, holder) = held(&["x"]);
    let mut other = Actor::start();
    other.connects(&store);

    holder.stops();

    assert_eq!(other.does(&["try", "x"]), "busy");
}

/// A name whose release was delayed stays taken until then, however its process ends.
#[test]
fn a_delayed_unlock_outlives_its_process() {
    for (how, stay) in [("killed", 120_000), ("ended", 120_000), ("killed", 400)] {
        let (store, mut holder) = held(&["x", "y"]);
        let begun = Instant::now();
        let answer = holder.does(&["unlock after", "x", &stay.to_string()]);
        assert_eq!(answer, "released later");

        match how {
            "killed" => holder.is_killed(),
            _ => holder.ends(),
        }

        let mut other = Actor::start();
        other.connects(&store);
        let found = other.does(&["try", "x"]);
        if stay > 1000 {
            assert_eq!(found, "busy", "{how}");
        } else if found == "busy" {
            assert_eq!(other.does(&["lock", "x"]), "held");
            assert!(begun.elapsed() >= Duration::from_millis(stay));
        }
        other.takes("y");
    }
}

#[test]
fn a_child_that_has_the_lifeline_keeps_the_locks_until_it_ends_too() {
    assert_woken(|| {
        let (store, mut holder) = held(&["x"]);
        let child: i32 = holder.does(&["lifeline"]).parse().unwrap();
        let mut other = Actor::start();
        other.connects(&store);
        let mut waiter = waiter(&store, "x");

        holder.is_killed();

        assert_eq!(other.does(&["try", "x"]), "busy");
        let killed = boot_nanos();
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
        waiter.gets().is_woken(killed)
    });
}

#[test]
fn a_killed_waiter_does_not_disturb_other_processes() {
    let (store, mut holder) = held(&["x"]);
    let mut victim = waiter(&store, "x");
    let mut other = Actor::start();
    other.connects(&store);

    victim.is_killed();

    holder.releases("x");
    other.takes("x");
    other.releases("x");
    holder.takes("x");
}
