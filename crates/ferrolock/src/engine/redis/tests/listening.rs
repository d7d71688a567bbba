//! Subscriptions: confirmed, interrupted, refused.

use super::*;

async fn listen(
    engine: &RedisEngine,
    channel: &str,
    listener: Arc<dyn Listener>,
) -> Result<crate::engine::Subscription, Failure> {
    let listening = engine.listen(channel.into(), listener);
    tokio::time::timeout(HANG, listening).await.unwrap()
}

fn message(text: &str) -> Signal {
    Signal::Message(text.as_bytes().to_vec())
}

#[tokio::test]
async fn a_confirmed_listener_gets_every_message_and_unsubscribes_when_dropped() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (listener, mut heard) = notes();

    let subscription = listen(&engine, "a", listener).await.unwrap();
    assert_eq!(fake.publish("a", "1") + fake.publish("a", "2"), 2);

    assert_eq!(next(&mut heard).await, message("1"));
    assert_eq!(next(&mut heard).await, message("2"));
    drop(subscription);
    fake.until(|seen| seen.count("UNSUBSCRIBE") == 1).await;
    assert_eq!(heard.recv().await, None);
}

#[tokio::test]
async fn a_listener_dropped_before_its_confirmation_unsubscribes() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (first, _heard) = notes();
    let _first = listen(&engine, "other", first).await.unwrap();

    fake.freeze();
    let (listener, mut heard) = notes();
    tokio::select! {
        _ = listen(&engine, "a", listener) => panic!("confirmed by a server that stood still"),
        () = fake.until(|seen| seen.count("SUBSCRIBE") == 2) => {}
    }
    fake.thaw();

    fake.until(|seen| seen.count("UNSUBSCRIBE") == 1).await;
    assert_eq!(heard.recv().await, None);
}

#[tokio::test]
async fn a_channel_can_be_listened_to_again_at_once() {
    let fake = Fake::start();
    let engine = lazy(&fake);

    for round in 0..50 {
        let (listener, mut heard) = notes();
        let _subscription = listen(&engine, "a", listener).await.unwrap();
        assert_eq!(fake.publish("a", &round.to_string()), 1);
        assert_eq!(next(&mut heard).await, message(&round.to_string()));
    }
}

/// Once, the second listener replaced the first, which got no messages from then on: a fair and a plain lock of one name
/// would have kept messages from each other.
#[tokio::test]
async fn two_listeners_on_one_channel_both_get_messages_over_one_subscription() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let ((one, mut heard_one), (two, mut heard_two)) = (notes(), notes());

    let first = listen(&engine, "a", one).await.unwrap();
    let second = listen(&engine, "a", two).await.unwrap();
    assert_eq!(fake.publish("a", "both"), 1);
    assert_eq!(next(&mut heard_one).await, message("both"));
    assert_eq!(next(&mut heard_two).await, message("both"));
    drop(first);
    assert_eq!(heard_one.recv().await, None);

    assert_eq!(fake.publish("a", "the other"), 1);
    assert_eq!(next(&mut heard_two).await, message("the other"));
    assert_eq!(fake.seen().count("SUBSCRIBE"), 1);
    assert_eq!(fake.seen().count("UNSUBSCRIBE"), 0);
    drop(second);
    fake.until(|seen| seen.count("UNSUBSCRIBE") == 1).await;
    assert_eq!(heard_two.recv().await, None);
}

#[tokio::test]
async fn every_listener_of_a_channel_gets_the_gap() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let ((one, mut heard_one), (two, mut heard_two)) = (notes(), notes());
    let _first = listen(&engine, "a", one).await.unwrap();
    let _second = listen(&engine, "a", two).await.unwrap();

    fake.kick();

    assert_eq!(next(&mut heard_one).await, Signal::Gap);
    assert_eq!(next(&mut heard_two).await, Signal::Gap);
    assert_eq!(fake.seen().count("SUBSCRIBE"), 2);
}

#[tokio::test]
async fn a_listener_that_joins_a_confirmed_channel_needs_no_answer_of_the_server() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let ((one, _heard_one), (two, mut heard_two)) = (notes(), notes());
    let _first = listen(&engine, "a", one).await.unwrap();

    fake.freeze();
    let _second = listen(&engine, "a", two).await.unwrap();
    fake.thaw();

    assert_eq!(fake.publish("a", "1"), 1);
    assert_eq!(next(&mut heard_two).await, message("1"));
}

#[tokio::test]
async fn the_first_listener_may_leave_while_the_second_waits_for_the_confirmation() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let _other = listen(&engine, "other", notes().0).await.unwrap();
    let ((one, mut heard_one), (two, mut heard_two)) = (notes(), notes());

    fake.freeze();
    let mut first = engine.listen("a".into(), one);
    tokio::select! {
        _ = &mut first => panic!("confirmed by a server that stood still"),
        () = fake.until(|seen| seen.count("SUBSCRIBE") == 2) => {}
    }
    let mut second = engine.listen("a".into(), two);
    assert!(testkit::poll_once(second.as_mut()).is_pending());
    drop(first);
    assert_eq!(heard_one.recv().await, None);
    fake.thaw();

    let _second = tokio::time::timeout(HANG, second).await.unwrap().unwrap();
    assert_eq!(fake.publish("a", "1"), 1);
    assert_eq!(next(&mut heard_two).await, message("1"));
    assert_eq!(fake.seen().count("SUBSCRIBE"), 2);
    assert_eq!(fake.seen().count("UNSUBSCRIBE"), 0);
}

#[tokio::test]
async fn a_listener_that_joins_during_the_unsubscribe_is_confirmed_after_it() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let first = listen(&engine, "a", notes().0).await.unwrap();

    fake.freeze();
    drop(first);
    fake.until(|seen| seen.count("UNSUBSCRIBE") == 1).await;
    let (listener, mut heard) = notes();
    let mut second = engine.listen("a".into(), listener);
    assert!(testkit::poll_once(second.as_mut()).is_pending());
    fake.thaw();

    let _second = tokio::time::timeout(HANG, second).await.unwrap().unwrap();
    assert_eq!(fake.publish("a", "1"), 1);
    assert_eq!(next(&mut heard).await, message("1"));
}

#[tokio::test]
async fn a_refusal_ends_listeners_that_wait_but_not_those_confirmed_before() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (one, mut heard_one) = notes();
    let _first = listen(&engine, "a", one).await.unwrap();

    fake.rules().forbidden = Some("a");
    fake.kick();
    fake.until(|seen| seen.count("SUBSCRIBE") == 2).await;
    let refused = listen(&engine, "a", notes().0).await;
    assert!(matches!(&refused, Err(Failure::Refused { code, .. }) if code == "NOPERM"));
    fake.rules().forbidden = None;
    let _third = listen(&engine, "a", notes().0).await.unwrap();

    assert_eq!(next(&mut heard_one).await, Signal::Gap);
    assert_eq!(fake.publish("a", "1"), 1);
    assert_eq!(next(&mut heard_one).await, message("1"));
}

#[tokio::test]
async fn servers_know_one_subscription_of_all_listeners_of_a_channel() {
    for kind in testkit::servers() {
        let server = testkit::Server::start(kind);
        let engine = RedisEngine::new(Config::parse(&server.url()).unwrap());
        let subscribers = || server.command(&["PUBSUB", "NUMSUB", "a"]);
        let counted = |count| {
            let name = testkit::Reply::Text("a".to_owned());
            testkit::Reply::List(vec![name, testkit::Reply::Int(count)])
        };
        let ((one, mut heard_one), (two, mut heard_two)) = (notes(), notes());

        let first = listen(&engine, "a", one).await.unwrap();
        let second = listen(&engine, "a", two).await.unwrap();
        assert_eq!(subscribers(), counted(1));
        server.command(&["PUBLISH", "a", "both"]);
        assert_eq!(next(&mut heard_one).await, message("both"));
        assert_eq!(next(&mut heard_two).await, message("both"));
        drop(second);
        server.command(&["PUBLISH", "a", "one"]);

        assert_eq!(next(&mut heard_one).await, message("one"));
        assert_eq!(heard_two.recv().await, None);
        drop(first);
        testkit::eventually_async(testkit::LIMIT, "nobody is subscribed", async || {
            subscribers() == counted(0)
        })
        .await;
    }
}

#[tokio::test]
async fn a_killed_subscriber_gets_a_gap_once_it_is_confirmed_again() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (listener, mut heard) = notes();
    let _subscription = listen(&engine, "a", listener).await.unwrap();

    fake.kick();

    assert_eq!(next(&mut heard).await, Signal::Gap);
    assert_eq!(fake.publish("a", "after"), 1);
    assert_eq!(next(&mut heard).await, message("after"));
}

#[tokio::test]
async fn an_idle_subscriber_subscribes_again_when_the_server_is_back() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (listener, mut heard) = notes();
    let _subscription = listen(&engine, "a", listener).await.unwrap();

    fake.stop();
    while engine.trouble().is_none() {
        tokio::task::yield_now().await;
    }
    fake.restart();

    assert_eq!(next(&mut heard).await, Signal::Gap);
    assert_eq!(fake.publish("a", "after"), 1);
}

#[tokio::test]
async fn a_subscriber_without_a_server_waits_for_one() {
    let fake = Fake::start();
    fake.stop();
    let engine = lazy(&fake);
    let (listener, _heard) = notes();

    let waiting = tokio::spawn(engine.listen("a".into(), listener));
    while engine.trouble().is_none() {
        tokio::task::yield_now().await;
    }
    fake.restart();

    waiting.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_idle_subscriber_notices_that_its_server_fell_silent() {
    let fake = Fake::start();
    let engine = impatient(&fake).await;
    let (listener, mut heard) = notes();
    let _subscription = listen(&engine, "a", listener).await.unwrap();
    let before = fake.seen().connections;

    fake.rules().mute = true;
    fake.until(|seen| seen.count("PING") > 0).await;
    fake.until(|seen| seen.connections > before).await;
    fake.rules().mute = false;
    // The server swallowed the attempt under way too.
    fake.kick();

    assert_eq!(next(&mut heard).await, Signal::Gap);
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_by_itself_is_a_gap() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let ((listener, mut heard), (other, mut other_heard)) = (notes(), notes());
    let _subscription = listen(&engine, "a", listener).await.unwrap();
    let _other = listen(&engine, "b", other).await.unwrap();

    assert_eq!(fake.cut("a"), 1);

    assert_eq!(next(&mut heard).await, Signal::Gap);
    assert_eq!(next(&mut other_heard).await, Signal::Gap);
}

#[tokio::test]
async fn a_forbidden_channel_is_refused_alone() {
    let fake = Fake::start_with(|rules| rules.forbidden = Some("secret"));
    let engine = lazy(&fake);

    let listening: Vec<_> = (0..40)
        .map(|n| {
            let kind = if n % 10 == 3 { "secret" } else { "open" };
            let (listener, _) = notes();
            tokio::spawn(engine.listen(format!("{kind}:{n}").into(), listener))
        })
        .collect();

    for (n, listening) in listening.into_iter().enumerate() {
        let outcome = listening.await.unwrap();
        if n % 10 == 3 {
            assert!(matches!(&outcome, Err(Failure::Refused { code, .. }) if code == "NOPERM"));
        } else {
            assert!(outcome.is_ok(), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn listen_fails_with_the_error_of_a_server_without_subscribe() {
    let fake = Fake::start_with(|rules| {
        rules.subscribe_error = Some("ERR unknown command 'SUBSCRIBE'");
    });
    let engine = lazy(&fake);

    let outcome = listen(&engine, "a", notes().0).await;

    assert!(matches!(&outcome, Err(Failure::Refused { code, .. }) if code == "ERR"));
}

#[tokio::test]
async fn a_subscription_is_tried_again_when_the_server_was_busy() {
    let fake = Fake::start_with(|rules| rules.subscribe_error = Some("BUSY running a script"));
    let engine = lazy(&fake);

    let listening = tokio::spawn(engine.listen("a".into(), notes().0));
    fake.until(|seen| seen.count("SUBSCRIBE") == 1).await;
    fake.rules().subscribe_error = None;

    listening.await.unwrap().unwrap();
}

#[tokio::test]
async fn ten_thousand_channels_are_confirmed_in_batches_and_come_back() {
    const CHANNELS: usize = 10_000;
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (listener, mut heard) = notes();

    let listening: Vec<_> = (0..CHANNELS)
        .map(|n| tokio::spawn(engine.listen(format!("channel:{n}").into(), listener.clone())))
        .collect();
    let mut subscriptions = Vec::new();
    for listening in listening {
        subscriptions.push(listening.await.unwrap().unwrap());
    }
    fake.kick();

    for _ in 0..CHANNELS {
        assert_eq!(next(&mut heard).await, Signal::Gap);
    }
    assert!(fake.seen().count("SUBSCRIBE") < CHANNELS / 10);
    drop(subscriptions);
    fake.until(|seen| seen.count("UNSUBSCRIBE") > 0).await;
}
