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
    }
}

/// One renewed hold, accepted at 0.
fn kept(lease_ms: u64) -> (Watch<&'static str>, u64) {
    let terms = terms(lease_ms);
    let mut watch = Watch::new();
    let id = watch.offer("hold", terms, terms.deadline(at(0), terms.lease), at(1000));
    watch.accept(id, at(0), 0.0);
    (watch, id)
}

#[test]
fn an_offer_that_nobody_takes_is_over_and_was_never_renewed() {
    let mut watch = Watch::new();
    let terms = terms(30_000);
    watch.offer("hold", terms, terms.deadline(at(0), terms.lease), at(1000));

    assert_eq!(watch.due(at(999), |_| LIMIT), []);
    assert_eq!(watch.due(at(1000), |_| LIMIT), [Due::OfferOver("hold")]);
    assert_eq!(watch.next(), None);
}

#[test]
fn a_renewal_comes_at_a_third_of_the_lease_and_moves_the_deadline() {
    let (mut watch, id) = kept(30_000);

    assert_eq!(watch.due(at(9_999), |_| LIMIT), []);
    assert_eq!(
        watch.due(at(10_000), |_| LIMIT),
        [Due::Renew {
            id,
            hold: "hold",
            again: false
        }]
    );
    watch.renewed(id, at(10_000), at(38_500), 0.0);

    assert_eq!(watch.next(), Some(at(20_000)));
}

#[test]
fn a_hung_renewal_is_tried_again_over_the_other_connection() {
    let (mut watch, id) = kept(200);

    let first = watch.due(at(67), |_| LIMIT);
    assert_eq!(
        first,
        [Due::Renew {
            id,
            hold: "hold",
            again: false
        }]
    );
    // A sixth of the lease later it counts as hung, a thirtieth later the next one goes out: before the deadline.
    assert_eq!(watch.due(at(101), |_| LIMIT), []);
    assert_eq!(
        watch.due(at(108), |_| LIMIT),
        [Due::Renew {
            id,
            hold: "hold",
            again: true
        }]
    );
    assert!(at(108) < terms(200).deadline(at(0), Duration::from_millis(200)));
}

#[test]
fn a_hold_that_cannot_be_renewed_is_over_at_its_deadline() {
    let (mut watch, id) = kept(30_000);
    let mut now = 10_000;
    while now < 60_000 {
        let due = watch.due(at(now), |_| LIMIT);
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
    let mut watch = Watch::new();
    let ids = ["a", "b", "c"].map(|hold| watch.keep(hold, terms, deadline, at(0), 0.0));

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
    assert_eq!(watch.troubles(id), 0);

    for (troubles, now) in [(1, 10_000), (2, 11_000), (3, 12_000)] {
        assert_eq!(watch.due(at(now), |_| LIMIT).len(), 1);
        watch.failed(id, at(now));
        assert_eq!(watch.troubles(id), troubles);
    }
    watch.due(at(13_000), |_| LIMIT);
    watch.renewed(id, at(13_000), at(41_500), 0.0);

    assert_eq!(watch.troubles(id), 0);
}

/// A sixth of a short lease is less than the limit for commands.
#[test]
fn a_renewal_that_found_its_connection_has_a_sixth_of_the_lease() {
    let (mut watch, id) = kept(6_000);
    watch.due(at(2_000), |_| LIMIT);
    watch.failed(id, at(2_000));

    assert!(watch.sends(id, at(2_100), LIMIT));

    assert_eq!(watch.next(), Some(at(3_100)));
}

#[test]
fn a_deadline_that_is_moved_from_outside_moves_later_only() {
    let terms = Terms {
        renew_every: None,
        ..terms(30_000)
    };
    let mut watch = Watch::new();
    let id = watch.keep("hold", terms, at(1_000), at(0), 0.0);

    watch.extended(id, at(2_000));
    watch.extended(id, at(500));

    assert_eq!(watch.next(), Some(at(2_000)));
    assert_eq!(watch.due(at(1_999), |_| LIMIT), []);
    assert_eq!(watch.due(at(2_000), |_| LIMIT), [Due::Over("hold")]);
    assert!(!watch.is_watched(id));
}

#[test]
fn what_is_forgotten_is_never_due() {
    let (mut watch, id) = kept(30_000);

    assert!(!watch.forget(id));

    assert_eq!(watch.due(at(60_000), |_| LIMIT), []);
    assert_eq!(watch.next(), None);
}

#[test]
fn who_forgets_hears_of_a_renewal_under_way() {
    let (mut watch, id) = kept(30_000);
    watch.due(at(10_000), |_| LIMIT);

    assert!(watch.forget(id));
}

#[test]
fn jitter_only_makes_it_earlier() {
    let (mut watch, id) = kept(30_000);
    watch.accept(id, at(0), 1.0);

    assert_eq!(watch.next(), Some(at(9_000)));
}

#[test]
fn an_offer_that_is_over_is_not_accepted() {
    let (mut watch, id) = kept(30_000);
    assert!(watch.accept(id, at(0), 0.0));

    watch.forget(id);

    assert!(!watch.accept(id, at(0), 0.0));
}

#[test]
fn a_renewal_that_found_its_connection_is_under_way_until_its_hold_is_forgotten_or_over() {
    let (mut watch, id) = kept(30_000);
    watch.due(at(10_000), |_| LIMIT);
    watch.failed(id, at(10_000));

    assert!(watch.sends(id, at(10_500), LIMIT));
    assert_eq!(watch.next(), Some(at(13_500)));
    assert!(!watch.sends(id, at(28_500), LIMIT));
    assert!(watch.forget(id));
    assert!(!watch.sends(id, at(11_000), LIMIT));
}

#[test]
fn the_shortest_lease_is_that_of_a_renewed_hold_that_is_still_watched() {
    let (mut watch, long) = kept(30_000);
    let deadline = at(100_000);
    let fixed = Terms {
        renew_every: None,
        ..terms(200)
    };
    watch.keep("fixed", fixed, deadline, at(0), 0.0);
    let short = [2000, 2000].map(|ms| watch.keep("short", terms(ms), deadline, at(0), 0.0));
    let lease = |watch: &Watch<_>| watch.shortest_lease().map(|lease| lease.as_millis());

    assert_eq!(lease(&watch), Some(2000));
    watch.forget(short[0]);
    assert_eq!(lease(&watch), Some(2000));
    watch.forget(short[1]);
    assert_eq!(lease(&watch), Some(30_000));
    watch.forget(long);
    assert_eq!(lease(&watch), None);
}
