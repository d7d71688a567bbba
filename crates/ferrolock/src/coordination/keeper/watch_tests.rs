use super::*;

const LIMIT: Duration = Duration::from_secs(3);

fn at(ms: u64) -> Tick {
    Tick::from_nanos(1_000_000_000 + ms * 1_000_000)
}

fn terms(lease_ms: u64) -> Terms {
    let lease = Duration::from_millis(lease_ms);
    Terms {
        lease,
        margin: (lease / 20).max(Duration::from_millis(50)),
        renew_every: Some(lease / 3),
        max_hold: None,
        drift_per_mille: None,
    }
}

fn due(watch: &mut Watch<&'static str>, now: Tick) -> Vec<Due<&'static str>> {
    watch.due(now, usize::MAX, |_| LIMIT)
}

fn renew(id: u64, troubles: u32) -> Due<&'static str> {
    Due::Renew(Renewal {
        id,
        hold: "hold",
        troubles,
        alone: false,
    })
}

/// One renewed hold, accepted at 0, which is a point of the grid.
fn kept(lease_ms: u64) -> (Watch<&'static str>, u64) {
    let terms = terms(lease_ms);
    let mut watch = Watch::new(Grid::new(at(0), 0));
    let id = watch.offer("hold", terms, terms.deadline(at(0), terms.lease), at(1000));
    watch.accept(id, "hold", at(0));
    (watch, id)
}

#[test]
fn an_offer_that_is_not_taken_ends_and_is_never_renewed() {
    let mut watch = Watch::new(Grid::new(at(0), 0));
    let terms = terms(30_000);
    watch.offer("hold", terms, terms.deadline(at(0), terms.lease), at(1000));

    assert_eq!(due(&mut watch, at(999)), []);
    assert_eq!(due(&mut watch, at(1000)), [Due::OfferOver("hold")]);
    assert_eq!(watch.next(), None);
}

#[test]
fn a_renewal_comes_at_a_third_of_the_lease_and_moves_the_deadline() {
    let (mut watch, id) = kept(30_000);

    assert_eq!(due(&mut watch, at(9_999)), []);
    assert_eq!(due(&mut watch, at(10_000)), [renew(id, 0)]);
    watch.renewed(id, at(10_000), at(38_500));

    assert_eq!(watch.next(), Some(at(20_000)));
}

#[test]
fn a_hung_renewal_is_tried_again_over_the_other_connection() {
    let (mut watch, id) = kept(200);

    let first = due(&mut watch, at(67));
    assert_eq!(first, [renew(id, 0)]);
    // A sixth of the lease later it counts as hung, a thirtieth later the next one goes out: before the deadline.
    assert_eq!(due(&mut watch, at(101)), []);
    assert_eq!(due(&mut watch, at(108)), [renew(id, 1)]);
    assert!(at(108) < terms(200).deadline(at(0), Duration::from_millis(200)));
}

#[test]
fn a_hold_that_cannot_be_renewed_is_over_at_its_deadline() {
    let (mut watch, id) = kept(30_000);
    let mut now = 10_000;
    while now < 60_000 {
        let due = due(&mut watch, at(now));
        if due.contains(&Due::Over("hold")) {
            break;
        }
        if !due.is_empty() {
            watch.failed(id, at(now));
        }
        now += 10;
    }

    assert_eq!(now, 28_500);
}

#[test]
fn each_hold_is_watched_under_its_own_number_until_it_is_forgotten() {
    let terms = terms(30_000);
    let deadline = terms.deadline(at(0), terms.lease);
    let mut watch = Watch::new(Grid::new(at(0), 0));
    let ids = ["a", "b", "c"].map(|hold| watch.keep(hold, terms, deadline, at(0)));

    assert!(ids.iter().all(|id| watch.is_watched(*id)));
    watch.forget(ids[1]);

    let watched = ids.map(|id| watch.is_watched(id));
    assert_eq!(watched, [true, false, true]);
    let mut holds = watch.holds(|_| true);
    holds.sort_unstable();
    assert_eq!(holds, ["a", "c"]);
    assert_eq!(watch.holds(|hold| *hold == "c"), ["c"]);
}

#[test]
fn renewals_without_an_answer_are_counted_until_one_is_confirmed() {
    let (mut watch, id) = kept(30_000);

    for (troubles, now) in [(0, 10_000), (1, 11_000), (2, 12_000)] {
        assert_eq!(due(&mut watch, at(now)), [renew(id, troubles)]);
        watch.failed(id, at(now));
    }
    assert_eq!(due(&mut watch, at(13_000)), [renew(id, 3)]);
    watch.renewed(id, at(13_000), at(41_500));

    assert_eq!(due(&mut watch, at(23_000)), [renew(id, 0)]);
}

/// A sixth of a short lease is less than the limit for commands.
#[test]
fn a_renewal_that_found_its_connection_has_a_sixth_of_the_lease() {
    let (mut watch, id) = kept(6_000);
    due(&mut watch, at(2_000));
    watch.failed(id, at(2_000));

    assert!(watch.start_renewal(id, at(2_100), LIMIT));

    assert_eq!(watch.next(), Some(at(3_100)));
}

#[test]
fn a_deadline_that_is_moved_from_outside_moves_later_only() {
    let terms = Terms {
        renew_every: None,
        ..terms(30_000)
    };
    let mut watch = Watch::new(Grid::new(at(0), 0));
    let id = watch.keep("hold", terms, at(1_000), at(0));

    watch.extended(id, at(2_000));
    watch.extended(id, at(500));

    assert_eq!(watch.next(), Some(at(2_000)));
    assert_eq!(due(&mut watch, at(1_999)), []);
    assert_eq!(due(&mut watch, at(2_000)), [Due::Over("hold")]);
    assert!(!watch.is_watched(id));
}

#[test]
fn a_forgotten_hold_is_never_due() {
    let (mut watch, id) = kept(30_000);

    assert!(!watch.forget(id));

    assert_eq!(due(&mut watch, at(60_000)), []);
    assert_eq!(watch.next(), None);
}

#[test]
fn forgetting_a_hold_returns_whether_a_renewal_is_under_way() {
    let (mut watch, id) = kept(30_000);
    due(&mut watch, at(10_000));

    assert!(watch.forget(id));
}

#[test]
fn renewals_fall_on_a_grid_that_makes_them_earlier_by_less_than_a_tenth() {
    let (mut watch, id) = kept(30_000);

    for (sent, renewal) in [(0, 10_000), (1, 10_000), (999, 10_000), (1000, 11_000)] {
        watch.accept(id, "hold", at(sent));
        assert_eq!(watch.next(), Some(at(renewal)), "{sent}");
    }
}

#[test]
fn a_hold_of_a_refused_call_goes_alone_and_at_once_until_it_is_confirmed() {
    let (mut watch, id) = kept(30_000);
    let alone = |due: Vec<Due<_>>| match due.as_slice() {
        [Due::Renew(renewal)] => (renewal.alone, renewal.troubles),
        other => panic!("{other:?}"),
    };
    assert_eq!(alone(due(&mut watch, at(10_000))), (false, 0));

    watch.part(id, at(10_001));

    assert_eq!(alone(due(&mut watch, at(10_001))), (true, 0));
    watch.failed(id, at(10_001));
    assert_eq!(alone(due(&mut watch, at(11_001))), (true, 1));
    watch.renewed(id, at(11_001), at(39_501));
    assert_eq!(alone(due(&mut watch, at(21_000))), (false, 0));
}

/// The refusal comes when the renewal counts as hung: the next one is planned, and goes alone.
#[test]
fn a_late_refusal_does_not_hurry_the_next_try() {
    let (mut watch, id) = kept(30_000);
    due(&mut watch, at(10_000));
    due(&mut watch, at(13_000));

    watch.part(id, at(13_500));

    assert_eq!(watch.next(), Some(at(14_000)));
}

/// A call that needs the keeper meanwhile waits for one part only.
#[test]
fn due_holds_are_returned_in_parts() {
    let terms = terms(30_000);
    let deadline = terms.deadline(at(0), terms.lease);
    let mut watch = Watch::new(Grid::new(at(0), 0));
    for _ in 0..5 {
        watch.keep("hold", terms, deadline, at(0));
    }

    let parts = [0, 1, 2].map(|_| watch.due(at(10_000), 2, |_| LIMIT).len());

    assert_eq!(parts, [2, 2, 1]);
}

#[test]
fn an_offer_that_is_over_is_not_accepted() {
    let (mut watch, id) = kept(30_000);
    assert_eq!(watch.accept(id, "kept", at(0)), Some("hold"));

    watch.forget(id);

    assert_eq!(watch.accept(id, "kept", at(0)), None);
}

#[test]
fn a_renewal_that_found_its_connection_is_under_way_until_its_hold_is_forgotten_or_over() {
    let (mut watch, id) = kept(30_000);
    due(&mut watch, at(10_000));
    watch.failed(id, at(10_000));

    assert!(watch.start_renewal(id, at(10_500), LIMIT));
    assert_eq!(watch.next(), Some(at(13_500)));
    assert!(!watch.start_renewal(id, at(28_500), LIMIT));
    assert!(watch.forget(id));
    assert!(!watch.start_renewal(id, at(11_000), LIMIT));
}

#[test]
fn the_shortest_lease_is_that_of_a_renewed_hold_that_is_still_watched() {
    let (mut watch, long) = kept(30_000);
    let deadline = at(100_000);
    let fixed = Terms {
        renew_every: None,
        ..terms(200)
    };
    watch.keep("fixed", fixed, deadline, at(0));
    let short = [2000, 2000].map(|ms| watch.keep("short", terms(ms), deadline, at(0)));
    let lease = |watch: &Watch<_>| watch.shortest_lease().map(|lease| lease.as_millis());

    assert_eq!(lease(&watch), Some(2000));
    watch.forget(short[0]);
    assert_eq!(lease(&watch), Some(2000));
    watch.forget(short[1]);
    assert_eq!(lease(&watch), Some(30_000));
    watch.forget(long);
    assert_eq!(lease(&watch), None);
}
