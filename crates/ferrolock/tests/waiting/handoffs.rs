//! A hundred thousand hand-offs between two processes: none is lost, on servers not even with the subscribers killed
//! every second.
//!
//! A wake-up is lost if only the safety poll or the end of a lease led to the grant: the message, or the gap after an
//! interruption, should have. Nothing else may wake a waiter: two processes take turns, and after a release a process asks for
//! that name again only when its peer has reported its grant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ferrolock::{Client, Lock};
use testkit::process::{Child, Role};
use testkit::{Kind, LIMIT, Proxy, Server, Stalls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};

use crate::grants::{Counts, Grants};
use crate::stage::{Stage, ms};

stories_of_processes!(alone: no_wake_up_is_lost_in_a_hundred_thousand_hand_offs);
on_each_server!(alone: the_hand_off_test_detects_lost_messages);

const HAND_OFFS: u64 = 100_000;
const NAMES: u8 = 96;
const PATIENCE: Duration = Duration::from_secs(240);
/// Long enough for the peer to come and find the lock busy.
const HOLD: Duration = ms(1);
/// If the machine stalls for this time, the poll of every name may come before the message.
const STALL: Duration = ms(500);

async fn no_wake_up_is_lost_in_a_hundred_thousand_hand_offs(stage: &Stage) {
    let mut control = stage.server().map(Server::connect);
    let mut relays = Relays::start(&stage.url());
    let (begun, mut killed) = (Instant::now(), 0);
    let stalls = Stalls::watch();

    while relays.grants().handed_off() < HAND_OFFS {
        assert!(begun.elapsed() < PATIENCE, "{:?}", relays.grants());
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(control) = &mut control {
            killed += control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).int();
        }
    }
    let grants = relays.after_one_more_of_each_name().await;

    let (who, took) = (stage.name(), begun.elapsed());
    eprintln!("{who}: {took:.1?}, {killed} subscribers killed; {grants:?}");
    assert!(killed >= 2 || control.is_none(), "nothing was disturbed");
    let stalls = stalls.seen();
    let stalled = stalls.iter().filter(|stall| **stall > STALL).count() as u64;
    eprintln!("{who}: stood still {stalled} times, {:?}", stalls.last());
    assert!(
        grants.lost() <= stalled * u64::from(NAMES),
        "{grants:?}, stood still {stalled} times"
    );
}

/// Shows that the test above can fail: some messages vanish on their way from the server, and the connections stay.
async fn the_hand_off_test_detects_lost_messages(kind: Kind) {
    const DROPPED: u64 = 20;
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address());
    let mut relays = Relays::start(&proxy.url());
    let mut before = relays.grants();
    // Until then a name may still be subscribed to, which wakes its waiter too.
    for _ in 0..4 {
        before = relays.after_one_more_of_each_name().await;
    }

    proxy.drop_pushes(true);
    testkit::eventually(LIMIT, "messages are dropped", || {
        proxy.pushes_dropped() >= DROPPED
    });
    proxy.drop_pushes(false);
    let grants = relays.after_one_more_of_each_name().await;

    let dropped = proxy.pushes_dropped();
    let who = kind.name();
    eprintln!("{who}: {dropped} messages dropped; {before:?}, {grants:?}");
    assert!(grants.lost() > before.lost(), "{before:?}, {grants:?}");
}

/// Two processes that take turns with each name.
struct Relays([Child; 2]);

impl Relays {
    fn start(url: &str) -> Self {
        let mut first = Child::again("handoffs::relay", &[url]);
        let port = first.hear(LIMIT);
        let mut second = Child::again("handoffs::relay", &[url, &port]);
        assert_eq!(second.hear(LIMIT), "ready");
        Self([first, second])
    }

    /// The reports of both processes, added up.
    fn ask(&mut self) -> (Grants, Vec<u64>) {
        let (mut grants, mut by_name) = (Grants::default(), vec![0; usize::from(NAMES)]);
        for relay in &mut self.0 {
            relay.say("grants?");
            let report: Report = serde_json::from_str(&relay.hear(LIMIT)).unwrap();
            for (cause, count) in report.0 {
                *grants.0.entry(cause).or_default() += count;
            }
            for (sum, count) in by_name.iter_mut().zip(report.1) {
                *sum += count;
            }
        }
        (grants, by_name)
    }

    fn grants(&mut self) -> Grants {
        self.ask().0
    }

    /// The causes of all grants, after everyone who waits now was granted: a lost wake-up is counted only when a poll has
    /// made up for it.
    async fn after_one_more_of_each_name(&mut self) -> Grants {
        let (_, before) = self.ask();
        let begun = Instant::now();
        loop {
            let (grants, now) = self.ask();
            if now.iter().zip(&before).all(|(now, before)| now > before) {
                return grants;
            }
            assert!(begun.elapsed() < LIMIT, "{grants:?}, {before:?}, {now:?}");
            tokio::time::sleep(ms(50)).await;
        }
    }
}

/// What a relay answers when it is asked: its grants by cause, and by name.
type Report = (BTreeMap<String, u64>, Vec<u64>);

/// Takes turns with its peer, and reports what led to its grants whenever the test asks.
pub(crate) fn relay(role: &Role) {
    let counts = Counts::begin();
    let by_name: Arc<[AtomicU64]> = (0..NAMES).map(|_| AtomicU64::new(0)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        let (peer, turn) = meet(role).await;
        let (role, counted) = (role.clone(), by_name.clone());
        std::thread::spawn(move || {
            loop {
                role.hear();
                let counted = counted.iter().map(|count| count.load(Ordering::SeqCst));
                let report: Report = (counts.by_cause(), counted.collect());
                role.say(&serde_json::to_string(&report).unwrap());
            }
        });
        take_turns(&client, peer, turn, &by_name).await;
    });
}

/// Whose turn it is at first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Ours,
    Theirs,
}

/// The connection to the peer: the first of the two reports its port to the test, the second gets the port as an argument.
async fn meet(role: &Role) -> (TcpStream, Turn) {
    let (stream, turn) = match role.args().get(1) {
        None => {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            role.say(&listener.local_addr().unwrap().port().to_string());
            (listener.accept().await.unwrap().0, Turn::Ours)
        }
        Some(port) => {
            let port: u16 = port.parse().unwrap();
            let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            role.say("ready");
            (stream, Turn::Theirs)
        }
    };
    stream.set_nodelay(true).unwrap();
    (stream, turn)
}

/// All names at once, until this process is killed.
async fn take_turns(client: &Client, peer: TcpStream, turn: Turn, by_name: &Arc<[AtomicU64]>) {
    let (mut from_peer, mut to_peer) = peer.into_split();
    let (granted, mut grants) = mpsc::unbounded_channel();
    let turns: Vec<_> = (0..NAMES).map(|_| Arc::new(Notify::new())).collect();
    let mut tasks = tokio::task::JoinSet::new();
    for (name, theirs) in (0..NAMES).zip(&turns) {
        let lock = client.lock(format!("n{name}"));
        let (granted, theirs, by_name) = (granted.clone(), theirs.clone(), by_name.clone());
        let granted = move || {
            by_name[usize::from(name)].fetch_add(1, Ordering::SeqCst);
            // At the end the peer may be killed first: then no task receives this.
            let _ = granted.send(name);
        };
        tasks.spawn(async move {
            if turn == Turn::Theirs {
                theirs.notified().await;
            }
            hand_back_and_forth(&lock, granted, &theirs).await;
        });
    }
    tasks.spawn(async move {
        while let Some(name) = grants.recv().await {
            if to_peer.write_u8(name).await.is_err() {
                return;
            }
        }
    });
    tasks.spawn(async move {
        while let Ok(name) = from_peer.read_u8().await {
            turns[usize::from(name)].notify_one();
        }
    });
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn hand_back_and_forth(lock: &Lock, granted: impl Fn(), theirs: &Notify) {
    loop {
        let guard = lock.lock().await.unwrap();
        granted();
        tokio::time::sleep(HOLD).await;
        guard.unlock().await.unwrap();
        // From here on this process does nothing that wakes the peer.
        theirs.notified().await;
    }
}
