use super::*;

const CLIENT: &str = "8743c9c0-0795-8907-87fd-6c719a6b4586";
const JAVA: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586";

fn scheme() -> FairScheme {
    FairScheme::new("orders".into(), CLIENT, FairTimes::default())
}

#[test]
fn keys_and_channels_have_the_names_that_redisson_uses() {
    let scheme = scheme();
    let field: Arc<str> = format!("{CLIENT}:7").into();
    let bearer = Bearer { field, who: None };

    let keys = scheme.keys();
    assert_eq!(
        keys.iter().map(|key| &**key).collect::<Vec<_>>(),
        [
            "orders",
            "redisson_lock_queue:{orders}",
            "redisson_lock_timeout:{orders}",
            "ferrolock_fair_clients:{orders}",
            "ferrolock_fair_waiters:{orders}",
            "ferrolock_fair_amnesty:{orders}",
        ]
    );
    assert_eq!(
        scheme.own_channel(&bearer).as_deref(),
        Some(format!("redisson_lock__channel:{{orders}}:{CLIENT}:7").as_str())
    );
    assert_eq!(
        scheme.waiting().channel.as_deref(),
        Some(format!("ferrolock_fair_inbox:{{orders}}:{CLIENT}").as_str())
    );
    assert_eq!(scheme.searched().as_slice(), &keys[..2]);
}

#[test]
fn a_call_tells_which_client_made_it() {
    let scheme = scheme();
    let field: Arc<str> = format!("{CLIENT}:7").into();
    let bearer = Bearer { field, who: None };

    let of = FairScheme::of_call("orders".into(), &scheme.abandon(&bearer));

    assert_eq!(of.waiting().channel, scheme.waiting().channel);
    let of = FairScheme::of_call("orders".into(), &scheme.force_unlock());
    assert_eq!(&*of.client, "");
}

fn reply(head: &str, numbers: [i64; 5]) -> Value {
    let [left, ticket, is_next, is_mixed, returned] = numbers.map(Value::Int);
    let head = Value::Bytes(head.as_bytes().to_vec());
    Value::List(vec![left, ticket, head, is_next, is_mixed, returned])
}

fn busy(head: &str, numbers: [i64; 5]) -> Busy {
    match scheme().read_acquire(reply(head, numbers)) {
        Ok(AttemptReply::Busy(busy)) => busy,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_busy_reply_says_who_is_first_in_the_queue() {
    let own = busy(&format!("{CLIENT}:7"), [100, 5, 1, 0, 0]);
    let foreign = busy(&format!("{JAVA}:7"), [-2, 5, 0, 1, 1]);
    let tried = busy("", [-1, 0, 0, 0, 0]);

    assert_eq!((own.head, own.look_in, own.is_next), (Some(7), None, true));
    assert_eq!(
        (own.place, own.rest),
        (Some(5), Rest::Left(Duration::from_millis(100)))
    );
    assert_eq!((foreign.head, foreign.look_in), (None, Some(FOREIGN_LOOK)));
    assert!(foreign.is_mixed && foreign.is_shaken);
    assert_eq!(foreign.rest, Rest::Left(Duration::ZERO));
    assert_eq!(
        (tried.place, tried.rest, tried.head),
        (None, Rest::NoExpiry, None)
    );
}

#[test]
fn replies_that_make_no_sense_are_told() {
    assert!(scheme().read_acquire(Value::List(vec![])).is_err());
    assert!(scheme().read_acquire(Value::Bytes(vec![])).is_err());
    assert!(matches!(
        scheme().read_acquire(Value::Nil),
        Ok(AttemptReply::Granted(_))
    ));
}

#[test]
fn a_message_names_a_waiter_by_its_number() {
    assert_eq!(scheme().hears(b"42"), Wake::Named(42));
    assert_eq!(scheme().hears(b"x"), Wake::Nobody);
    assert_eq!(scheme().hears(&[255]), Wake::Nobody);
}
