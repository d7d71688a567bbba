//! Many waiters in several processes, some of which are killed: the living are served in their order.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use ferrolock::Client;
use testkit::process::{Child, Role};
use testkit::{LIMIT, eventually_async};

use crate::stage::{Stage, ms, unique};
use crate::support::queues;

stories_of_processes!(among_many_waiters_the_living_are_served_in_their_order);

const PROCESSES: usize = 6;
const WAITERS: usize = 30;

/// A process that adds a waiter for each number it hears. Who has the lock writes its number into the file.
pub(crate) fn member(role: &Role) {
    let runtime = crate::stage::stories::threads();
    runtime.block_on(async {
        let [url, name, file] = role.args() else {
            panic!("three arguments: {role:?}");
        };
        let client = Client::connect(url).await.unwrap();
        role.say("ready");
        loop {
            let number = role.hear();
            let (waiter, file) = (queues(&client, name).await, file.clone());
            tokio::spawn(async move {
                let guard = waiter.await.unwrap();
                let mut file = OpenOptions::new().append(true).open(file).unwrap();
                writeln!(file, "{number}").unwrap();
                guard.unlock().await.unwrap();
            });
            role.say("queued");
        }
    });
}

async fn among_many_waiters_the_living_are_served_in_their_order(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let folder = testkit::store_folder();
    let file = folder.path().join("served");
    std::fs::write(&file, "").unwrap();
    let args = [&stage.url(), &name, file.to_str().unwrap()];
    let mut members: [Child; PROCESSES] =
        std::array::from_fn(|_| Child::again("crowd::member", &args));
    for member in &mut members {
        member.hear(LIMIT);
    }
    let held = us.fair_lock(&name).lock().await.unwrap();
    let mut random = numbers_from(7);
    let mut member_of = Vec::new();
    for number in 0..WAITERS {
        let of = random() % PROCESSES;
        members[of].say(&number.to_string());
        assert_eq!(members[of].hear(LIMIT), "queued");
        member_of.push(of);
    }

    let killed = [1, 4];
    killed.iter().for_each(|of| {
        members[*of].kill();
    });
    held.unlock().await.unwrap();

    let alive = |number: &usize| !killed.contains(&member_of[*number]);
    let expected: Vec<usize> = (0..WAITERS).filter(alive).collect();
    let served = || -> Vec<usize> {
        let text = std::fs::read_to_string(&file).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    };
    let all = async || served().len() >= expected.len();
    eventually_async(LIMIT, "the living are served", all).await;
    assert_eq!(served(), expected);
    tokio::time::sleep(ms(100)).await;
    let after = us.fair_lock(&name).try_lock_for(Duration::from_secs(20));
    assert!(after.await.unwrap().is_some());
}

/// The same numbers each time.
fn numbers_from(seed: usize) -> impl FnMut() -> usize {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    }
}
