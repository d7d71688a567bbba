//! Something that is done to a name which many wait for or share, and what that costs the server.

use crate::report::{Must, Row};
use crate::rounds::{Turns, median};
use crate::seen::Scripts;
use crate::stage::Stage;
use testkit::Server;

/// So often is a step repeated in which the server ran other scripts too: heartbeats and renewals come now and then.
const TRIES: usize = 1000;

/// Many on one name.
pub(crate) trait Crowd {
    /// The same again and again: afterwards as many are there as before. Returns the costs of that part of it which is measured.
    async fn step(&mut self, server: &Server) -> Scripts;
}

/// The median of some steps. One after the other: what a flow that walks through all keys leaves of the processor's caches
/// would be charged to the other.
async fn costs(server: &Server, crowd: &mut impl Crowd, steps: usize) -> f64 {
    let mut costs = Vec::with_capacity(steps);
    for _ in 0..steps {
        costs.push(cost(server, crowd).await);
    }
    median(&costs)
}

/// Microseconds of the server's time in the two scripts of a step.
async fn cost(server: &Server, crowd: &mut impl Crowd) -> f64 {
    for _ in 0..TRIES {
        let spent = crowd.step(server).await;
        if spent.calls == 2 {
            return spent.micros;
        }
    }
    panic!("each of {TRIES} steps took other scripts than two");
}

/// Measures pairs of crowds of those sizes in turns: ours, and the replay of Redisson's.
pub(crate) async fn in_turns<O: Crowd, R: Crowd>(
    server: &Server,
    crowds: &mut [(O, R)],
    (rounds, steps): (usize, usize),
) -> Vec<Turns> {
    let mut turns: Vec<Turns> = crowds.iter().map(|_| Turns::default()).collect();
    for round in 0..=rounds {
        for ((ours, replay), turns) in crowds.iter_mut().zip(&mut turns) {
            let of_ours = costs(server, ours, steps).await;
            let of_replay = costs(server, replay, steps).await;
            // The first round warms up.
            if round > 0 {
                turns.push(of_ours, of_replay);
            }
        }
    }
    turns
}

/// A row for each size, and one that shows how ours grows.
pub(crate) fn rows(
    stage: &Stage,
    sizes: [usize; 3],
    turns: &[Turns],
    what: impl Fn(usize) -> String,
    must_at_largest: Must,
) -> Vec<Row> {
    let is_largest = |size| size == sizes[2];
    let of_size = |(size, turns): (&usize, &Turns)| Row {
        what: what(*size),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must: match is_largest(*size) {
            true => stage.must(must_at_largest),
            false => Must::Stated,
        },
    };
    let mut rows: Vec<Row> = sizes.iter().zip(turns).map(of_size).collect();
    let ours = turns.iter().map(Turns::ours);
    let (least, most) = (
        ours.clone().fold(f64::INFINITY, f64::min),
        ours.fold(0.0, f64::max),
    );
    rows.push(Row {
        what: "the same: the dearest size of ours ÷ the cheapest".to_owned(),
        unit: " µs",
        ours: most,
        reference: Some(least),
        ratio: Some(most / least),
        must: stage.must(Must::AtMost(2.0)),
    });
    rows
}
