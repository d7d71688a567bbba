//! Subscriptions: confirmed, interrupted, refused.

use super::*;

async fn listen(
    engine: &RedisEngine,
    channel: &str,
    ear: Arc<dyn Ear>,
) -> Result<crate::engine::Subscription, Failure> {
    let listening = engine.listen(channel.into(), ear);
    tokio::time::timeout(HANG, listening).await.unwrap()
}

fn message(text: &str) -> Signal {
    Signal::Message(text.as_bytes().to_vec())
}

#[tokio::test]
async fn a_confirmed_listener_hears_every_message_and_leaves_when_dropped() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (ear, mut heard) = notes();

    let subscription = listen(&engine, "a", ear).await.unwrap();
    assert_eq!(fake.publish("a", "1") + fake.publish("a", "2"), 2);

    assert_eq!(next(&mut heard).await, message("1"));
    assert_eq!(next(&mut heard).await, message("2"));
    drop(subscription);
    fake.until(|seen| seen.count("UNSUBSCRIBE") == 1).await;
    assert_eq!(heard.recv().await, None);
}

#[tokio::test]
async fn a_listener_who_gives_up_before_the_confirmation_leaves_too() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (first, _heard) = notes();
    let _first = listen(&engine, "other", first).await.unwrap();

    fake.freeze();
    let (ear, mut heard) = notes();
    tokio::select! {
        _ = listen(&engine, "a", ear) => panic!("confirmed by a server that stood still"),
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
        let (ear, mut heard) = notes();
        let _subscription = listen(&engine, "a", ear).await.unwrap();
        assert_eq!(fake.publish("a", &round.to_string()), 1);
        assert_eq!(next(&mut heard).await, message(&round.to_string()));
    }
}

#[tokio::test]
async fn a_killed_subscriber_hears_a_gap_once_it_is_confirmed_again() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (ear, mut heard) = notes();
    let _subscription = listen(&engine, "a", ear).await.unwrap();

    fake.kick();

    assert_eq!(next(&mut heard).await, Signal::Gap);
    assert_eq!(fake.publish("a", "after"), 1);
    assert_eq!(next(&mut heard).await, message("after"));
}

#[tokio::test]
async fn an_idle_subscriber_comes_back_when_the_server_does() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let (ear, mut heard) = notes();
    let _subscription = listen(&engine, "a", ear).await.unwrap();

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
    let (ear, _heard) = notes();

    let waiting = tokio::spawn(engine.listen("a".into(), ear));
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
    let (ear, mut heard) = notes();
    let _subscription = listen(&engine, "a", ear).await.unwrap();
    let before = fake.seen().connections;

    fake.rules().mute = true;
    fake.until(|seen| seen.count("PING") > 0).await;
    fake.until(|seen| seen.connections > before).await;
    fake.rules().mute = false;
    // The attempt under way was swallowed with the rest.
    fake.kick();

    assert_eq!(next(&mut heard).await, Signal::Gap);
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_by_itself_is_a_gap() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let ((ear, mut heard), (other, mut other_heard)) = (notes(), notes());
    let _subscription = listen(&engine, "a", ear).await.unwrap();
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
            let (ear, _) = notes();
            tokio::spawn(engine.listen(format!("{kind}:{n}").into(), ear))
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
async fn a_server_that_cannot_subscribe_says_so() {
    let fake = Fake::start_with(|rules| {
        rules.subscribe_error = Some("ERR unknown command 'SUBSCRIBE'");
    });
    let engine = lazy(&fake);

    let outcome = listen(&engine, "a", notes().0).await;

    assert!(matches!(&outcome, Err(Failure::Refused { code, .. }) if code == "ERR"));
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
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
    let (ear, mut heard) = notes();

    let listening: Vec<_> = (0..CHANNELS)
        .map(|n| tokio::spawn(engine.listen(format!("channel:{n}").into(), ear.clone())))
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
