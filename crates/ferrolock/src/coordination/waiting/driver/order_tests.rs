//! Who stands where in a line.

use super::tests::{RTT, at, driver};
use super::*;

/// A reader that lets writers go first was the front, and another reader that does not was never asked for.
#[test]
fn those_that_yield_stand_behind_all_others_in_order() {
    let yields = |who: &&str| who.starts_with('y');
    let mut driver = driver();
    for (who, place) in [
        ("y1", Place::Back),
        ("a", Place::Back),
        ("y2", Place::Front),
        ("b", Place::Front),
        ("c", Place::Back),
        ("y3", Place::Back),
    ] {
        driver.join(at(0), who, (at(0), None, Stay::Waits), place, RTT);
        driver.let_others_by(yields);
    }

    assert_eq!(driver.take(|_| true), ["b", "a", "c", "y2", "y1", "y3"]);
}
