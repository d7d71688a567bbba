//! The fair lock over a network that loses and delays calls, replies and messages at random.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::Lane;
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::protocol::call::{Call, Form, Script, Value};
use crate::testing::lying::Lying;
use crate::testing::scenes::{core, ms};
use crate::{Client, ErrorKind};

/// Takes the lock again and again; at times it gives up or is dropped.
async fn works(client: Client, number: u64, inside: Arc<AtomicBool>, served: Arc<AtomicU64>) {
    let lock = client.fair_lock("x");
    for round in 0..12 {
        let guard = match (number + round) % 4 {
            0 => {
                drop(tokio::time::timeout(ms(40 * round), lock.lock()).await);
                continue;
            }
            1 => lock.try_lock_for(ms(500)).await,
            _ => lock.lock().await.map(Some),
        };
        let guard = match guard {
            Ok(Some(guard)) => guard,
            Ok(None) => continue,
            // Its time was over, and the last thing that the server said was no answer.
            Err(error) if matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Refused) => {
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        assert!(!inside.swap(true, Ordering::SeqCst), "two holders");
        tokio::time::sleep(ms(3)).await;
        inside.store(false, Ordering::SeqCst);
        served.fetch_add(1, Ordering::Relaxed);
        drop(guard.unlock().await);
    }
}

/// What is left of the lock and its queue.
async fn left(client: &Client) -> Value {
    static LEFT: Script = Script::new(
        "left",
        "return redis.call('EXISTS', 'x', 'redisson_lock_queue:{x}', 'redisson_lock_timeout:{x}', 'ferrolock_fair_waiters:{x}')",
    );
    let call = Call {
        script: &LEFT,
        keys: smallvec::smallvec!["x".into()],
        args: smallvec::SmallVec::new(),
        form: Form::default(),
    };
    client.core().engine.call(Lane::Keeper, call).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn random_lies_never_make_two_holders_and_leave_nothing_behind() {
    for seed in 0..12 {
        eprintln!("seed {seed}");
        let space = format!("fair_lies_{seed}");
        let memory = || MemoryEngine::open(Some(&space));
        let liars = [0, 1].map(|nth| {
            let lying = Lying::over_memory(memory());
            lying.random(seed * 2 + nth, 60);
            lying
        });
        let honest = Client::of(core(memory(), Settings::default()));
        let mut clients = vec![honest.clone()];
        for lying in &liars {
            clients.push(Client::of(core(lying.clone(), Settings::default())));
        }
        let (inside, served) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut workers = tokio::task::JoinSet::new();
        for number in 0..12_u64 {
            let client = clients[usize::try_from(number % 3).unwrap()].clone();
            workers.spawn(works(client, number, inside.clone(), served.clone()));
        }
        workers.join_all().await;
        assert!(served.load(Ordering::Relaxed) > 40, "{served:?}");
        liars.iter().for_each(|lying| lying.honest());
        // What is owed is paid within two leases.
        tokio::time::sleep(Duration::from_secs(120)).await;

        assert_eq!(left(&honest).await, Value::Int(0), "seed {seed}");
    }
}
