//! Between processes: nobody starves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrolock::{CancellationToken, Client, ErrorKind};
use testkit::process::{self, Child};
use testkit::{Kind, LIMIT, Server};

use crate::support::ms;

on_each_server!(alone: eight_busy_processes_all_get_their_share);

const PROCESSES: usize = 8;
/// While one holds it and one comes back, one waits.
const WAITERS: usize = 3;

/// Takes the lock again and again until told to stop; says how often it was served.
#[test]
fn customer() {
    let Some(role) = process::role() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (stop, served) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let (stopping, ears) = (stop.clone(), role.clone());
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        client.ping().await.unwrap();
        role.say("ready");
        role.hear();
        std::thread::spawn(move || {
            ears.hear();
            stopping.cancel();
        });
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..WAITERS {
            let (lock, served) = (client.lock("a").cancelled_by(&stop), served.clone());
            waiters.spawn(async move {
                loop {
                    let guard = match lock.lock().await {
                        Err(error) if error.kind() == ErrorKind::Cancelled => return,
                        guard => guard.unwrap(),
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
