//! Majorities that change from grant to grant: their fences grow, and a minority that lost its data makes no second holder.

use super::{Nodes, s};
use crate::ErrorKind;
use crate::testing::lying::{Reach, Silence};
use crate::testing::scenes::ms;

const NODES: usize = 5;
/// The longest lease of any holder here.
const LEASE_MAX: u64 = 30;

/// A seed of its own, or the one that is given.
fn random() -> fastrand::Rng {
    let seed = std::env::var("FERROLOCK_QUORUM_SEED");
    let seed = seed.map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("FERROLOCK_QUORUM_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Two nodes at most, by chance.
fn minority(random: &mut fastrand::Rng) -> Vec<usize> {
    let mut nodes: Vec<usize> = (0..NODES).collect();
    random.shuffle(&mut nodes);
    nodes.truncate(random.usize(0..=2));
    nodes
}

impl Nodes {
    fn cut_off(&self, nodes: &[usize], random: &mut fastrand::Rng) {
        for node in nodes {
            let silence = [Silence::NotSent, Silence::Hang][random.usize(..2)];
            self.lying[*node].partition(Reach::All, silence);
        }
    }

    fn heal(&self) {
        self.lying.iter().for_each(|lying| lying.heal());
    }
}

/// Each majority meets the one before in one node at least. The clocks of the nodes are up to a minute apart, and grants a tenth of
/// a second: what a node's clock says is mostly behind the last fence.
#[tokio::test(start_paused = true)]
async fn fences_grow_over_random_majorities_of_nodes_whose_clocks_differ() {
    let mut random = random();
    let nodes = Nodes::new(NODES);
    for server in &nodes.servers {
        server.set_back(ms(random.u64(..60_000)));
    }
    let processes = [nodes.beside(), nodes.beside(), nodes.beside()];
    let (mut last, mut behind) = (0, 0);

    for grant in 0..testkit::count(1000, 10_000) {
        let process = &processes[random.usize(..processes.len())];
        let bad = minority(&mut random);
        process.cut_off(&bad, &mut random);

        let guard = process.lock().lock().await.unwrap();

        let fence = guard.fence().get();
        assert!(fence > last, "grant {grant}: {fence} after {last}");
        let clocks = nodes.servers.iter().enumerate();
        let mut heard = clocks.filter(|(node, _)| !bad.contains(node));
        behind += u32::from(heard.all(|(_, server)| server.micros().unsigned_abs() < last));
        last = fence;
        drop(guard);
        process.heal();
        tokio::time::sleep(ms(random.u64(50..150))).await;
    }

    println!("{behind} grants by nodes whose clocks were all behind the last fence");
    assert!(behind > 0, "the clocks alone would have done");
}

/// The case that the documentation shows: A and B have granted, A is restarted empty, and another caller asks A and C.
#[tokio::test(start_paused = true)]
async fn a_node_restarted_empty_makes_a_second_holder_unless_it_is_kept_out() {
    for is_kept_out in [false, true] {
        let nodes = Nodes::new(3);
        let others = nodes.beside();
        let terms = |nodes: &Nodes| match is_kept_out {
            true => nodes.quorum.clone().rejoin_after(s(LEASE_MAX)),
            false => nodes.quorum.clone(),
        };
        let (us, them) = (terms(&nodes), terms(&others));
        us.initialise().await.unwrap();
        nodes.lying[2].partition(Reach::All, Silence::NotSent);
        let guard = us.lock("x").lock().await.unwrap();

        nodes.servers[0].flush();
        others.lying[1].partition(Reach::All, Silence::NotSent);
        let second = them.lock("x").try_lock().await;

        assert!(guard.is_held());
        match second {
            Ok(second) => assert!(second.is_some() && !is_kept_out),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
                assert!(
                    is_kept_out && error.to_string().contains("FRESH"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_lost_its_data_never_makes_two_holders() {
    let mut random = random();
    let nodes = Nodes::new(NODES);
    let processes = [nodes.beside(), nodes.beside()];
    let quorums = processes.each_ref().map(|process| {
        let quorum = process.quorum.clone().rejoin_after(s(LEASE_MAX));
        quorum.lock("x")
    });
    nodes.quorum.initialise().await.unwrap();
    let (mut refused, mut forgotten) = (0, 0);

    for _ in 0..testkit::count(300, 3_000) {
        let who = random.usize(..2);
        let bad = minority(&mut random);
        processes[who].cut_off(&bad, &mut random);
        let guard = quorums[who].lock().await.unwrap();
        // At any time of the hold, which is renewed where the data are left.
        tokio::time::sleep(ms(random.u64(..20_000))).await;

        let lost = minority(&mut random);
        lost.iter().for_each(|node| nodes.servers[*node].flush());
        forgotten += lost.len();
        let bad = minority(&mut random);
        processes[1 - who].cut_off(&bad, &mut random);
        let second = quorums[1 - who].try_lock().await.ok().flatten();

        match second {
            // The first holder may have lost its majority by then.
            Some(second) => assert!(!guard.is_held(), "two holders: {second:?}"),
            None => refused += 1,
        }
        drop(guard);
        processes.iter().for_each(Nodes::heal);
        // Nodes that lost their data learn it now, and take part again a lease later.
        drop(quorums[0].try_lock().await);
        tokio::time::sleep(s(LEASE_MAX + 1)).await;
    }

    println!("{refused} refused, {forgotten} nodes lost their data");
    assert!(refused > 0 && forgotten > 0);
}
