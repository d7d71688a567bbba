//! A process that held a lock is killed: nobody waits for its lease, nor until it looks by itself.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::actor::Actor;
use crate::stage::{Store, boot_nanos};

/// How often a story is told of which one must end by a message.
const STORIES: usize = 3;

/// At least one of these stories ends as it should. Another may not, on a machine that is busy elsewhere: a look of the waiter's own that
/// falls due in the same moment may be sooner. If nobody is woken, none does.
#[track_caller]
fn assert_woken(story: impl Fn() -> bool) {
    assert!((0..STORIES).any(|_| story()), "nobody was woken");
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
    let mut waiter = Actor::start();
    waiter.connects(store);
    waiter.waits(name);
    waiter
}

#[test]
fn who_waits_for_a_killed_holder_is_woken() {
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
        let mut waiters: Vec<_> = names[..3].iter().map(|name| waiter(&store, name)).collect();
        let mut newcomer = Actor::start();
        newcomer.connects(&store);
        assert_eq!(newcomer.does(&["try", "d"]), "busy");

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
    assert_woken(|| {
        let (store, mut holder) = held(&["x"]);
        let child: i32 = holder.does(&["lifeline"]).parse().unwrap();
        let mut waiter = waiter(&store, "x");
        let mut other = Actor::start();
        other.connects(&store);

        holder.is_killed();

        assert_eq!(other.does(&["try", "x"]), "busy");
        let killed = boot_nanos();
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
        waiter.gets().is_woken(killed)
    });
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
