//! One fair queue for both sides: who came first is served first, and each side wakes the other.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrolock::kind::Fair;
use ferrolock::{Client, Guard};
use testkit::java::{Pending, now};
use testkit::{LIMIT, eventually_async};
use tokio::task::JoinHandle;

use crate::scene::{Scene, assert_at_once};

stories!(
    waiters_of_both_sides_are_served_in_the_order_in_which_they_came,
    each_side_wakes_the_other,
    a_waiter_of_ours_that_leaves_lets_java_go_on,
);

/// The length of the queue.
fn waiting(scene: &Scene, name: &str) -> usize {
    let key = format!("redisson_lock_queue:{{{name}}}");
    scene
        .server
        .command(&["LRANGE", &key, "0", "-1"])
        .texts()
        .len()
}

async fn until_waiting(scene: &Scene, name: &str, count: usize) {
    let what = format!("{count} wait for {name}");
    eventually_async(LIMIT, &what, async || waiting(scene, name) == count).await;
}

fn ours_waits(client: &Client, name: &str) -> JoinHandle<(Guard<Fair>, Duration)> {
    let lock = client.fair_lock(name).lock();
    tokio::spawn(async move { (lock.await.unwrap(), now()) })
}

fn java_waits(scene: &Scene, thread: &str, name: &str) -> Pending<()> {
    scene.java.thread(thread).fair(name).begin_lock()
}

async fn waiters_of_both_sides_are_served_in_the_order_in_which_they_came(scene: &Scene) {
    let other = Client::connect(scene.server.url()).await.unwrap();
    let held = scene.ours.fair_lock("a").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let (mut ours, mut javas) = (Vec::new(), Vec::new());
    for number in 0..8_usize {
        if number % 2 == 0 {
            let thread = format!("waiter {number}");
            javas.push((number, thread.clone(), java_waits(scene, &thread, "a")));
        } else {
            let client = if number % 4 == 1 { &other } else { &scene.ours };
            let (lock, served) = (client.fair_lock("a").lock(), served.clone());
            ours.push(tokio::spawn(async move {
                let guard = lock.await.unwrap();
                served.lock().unwrap().push(number);
                guard.unlock().await.unwrap();
            }));
        }
        until_waiting(scene, "a", number + 1).await;
    }

    held.unlock().await.unwrap();

    for (number, thread, waits) in javas {
        waits.wait().unwrap();
        served.lock().unwrap().push(number);
        scene.java.thread(&thread).fair("a").unlock().unwrap();
    }
    for waiter in ours {
        waiter.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..8).collect::<Vec<_>>());
}

async fn each_side_wakes_the_other(scene: &Scene) {
    for _ in 0..5 {
        let holder = scene.java.thread("holder").fair("a");
        holder.lock().unwrap();
        let ours = ours_waits(&scene.ours, "a");
        until_waiting(scene, "a", 1).await;
        // It listens to its own channel, too, and rests.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = now();
        holder.unlock().unwrap();
        let (guard, granted) = ours.await.unwrap();
        assert_at_once("ours after Java's release", begun, granted);

        let java = java_waits(scene, "waiter", "a");
        until_waiting(scene, "a", 1).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let begun = now();
        guard.unlock().await.unwrap();
        let answer = java.answer(LIMIT);
        assert_at_once("Java's after our release", begun, answer.ended);
        scene.java.thread("waiter").fair("a").unlock().unwrap();
    }
}

async fn a_waiter_of_ours_that_leaves_lets_java_go_on(scene: &Scene) {
    let holder = scene.java.thread("holder").fair("a");
    holder.lock().unwrap();
    let ours = ours_waits(&scene.ours, "a");
    until_waiting(scene, "a", 1).await;
    let java = java_waits(scene, "waiter", "a");
    until_waiting(scene, "a", 2).await;

    ours.abort();
    until_waiting(scene, "a", 1).await;
    holder.unlock().unwrap();

    java.wait().unwrap();
    scene.java.thread("waiter").fair("a").unlock().unwrap();
}
