//! Acquires that are given up at the very end of `main`, before their answer has come: they leave no lock taken.
//!
//! On servers only: with an embedded engine no answer is on its way while the process ends.

use std::time::Duration;

use ferrolock::{Client, Lock};
use testkit::process::{Child, Role};
use testkit::{Kind, LIMIT, Proxy, Server, eventually};
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::stage::ms;

on_each_server!(an_acquire_given_up_at_the_end_of_main_leaves_no_lock_taken);

/// Request and answer together take four times as long as the program waits.
const EACH_WAY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_millis(5);

const ROUNDS: usize = 2;

/// A small program: asks for a lock in the way that its arguments name, gives up, and returns from `main`.
pub(crate) fn impatient_program(role: &Role) {
    let [url, threads, way] = role.args() else {
        panic!("{:?}", role.args());
    };
    let mut builder = match threads.as_str() {
        "one thread" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.enable_all().build().unwrap().block_on(async {
        // Long enough also for a machine that stalls; the wait ends as soon as nothing is under way.
        let client = Client::builder().url(url).drop_limit(LIMIT);
        let client = client.connect().await.unwrap();
        role.say("connected");
        role.hear();
        let lock = client.lock("orders");
        // If the machine stalls for a while, the answer may come first, and then its guard is dropped.
        let _ = timeout(PATIENCE, ask(&lock, way)).await;
        role.say("given up");
    });
}

async fn ask(lock: &Lock, way: &str) {
    match way {
        "lock" => drop(lock.lock().await),
        "try" => drop(lock.try_lock().await),
        // Because of the second call, a task goes on with the attempt of the first.
        "in line" => drop(tokio::join!(lock.lock(), lock.lock())),
        other => panic!("{other}"),
    }
}

async fn an_acquire_given_up_at_the_end_of_main_leaves_no_lock_taken(kind: Kind) {
    let server = Server::start(kind);
    for threads in ["one thread", "many threads"] {
        for way in ["lock", "try", "in line"].repeat(ROUNDS) {
            for is_held in [false, true] {
                check_giving_up(&server, threads, way, is_held).await;
            }
        }
    }
}

/// Runs the program and asserts that it leaves nothing. With `is_held` the proxy holds the request until the program has
/// given up; otherwise request and answer are slow.
async fn check_giving_up(server: &Server, threads: &str, way: &str, is_held: bool) {
    let proxy = Proxy::start(server.address());
    let url = server.url_at(proxy.port());
    let mut program = Child::again("given_up::impatient_program", &[&url, threads, way]);
    assert_eq!(program.hear(LIMIT), "connected");
    match is_held {
        true => proxy.hold_requests(true),
        false => proxy.delay(EACH_WAY),
    }
    program.say("ask");
    assert_eq!(program.hear(LIMIT), "given up");
    proxy.hold_requests(false);

    assert!(program.wait(LIMIT).success());

    // Whatever the program had sent has reached the server by now, or never will.
    eventually(LIMIT, "all has arrived", || proxy.bytes_held() == 0);
    tokio::time::sleep(ms(50)).await;
    let left = server.dump();
    assert!(left.is_empty(), "{threads}, {way}, {is_held}: {left:?}");
}
