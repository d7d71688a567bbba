//! Between processes: nobody starves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ferrolock::Client;
use testkit::process::{self, Child};
use testkit::{Kind, LIMIT, Server};

use crate::support::ms;

on_each_server!(eight_busy_processes_all_get_their_share);

const PROCESSES: usize = 8;
/// Always one in front and one behind.
const WAITERS: usize = 3;

/// Takes the lock again and again until told to stop; says how often it was served.
#[test]
fn customer() {
    let Some(role) = process::role() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (stop, served) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicU64::new(0)),
    );
    let (stopping, ears) = (stop.clone(), role.clone());
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        client.ping().await.unwrap();
        role.say("ready");
        role.hear();
        std::thread::spawn(move || {
            ears.hear();
            stopping.store(true, Ordering::Relaxed);
        });
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..WAITERS {
            let (client, stop, served) = (client.clone(), stop.clone(), served.clone());
            waiters.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let Some(guard) = client.lock("a").try_lock_for(ms(500)).await.unwrap() else {
                        continue;
                    };
                    served.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(ms(5)).await;
                    guard.unlock().await.unwrap();
                }
            });
        }
        waiters.join_all().await;
    });
    role.say(&served.load(Ordering::Relaxed).to_string());
}

async fn eight_busy_processes_all_get_their_share(kind: Kind) {
    let server = Server::start(kind);
    let mut customers: Vec<_> = (0..PROCESSES)
        .map(|_| Child::again("fairness::customer", &[&server.url()]))
        .collect();
    customers
        .iter_mut()
        .for_each(|customer| drop(customer.hear(LIMIT)));
    customers.iter_mut().for_each(|customer| customer.say("go"));

    tokio::time::sleep(Duration::from_secs(6)).await;

    customers
        .iter_mut()
        .for_each(|customer| customer.say("stop"));
    let served: Vec<u64> = customers
        .iter_mut()
        .map(|customer| customer.hear(LIMIT).parse().unwrap())
        .collect();
    eprintln!("{}: served in 6 s: {served:?}", kind.name());
    let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
    assert!(least * 10 >= *most, "{served:?}");
    assert!(served.iter().sum::<u64>() > 100, "{served:?}");
}
