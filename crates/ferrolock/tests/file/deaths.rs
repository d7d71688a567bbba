//! A process that held a lock is killed: nobody waits for its lease.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{LIMIT, eventually};

use crate::actor::Actor;
use crate::stage::{Store, boot_nanos};

/// Far less than any lease here, and more than ten times what it takes.
const AT_ONCE: Duration = Duration::from_secs(5);

/// A store with a holder of the names in another process.
fn held(names: &[&str]) -> (Store, Actor) {
    let (store, mut holder) = (Store::new(), Actor::start());
    holder.connects(&store);
    names.iter().for_each(|name| holder.takes(name));
    (store, holder)
}

/// An actor that waits for the lock.
fn waiter(store: &Store, name: &str) -> Actor {
    let mut waiter = Actor::start();
    waiter.connects(store);
    waiter.begins(&["lock at", name]);
    eventually(LIMIT, "somebody listens", || {
        store.sessions().iter().any(|name| name.ends_with(".wake"))
    });
    waiter
}

/// When the waiter got it, from then on.
fn got_after(waiter: &mut Actor, since: u64) -> Duration {
    let at: u64 = waiter.answers().parse().unwrap();
    Duration::from_nanos(at.saturating_sub(since))
}

#[test]
fn who_waits_for_a_killed_holder_is_served_at_once() {
    let (store, mut holder) = held(&["x"]);
    let mut waiter = waiter(&store, "x");

    let killed = boot_nanos();
    holder.is_killed();

    let took = got_after(&mut waiter, killed);
    eprintln!("a waiting process had the lock of a killed one after {took:?}");
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn everything_a_killed_process_held_is_free_at_once() {
    let names = ["a", "b", "c", "d", "e"];
    let (store, mut holder) = held(&names);
    let mut waiters: Vec<_> = names[..3].iter().map(|name| waiter(&store, name)).collect();
    let mut newcomer = Actor::start();
    newcomer.connects(&store);
    assert_eq!(newcomer.does(&["try", "d"]), "busy");

    let killed = boot_nanos();
    holder.is_killed();

    for waiter in &mut waiters {
        let took = got_after(waiter, killed);
        assert!(took < AT_ONCE, "{took:?}");
    }
    newcomer.takes("d");
    newcomer.takes("e");
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

/// What was left taken for a while stays taken, however its process ends.
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
    let (store, mut holder) = held(&["x"]);
    let child: i32 = holder.does(&["lifeline"]).parse().unwrap();
    let mut waiter = waiter(&store, "x");
    let mut other = Actor::start();
    other.connects(&store);

    holder.is_killed();

    assert_eq!(other.does(&["try", "x"]), "busy");
    let killed = boot_nanos();
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    let took = got_after(&mut waiter, killed);
    eprintln!("a waiting process had the lock of a killed child after {took:?}");
    assert!(took < AT_ONCE, "{took:?}");
}

#[test]
fn a_killed_waiter_disturbs_nobody() {
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
