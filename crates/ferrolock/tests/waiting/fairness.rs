//! Between clients and between processes: none of them starves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrolock::{CancellationToken, ErrorKind};
use testkit::LIMIT;
use testkit::process::{Child, Role};

use crate::stage::{Party, Stage, ms};

stories_in_real_time!(eight_busy_clients_all_get_their_share);
stories_of_processes!(alone:
    two_busy_processes_both_get_their_share,
    eight_busy_processes_all_get_their_share,
);

/// In each client: while one holds the lock and one comes back, one waits.
const WAITERS: usize = 3;
const FOR: Duration = Duration::from_secs(6);
const HOLD: Duration = ms(5);

/// Takes the lock again and again until `stop` is cancelled, and counts how often it got the lock.
async fn take_again_and_again(client: Party, stop: CancellationToken, served: Arc<AtomicU64>) {
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
                tokio::time::sleep(HOLD).await;
                guard.unlock().await.unwrap();
            }
        });
    }
    waiters.join_all().await;
}

async fn eight_busy_clients_all_get_their_share(stage: &Stage) {
    let stop = CancellationToken::new();
    let counts: [Arc<AtomicU64>; 8] = Default::default();
    let mut customers = tokio::task::JoinSet::new();
    for served in &counts {
        customers.spawn(take_again_and_again(
            stage.client().await,
            stop.clone(),
            served.clone(),
        ));
    }

    tokio::time::sleep(FOR).await;

    stop.cancel();
    customers.join_all().await;
    let served = counts.map(|served| served.load(Ordering::Relaxed));
    assert_shares(stage, &served);
}

/// A process that takes the lock again and again: the test says when to begin and when to stop, and gets the count of grants.
pub(crate) fn customer(role: &Role) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (stop, served) = (CancellationToken::new(), Arc::new(AtomicU64::new(0)));
    let (stopping, ears) = (stop.clone(), role.clone());
    runtime.block_on(async {
        let client = Party::at(&role.args()[0]).await;
        client.ping().await.unwrap();
        role.say("ready");
        role.hear();
        std::thread::spawn(move || {
            ears.hear();
            stopping.cancel();
        });
        take_again_and_again(client, stop, served.clone()).await;
    });
    role.say(&served.load(Ordering::Relaxed).to_string());
}

async fn two_busy_processes_both_get_their_share(stage: &Stage) {
    assert_shares_of_busy_processes(stage, 2).await;
}

async fn eight_busy_processes_all_get_their_share(stage: &Stage) {
    assert_shares_of_busy_processes(stage, 8).await;
}

async fn assert_shares_of_busy_processes(stage: &Stage, count: usize) {
    let mut customers: Vec<_> = (0..count)
        .map(|_| Child::again("fairness::customer", &[&stage.address()]))
        .collect();
    for customer in &mut customers {
        customer.hear(LIMIT);
    }
    customers.iter_mut().for_each(|customer| customer.say("go"));

    tokio::time::sleep(FOR).await;

    for customer in &mut customers {
        customer.say("stop");
    }
    let served: Vec<u64> = customers
        .iter_mut()
        .map(|customer| customer.hear(LIMIT).parse().unwrap())
        .collect();
    assert_shares(stage, &served);
}

fn assert_shares(stage: &Stage, served: &[u64]) {
    eprintln!("{}: served in {FOR:?}: {served:?}", stage.name());
    let (least, most) = (served.iter().min().unwrap(), served.iter().max().unwrap());
    assert!(least * 10 >= *most, "{served:?}");
    assert!(served.iter().sum::<u64>() > 100, "{served:?}");
}
