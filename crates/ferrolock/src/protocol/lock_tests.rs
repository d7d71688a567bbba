//! What a call asks for and what a reply means, without a server: scripts are tested where one can run them.

use super::*;
use crate::protocol::key_type;
use crate::protocol::scheme::{
    Release, Standing, client_of, dead_bearer, is_acquire, read_force_unlock, read_release,
    read_standing, scheme_of, stays,
};

fn keys() -> PlainScheme {
    PlainScheme::new("orders".into())
}

fn bearer() -> Bearer {
    Bearer {
        field: "client:7".into(),
        who: None,
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

/// Every call there is, with its script's name.
fn calls() -> Vec<(&'static str, Call)> {
    let (keys, bearer) = (keys(), bearer());
    vec![
        ("lock/acquire", keys.acquire(&Ask::once(&bearer, ms(5)))),
        ("lock/reenter", keys.reenter(&bearer, ms(5), 2)),
        ("lock/release", keys.release(&bearer, 1, ms(5))),
        ("lock/renew", keys.renew(&bearer, ms(5)).call()),
        ("lock/delay_release", keys.delay_release(&bearer, ms(5))),
        ("lock/force_unlock", keys.force_unlock()),
        ("lock/inspect", keys.inspect()),
    ]
}

#[test]
fn every_call_names_its_script_and_its_lock() {
    let calls = calls();

    assert_eq!(calls.len(), SCRIPTS.len());
    for (script, call) in &calls {
        assert_eq!(call.script.name, *script);
        assert_eq!(**scheme_of(call).unwrap().name(), *"orders");
        assert_eq!(is_acquire(call), *script == "lock/acquire", "{script}");
    }
}

#[test]
fn a_call_of_another_family_is_about_no_lock() {
    static FOREIGN: Script = Script::new("somewhere/else", "return 1");
    let (_, call) = calls().swap_remove(0);

    let foreign = Call {
        script: &FOREIGN,
        ..call
    };

    assert!(scheme_of(&foreign).is_none());
    assert!(scheme_of(&key_type::ask(&"orders".into())).is_none());
    assert!(!is_acquire(&foreign));
}

#[test]
fn calls_name_the_details_key_only_if_details_are_kept() {
    let detailed = Bearer {
        who: Some(write_details(12, "host", "label")),
        ..bearer()
    };

    let (plain, detailed) = (
        keys().release(&bearer(), 0, ms(5)),
        keys().release(&detailed, 0, ms(5)),
    );

    assert_eq!(plain.keys.len() + 1, detailed.keys.len());
    let last = detailed.keys.last().map(|key| &**key);
    assert_eq!(last, Some("ferrolock_holder:{orders}"));
}

#[test]
fn the_lock_of_a_dead_process_is_released_whole_with_its_details() {
    let scheme = scheme_of(&keys().inspect()).unwrap();

    let call = scheme.abandon(&dead_bearer("client:7".into()));

    assert_eq!(call.script.name, "lock/release");
    assert_eq!(call.keys.len(), 3);
    let args = [Arg::Bytes(b"client:7"[..].into()), Arg::Int(0), Arg::Int(0)];
    assert_eq!(call.args.as_slice(), args);
}

/// A lease of no whole milliseconds is not shortened; one of thousands of years is as long as a number can say.
#[test]
fn times_are_whole_milliseconds_rounded_up() {
    for (time, asked) in [
        (Duration::ZERO, 0),
        (Duration::from_nanos(1), 1),
        (ms(5), 5),
        (ms(5) + Duration::from_nanos(1), 6),
        (Duration::MAX, i64::MAX),
    ] {
        assert_eq!(millis(time), Arg::Int(asked), "{time:?}");
    }
}

#[test]
fn the_client_in_a_field_stands_before_the_first_colon_and_a_number() {
    assert_eq!(client_of("client:7"), Some("client"));
    assert_eq!(client_of("client:7:write"), Some("client"));
    for foreign in ["client", "client:", "client:x", "client:-7", "a:b:7"] {
        assert_eq!(client_of(foreign), None, "{foreign}");
    }
}

#[test]
fn only_a_hold_that_is_left_to_the_server_stays() {
    for (script, call) in calls() {
        let stays = stays(&call);
        let expected = (script == "lock/delay_release").then_some(("client:7", 5));
        assert_eq!(stays, expected, "{script}");
    }
}

#[test]
fn an_attempt_is_granted_or_busy_for_some_time() {
    let busy = |rest: Rest| Ok(AttemptReply::Busy(rest.into()));

    assert_eq!(
        read_acquire(Value::Nil),
        Ok(AttemptReply::Granted(Granted::default()))
    );
    assert_eq!(read_acquire(Value::Int(-1)), busy(Rest::NoExpiry));
    assert_eq!(read_acquire(Value::Int(0)), busy(Rest::Left(ms(0))));
    assert_eq!(read_acquire(Value::Int(250)), busy(Rest::Left(ms(250))));
    for odd in [Value::Int(-2), bytes("OK")] {
        assert_eq!(read_acquire(odd.clone()), Err(BadReply("acquire", odd)));
    }
}

#[test]
fn a_field_is_ours_or_gone_or_another_is_there() {
    assert_eq!(read_standing(Value::Int(1)), Ok(Standing::Ours));
    assert_eq!(read_standing(Value::Int(0)), Ok(Standing::Gone));
    assert_eq!(read_standing(Value::Int(-1)), Ok(Standing::Taken));
    for odd in [Value::Int(2), Value::Nil] {
        assert_eq!(read_standing(odd.clone()), Err(BadReply("standing", odd)));
    }
}

#[test]
fn a_release_that_leaves_nothing_tells_how_many_heard_and_another_does_not() {
    let not = |standing| Ok(Release::Not(standing));

    for left in [0, 1] {
        assert_eq!(read_release(Value::Int(-1), left), not(Standing::Gone));
        assert_eq!(read_release(Value::Int(-2), left), not(Standing::Taken));
    }
    assert_eq!(
        read_release(Value::Int(0), 0),
        Ok(Release::Free { heard: 0 })
    );
    assert_eq!(
        read_release(Value::Int(3), 0),
        Ok(Release::Free { heard: 3 })
    );
    assert_eq!(read_release(Value::Int(0), 1), Ok(Release::Left));
    assert_eq!(read_release(Value::Int(-3), 0), Ok(Release::Shared));
    for (odd, left) in [(Value::Int(3), 1), (Value::Int(-3), 1), (Value::Nil, 0)] {
        let told = read_release(odd.clone(), left);
        assert_eq!(told, Err(BadReply("release", odd)));
    }
}

#[test]
fn a_forced_unlock_tells_whether_there_was_something_to_free() {
    assert_eq!(read_force_unlock(Value::Int(1)), Ok(true));
    assert_eq!(read_force_unlock(Value::Int(0)), Ok(false));
    for odd in [Value::Int(2), Value::Nil] {
        let told = read_force_unlock(odd.clone());
        assert_eq!(told, Err(BadReply("force unlock", odd)));
    }
}

/// Rest, the server's time, fields with counts, and details with fields.
fn inspected(left: i64, fields: &[&str], details: &[&str]) -> Value {
    let list = |texts: &[&str]| Value::List(texts.iter().map(|text| bytes(text)).collect());
    Value::List(vec![
        Value::Int(left),
        bytes("10500"),
        list(fields),
        list(details),
    ])
}

#[test]
fn a_free_lock_has_no_rest_and_no_holders() {
    assert_eq!(read_inspect(inspected(-2, &[], &[])), Ok((None, vec![])));
}

#[test]
fn a_holder_has_the_details_of_its_own_field() {
    let details = [
        "other:1",
        "1\n1\nx\ny",
        "client:7",
        "10000\n12\nhost\nlabel",
    ];

    let (rest, holders) = read_inspect(inspected(250, &["client:7", "2"], &details)).unwrap();

    assert_eq!(rest, Some(Rest::Left(ms(250))));
    let details = Details {
        held_for: ms(500),
        pid: Some(12),
        host: Some("host".to_owned()),
        label: Some("label".to_owned()),
    };
    let holder = Seen {
        field: "client:7".to_owned(),
        count: 2,
        details: Some(details),
    };
    assert_eq!(holders, [holder]);
}

/// A read-write lock of Redisson has the field `mode`.
#[test]
fn a_field_without_a_count_is_no_holder() {
    let fields = ["mode", "read", "client:7", "1"];

    let (rest, holders) = read_inspect(inspected(-1, &fields, &[])).unwrap();

    assert_eq!(rest, Some(Rest::NoExpiry));
    let holder = Seen {
        field: "client:7".to_owned(),
        count: 1,
        details: None,
    };
    assert_eq!(holders, [holder]);
}

#[test]
fn an_answer_of_another_shape_is_refused() {
    let mut no_time = inspected(-2, &[], &[]);
    let mut short = inspected(-2, &[], &[]);
    if let (Value::List(no_time), Value::List(short)) = (&mut no_time, &mut short) {
        no_time[1] = bytes("soon");
        short.pop();
    }
    for odd in [Value::Nil, no_time, short] {
        assert_eq!(read_inspect(odd.clone()), Err(BadReply("inspect", odd)));
    }
}

/// Written by another version, by hand, or cut off: people get what can be read.
#[test]
fn details_that_are_incomplete_are_read_as_far_as_they_go() {
    let nothing = Details {
        held_for: ms(0),
        pid: None,
        host: None,
        label: None,
    };

    assert_eq!(read_details("", 10_500), nothing);
    assert_eq!(read_details("soon\nx\n\n", 10_500), nothing);
    let later = read_details("99999\n12", 10_500);
    assert_eq!((later.held_for, later.pid), (ms(0), Some(12)));
    let label = read_details("10000\n12\n\na\nb", 10_500).label;
    assert_eq!(label.as_deref(), Some("a\nb"));
}

#[test]
fn details_are_read_as_they_were_written() {
    let written = format!("10000\n{}", write_details(12, "host", "two\nlines"));

    let details = read_details(&written, 10_500);

    assert_eq!(details.pid, Some(12));
    assert_eq!(details.host.as_deref(), Some("host"));
    assert_eq!(details.label.as_deref(), Some("two\nlines"));
}
