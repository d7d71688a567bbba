//! A bundle: its parts end, join it, and are looked at, all at once.

use std::sync::Arc;

use loom::thread::{JoinHandle, spawn};

use crate::coordination::holding::bundle::{Bundle, Enough, Part};
use crate::coordination::holding::hold::{Hold, Status};
use crate::error::LostReason;
use crate::models::hold::hold;
use crate::primitives::block_on;

fn parts(holds: &[Arc<Hold>]) -> Vec<Part> {
    holds.iter().cloned().map(Part::Hold).collect()
}

fn is_lost(bundle: &Bundle) -> bool {
    matches!(bundle.status(), Status::Lost(_))
}

/// The keeper's thread finds that the hold is gone.
fn ends(hold: &Arc<Hold>) -> JoinHandle<()> {
    let hold = hold.clone();
    spawn(move || assert!(hold.lose(LostReason::Removed)))
}

/// The part says that it ends to a bundle that is not known to it yet, or the bundle's look comes after that end.
pub(super) fn a_part_that_ends_while_its_bundle_is_made_ends_it() {
    let holds = [hold(), hold()];
    let keeper = ends(&holds[0]);

    let bundle = Bundle::new(parts(&holds), Enough::All(2));
    let token = bundle.token();

    assert!(keeper.join().is_ok());
    assert!(token.is_cancelled(), "a loss that the token does not tell");
    assert!(is_lost(&bundle));
}

/// Three of five are needed, and three are there. A fourth joins and ends; the next look is that of another end.
pub(super) fn a_part_that_ends_while_it_joins_is_seen_by_the_next_look() {
    let (holds, fourth) = ([hold(), hold(), hold()], hold());
    let bundle = Bundle::new(parts(&holds), Enough::MajorityOf(5));
    let token = bundle.token();
    let keeper = ends(&fourth);

    bundle.join(Part::Hold(fourth));
    assert!(holds[0].lose(LostReason::Removed));

    assert!(keeper.join().is_ok());
    assert!(token.is_cancelled(), "two are left, and none has told");
}

pub(super) fn a_token_made_while_a_part_ends_is_cancelled() {
    let holds = [hold(), hold()];
    let bundle = Bundle::new(parts(&holds), Enough::All(2));
    let keeper = ends(&holds[0]);

    let token = bundle.token();

    assert!(keeper.join().is_ok());
    assert!(token.is_cancelled(), "a loss that the token does not tell");
}

/// Neither alone is too many.
pub(super) fn of_two_parts_that_end_at_once_one_sees_the_other() {
    let holds = [hold(), hold(), hold()];
    let bundle = Bundle::new(parts(&holds), Enough::MajorityOf(3));
    let token = bundle.token();
    let keeper = ends(&holds[0]);

    assert!(holds[1].lose(LostReason::Expired));

    assert!(keeper.join().is_ok());
    assert!(token.is_cancelled(), "each has seen itself alone");
}

pub(super) fn a_loss_wakes_the_caller_that_waits_for_it() {
    let holds = [hold(), hold()];
    let bundle = Bundle::new(parts(&holds), Enough::All(2));
    let keeper = ends(&holds[1]);

    assert_eq!(block_on(bundle.lost()), LostReason::Removed);

    assert!(keeper.join().is_ok());
}

/// A part ends and too few are left, and another one comes in its place: it is lost and that is told, or it goes on. The
/// keeper's thread is the model's first: otherwise `loom` would not play a look that comes after its end.
pub(super) fn a_loss_stays_and_is_told_although_a_part_joins() {
    let holds = [hold(), hold()];
    let bundle = Bundle::new(parts(&holds), Enough::MajorityOf(3));
    let token = bundle.token();
    let mender = {
        let bundle = bundle.clone();
        spawn(move || {
            let was_lost = is_lost(&bundle);
            bundle.join(Part::Hold(hold()));
            was_lost
        })
    };

    assert!(holds[0].lose(LostReason::Removed));

    let Ok(was_lost) = mender.join() else { return };
    assert!(!was_lost || is_lost(&bundle), "lost, and held again");
    assert_eq!(token.is_cancelled(), is_lost(&bundle), "lost, and not told");
}

/// The guard gives back what the keeper finds lost.
pub(super) fn a_loss_and_a_release_are_both_told() {
    let holds = [hold(), hold()];
    let bundle = Bundle::new(parts(&holds), Enough::All(2));
    let token = bundle.token();
    let keeper = ends(&holds[0]);

    let was = bundle.release();

    assert!(
        token.is_cancelled(),
        "given back, and the token does not tell"
    );
    assert!(keeper.join().is_ok());
    assert!(matches!(
        was,
        Status::Held | Status::Lost(LostReason::Removed)
    ));
    assert_eq!(bundle.status(), Status::Released, "it was given back");
}
