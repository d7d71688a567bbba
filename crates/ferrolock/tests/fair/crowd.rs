//! Many waiters in several processes, a third of which are killed: the living are served in their order, and the dead cost
//! no more than their processes.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ferrolock::{Client, FairLock};
use testkit::process::{Child, Role};
use testkit::{LIMIT, count, eventually_async};
use tokio::time::Instant;

use crate::stage::{Stage, ms, unique};
use crate::support::queues_for;

stories_of_processes!(among_many_waiters_the_living_are_served_in_their_order);

/// Less than usual, so that the dead cost less time here.
const DEAD: Duration = ms(4_000);
/// A process may be killed while one of its waiters holds the lock: then its lease has to end.
const LEASE: Duration = ms(2_000);
/// Longer than any hand-over between two that live.
const PAUSE: Duration = ms(800);

fn lock_of(client: &Client, name: &str) -> FairLock {
    let lock = client.fair_lock(name).skip_dead_after(DEAD);
    lock.watchdog_lease(LEASE)
}

/// A process that adds a waiter for each number it hears. Who has the lock writes its number into the file.
pub(crate) fn member(role: &Role) {
    let runtime = crate::stage::stories::threads();
    runtime.block_on(async {
        let [url, name, file] = role.args() else {
            panic!("three arguments: {role:?}");
        };
        let client = Client::connect(url).await.unwrap();
        let lock = lock_of(&client, name);
        role.say("ready");
        loop {
            let number = role.hear();
            let (waiter, file) = (queues_for(&client, &lock).await, file.clone());
            tokio::spawn(async move {
                let guard = waiter.await.unwrap();
                let mut file = OpenOptions::new().append(true).open(file).unwrap();
                writeln!(file, "{number}").unwrap();
                tokio::time::sleep(ms(2)).await;
                guard.unlock().await.unwrap();
            });
            role.say("queued");
        }
    });
}

struct Crowd {
    members: Vec<Child>,
    /// The process of each waiter.
    member_of: Vec<usize>,
    /// Which processes are killed, and after how many grants; the first is that of the head.
    kills: Vec<(usize, usize)>,
}

impl Crowd {
    /// Starts the processes, and has each waiter join the queue in turn.
    fn begin(args: &[&str], random: &mut fastrand::Rng) -> Self {
        let (waiters, processes) = (count(30, 200) as usize, count(6, 10) as usize);
        let start = |_| Child::again("crowd::member", args);
        let mut members: Vec<Child> = (0..processes).map(start).collect();
        for member in &mut members {
            member.hear(LIMIT);
        }
        let mut member_of = Vec::new();
        for number in 0..waiters {
            let of = random.usize(..processes);
            members[of].say(&number.to_string());
            assert_eq!(members[of].hear(LIMIT), "queued");
            member_of.push(of);
        }
        let mut doomed: Vec<usize> = (0..processes).filter(|of| *of != member_of[0]).collect();
        random.shuffle(&mut doomed);
        doomed.insert(0, member_of[0]);
        doomed.truncate(processes.div_ceil(3));
        // In the normal form all at once: each later kill costs the dead time again.
        let last = count(1, 66) as usize;
        let when = |(nth, of)| (of, if nth == 0 { 0 } else { random.usize(..last) });
        let kills = doomed.into_iter().enumerate().map(when).collect();
        Self {
            members,
            member_of,
            kills,
        }
    }

    /// The waiters of processes that are not to be killed.
    fn living(&self) -> Vec<usize> {
        let dies = |of: &usize| self.kills.iter().any(|(doomed, _)| doomed == of);
        let all = self.member_of.iter().enumerate();
        all.filter(|(_, of)| !dies(of))
            .map(|(number, _)| number)
            .collect()
    }

    /// Kills those whose time has come.
    fn kill(&mut self, served: usize) -> BTreeSet<usize> {
        let (now, later) = self.kills.iter().partition(|(_, at)| *at <= served);
        self.kills = later;
        let now: Vec<(usize, usize)> = now;
        now.into_iter()
            .map(|(of, _)| {
                self.members[of].kill();
                of
            })
            .collect()
    }
}

fn served(file: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(file).unwrap();
    // The last line may be half written.
    let lines = text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'));
    lines.map(|line| line.trim().parse().unwrap()).collect()
}

async fn among_many_waiters_the_living_are_served_in_their_order(stage: &Stage) {
    let seed = testkit::seed("FERROLOCK_FAIR_SEED", || fastrand::u64(..1 << 32));
    let mut random = fastrand::Rng::with_seed(seed);
    let (us, name) = (stage.client().await, unique("a"));
    let folder = testkit::store_folder();
    let file = folder.path().join("served");
    std::fs::write(&file, "").unwrap();
    let held = us.fair_lock(&name).lock().await.unwrap();
    let args = [&stage.url(), &name, file.to_str().unwrap()];
    let mut crowd = Crowd::begin(&args, &mut random);

    let expected = crowd.living();
    let mut killed = crowd.kill(0);
    let begun = Instant::now();
    held.unlock().await.unwrap();

    let (mut grants, mut since, mut pauses) = (0, begun, Vec::new());
    let is_over = async || {
        let served = served(&file);
        if served.len() > grants {
            pauses.extend(Some(since.elapsed()).filter(|pause| *pause > PAUSE));
            (grants, since) = (served.len(), Instant::now());
        }
        killed.extend(crowd.kill(grants));
        expected.iter().all(|number| served.contains(number))
    };
    eventually_async(LIMIT, "the living are served", is_over).await;

    let order = served(&file);
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    let who = stage.name();
    eprintln!(
        "{who}: {} of {} served, pauses {pauses:?}",
        order.len(),
        crowd.member_of.len()
    );
    // A pause for each kill at most: those of a process cost as much as one of them.
    assert!(pauses.len() <= killed.len(), "{pauses:?} for {killed:?}");
    let after = lock_of(&us, &name).try_lock_for(LIMIT);
    let after = after.await.unwrap().expect("no dead one holds it for ever");
    after.unlock().await.unwrap();
    // On a server: the lease, the dead time, and one beat. With a file the system reports the death.
    let promised = match stage.server() {
        Some(_) => LEASE + DEAD + DEAD / 4,
        None => ms(1_000),
    };
    let longest = pauses.into_iter().max().unwrap_or_default();
    assert!(longest < promised * 10, "{longest:?} of {promised:?}");
}
