//! Rows that were written are read as they were, and bytes that are no row are refused.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;

/// What a script did to a key.
#[derive(Clone, Debug)]
enum Made {
    Text(Vec<u8>),
    /// Fields that were set, and of those some that were removed again.
    Hash(Vec<(Vec<u8>, Vec<u8>)>, Vec<usize>),
    List(Vec<(bool, Vec<u8>)>),
    SortedSet(Vec<(Vec<u8>, f64)>),
}

impl Made {
    fn data(&self) -> Data {
        match self {
            Made::Text(text) => Data::Text(text.clone()),
            Made::Hash(set, removed) => {
                let mut hash = Hash::default();
                set.iter().for_each(|(field, value)| {
                    hash.set(field, value);
                });
                // The last one stays: an empty hash is none.
                for at in removed.iter().filter(|at| **at + 1 < set.len()) {
                    if hash.len() > 1 {
                        hash.remove(&set[*at].0);
                    }
                }
                Data::Hash(hash)
            }
            Made::List(pushed) => {
                let mut list = List::default();
                for (at_head, item) in pushed {
                    list.push(if *at_head { End::Head } else { End::Tail }, item);
                }
                Data::List(list)
            }
            Made::SortedSet(set) => {
                let mut sorted = SortedSet::default();
                set.iter()
                    .for_each(|(member, score)| sorted.set(member, *score));
                Data::SortedSet(sorted)
            }
        }
    }
}

/// Everything that can be seen of a value.
fn seen(data: &Data) -> String {
    match data {
        Data::Text(text) => format!("{text:?}"),
        Data::Hash(hash) => {
            let (next, places) = hash.places();
            let scanned: Vec<_> = hash.scan(1).collect();
            format!(
                "{next} {:?} {scanned:?} {}",
                places.collect::<Vec<_>>(),
                hash.len()
            )
        }
        Data::List(list) => format!("{:?}", list.iter().collect::<Vec<_>>()),
        Data::SortedSet(set) => {
            let members: Vec<_> = set.iter_from(0).collect();
            let ranks: Vec<_> = members.iter().map(|(member, _)| set.rank(member)).collect();
            format!("{members:?} {ranks:?} {}", set.len())
        }
    }
}

/// Reads a row into a keyspace of its own, and looks at it at a time at which everything lives.
fn loaded(row: &[u8]) -> Result<(String, Vec<u8>), Garbled> {
    let mut keys = Keyspace::default();
    load(&mut keys, b"key", row)?;
    let deadline = match keys.life(b"key", Millis::MIN) {
        super::super::super::emulator::keyspace::KeyLife::Until(deadline) => Some(deadline),
        _ => None,
    };
    let data = keys.get(b"key", Millis::MIN).ok_or(Garbled)?;
    Ok((seen(data), write_value(data, deadline)))
}

fn made() -> impl Strategy<Value = Made> {
    let part = || vec(any::<u8>(), 0..6);
    // Few of them, so that some are equal.
    let name = || vec(0..3_u8, 0..3);
    let score = prop_oneof![
        any::<f64>().prop_filter("a number", |score| !score.is_nan()),
        prop_oneof![
            Just(0.0),
            Just(-0.0),
            Just(1.0),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY)
        ],
    ];
    prop_oneof![
        part().prop_map(Made::Text),
        (vec((name(), part()), 1..12), vec(0..12_usize, 0..8))
            .prop_map(|(set, removed)| Made::Hash(set, removed)),
        vec((any::<bool>(), part()), 1..12).prop_map(Made::List),
        vec((name(), score), 1..12).prop_map(Made::SortedSet),
    ]
}

proptest! {
    #[test]
    fn a_row_is_read_as_it_was_written(made in made(), deadline in option::of(any::<Millis>())) {
        let data = made.data();
        let row = write_value(&data, deadline);

        prop_assert_eq!(read_deadline(&row), Ok(deadline));
        prop_assert_eq!(loaded(&row), Ok((seen(&data), row)));
    }

    /// Only rows that would be written the same are accepted: nothing half, nothing twice, nothing out of order.
    #[test]
    fn bytes_that_are_no_row_are_refused(kind in prop_oneof![Just(b't'), Just(b'h'), Just(b'l'), Just(b'z'), any::<u8>()],
                                         bytes in vec(prop_oneof![0..4_u8, any::<u8>()], 0..80)) {
        let row = [&[kind][..], &bytes].concat();

        if let Ok((_, again)) = loaded(&row) {
            prop_assert_eq!(again, row);
        }
    }

    #[test]
    fn a_row_that_was_damaged_is_refused_or_another_whole_row(made in made(), deadline in option::of(any::<Millis>()),
                                                              at in any::<prop::sample::Index>(), byte in any::<u8>(),
                                                              end in any::<prop::sample::Index>()) {
        let mut row = write_value(&made.data(), deadline);
        let at = at.index(row.len());
        row[at] = byte;
        for row in [&row[..], &row[..end.index(row.len())]] {
            if let Ok((_, again)) = loaded(row) {
                prop_assert_eq!(again, row);
            }
        }
    }
}

#[test]
fn a_row_with_a_field_twice_or_with_nothing_in_it_is_refused() {
    let head = |kind: u8| [&[kind, 0][..], &[0; 8]].concat();
    let field = |place: u64| {
        [
            &place.to_be_bytes()[..],
            &[0, 0, 0, 1, b'f', 0, 0, 0, 1, b'v'],
        ]
        .concat()
    };
    let next = 9_u64.to_be_bytes();
    let hash = |fields: &[u64]| {
        let fields = fields.iter().flat_map(|place| field(*place));
        [&head(b'h')[..], &next, &fields.collect::<Vec<u8>>()].concat()
    };

    assert!(loaded(&hash(&[1])).is_ok());
    for refused in [hash(&[]), hash(&[1, 2]), hash(&[9]), head(b'l'), head(b'z')] {
        assert_eq!(loaded(&refused), Err(Garbled), "{refused:?}");
    }
}
