//! Calls: which have run, which have not, and which may have run.

use super::fake::OnScript;
use super::*;

#[tokio::test]
async fn a_reply_comes_back_to_its_call() {
    let fake = Fake::start();
    let engine = connected(&fake).await;

    assert_eq!(call(&engine, "hello").await, Ok(bytes("hello")));
    // The first one had to send its script to the server.
    assert_eq!(call(&engine, "hello").await, Ok(bytes("hello")));
    assert!(engine.round_trip() > Duration::ZERO);
    assert_eq!(engine.trouble(), None);
}

#[tokio::test]
async fn a_call_whose_reply_was_lost_is_unknown_and_has_run_once() {
    let fake = Fake::start_with(|rules| rules.on_script = OnScript::LoseReply);
    let engine = connected(&fake).await;

    let lost = call(&engine, "a").await;
    fake.rules().on_script = OnScript::Echo;
    ready(&engine, Lane::Commands).await;
    let next = call(&engine, "b").await;

    assert!(matches!(lost, Err(Failure::Unknown(_))), "{lost:?}");
    assert_eq!(next, Ok(bytes("b")));
    assert_eq!(fake.seen().count("EVALSHA"), 2);
}

#[tokio::test]
async fn a_call_under_way_when_the_server_dies_is_not_sent_to_the_next_one() {
    let fake = Fake::start_with(|rules| rules.on_script = OnScript::Swallow);
    let engine = connected(&fake).await;

    let under_way = tokio::spawn(engine.call(Lane::Commands, echo("a")));
    fake.until(|seen| seen.count("EVALSHA") == 1).await;
    fake.stop();
    let lost = under_way.await.unwrap();
    fake.rules().on_script = OnScript::Echo;
    fake.restart();
    ready(&engine, Lane::Commands).await;

    assert!(matches!(lost, Err(Failure::Unknown(_))), "{lost:?}");
    assert_eq!(call(&engine, "b").await, Ok(bytes("b")));
    assert_eq!(fake.seen().count("EVALSHA"), 2);
}

#[tokio::test]
async fn a_call_without_a_connection_is_not_sent() {
    let fake = Fake::start();
    let engine = connected(&fake).await;

    fake.stop();
    // Until its end is known, a connection may have taken the call.
    let mut reply = call(&engine, "a").await;
    while matches!(reply, Err(Failure::Unknown(_))) {
        reply = call(&engine, "a").await;
    }

    assert!(matches!(reply, Err(Failure::NotSent(_))), "{reply:?}");
    assert_eq!(fake.seen().count("EVALSHA"), 0);
}

#[tokio::test]
async fn trouble_is_reported_until_there_is_a_connection() {
    let fake = Fake::start();
    fake.stop();
    let engine = lazy(&fake);

    let unreachable = engine.connect().await.unwrap_err();

    assert_eq!(
        unreachable.to_string(),
        "connection refused: is a server running there?"
    );
    assert!(matches!(engine.trouble(), Some(Failure::NotSent(_))));
    fake.restart();
    ready(&engine, Lane::Commands).await;
    assert_eq!(engine.trouble(), None);
}

#[tokio::test]
async fn a_black_holed_connection_is_replaced_and_its_calls_are_unknown() {
    let fake = Fake::start();
    let engine = impatient(&fake).await;

    fake.rules().mute = true;
    let swallowed = call(&engine, "a").await;
    fake.rules().mute = false;
    ready(&engine, Lane::Commands).await;

    assert!(
        matches!(swallowed, Err(Failure::Unknown(_))),
        "{swallowed:?}"
    );
    assert_eq!(call(&engine, "b").await, Ok(bytes("b")));
}

#[tokio::test]
async fn a_dead_connection_is_replaced_though_its_callers_gave_up() {
    let fake = Fake::start();
    let engine = impatient(&fake).await;

    fake.rules().mute = true;
    let given_up = engine.call(Lane::Commands, echo("a"));
    tokio::select! {
        reply = given_up => panic!("a mute server answered: {reply:?}"),
        () = fake.until(|seen| seen.count("EVALSHA") == 1) => {}
    }

    // No caller waits for a reply now; still another connection is made.
    fake.until(|seen| seen.connections > 1).await;
    assert_eq!(fake.seen().count("EVALSHA"), 1);
}

#[tokio::test]
async fn a_server_that_stood_still_answers_each_caller_its_own_reply() {
    let fake = Fake::start();
    let engine = connected(&fake).await;

    fake.freeze();
    let calls: Vec<_> = (0..50)
        .map(|n| tokio::spawn(engine.call(Lane::Commands, echo(&n.to_string()))))
        .collect();
    fake.until(|seen| seen.count("EVALSHA") == 50).await;
    calls
        .iter()
        .step_by(7)
        .for_each(tokio::task::JoinHandle::abort);
    fake.thaw();

    for (n, call) in calls.into_iter().enumerate() {
        match call.await {
            Ok(reply) => assert_eq!(reply, Ok(bytes(&n.to_string()))),
            Err(error) => assert!(error.is_cancelled() && n % 7 == 0),
        }
    }
}

#[tokio::test]
async fn an_unknown_script_is_sent_once_with_its_text() {
    let fake = Fake::start_with(|rules| rules.knows_scripts = false);
    let engine = connected(&fake).await;

    let first = call(&engine, "a").await;
    let second = call(&engine, "b").await;

    assert_eq!((first, second), (Ok(bytes("a")), Ok(bytes("b"))));
    assert_eq!(fake.seen().count("EVAL"), 1);
    assert_eq!(fake.seen().count("EVALSHA"), 2);
}

#[tokio::test]
async fn an_error_of_the_server_is_returned_with_its_code() {
    let fake = Fake::start_with(|rules| {
        rules.on_script = OnScript::Error("WRONGTYPE Operation against a key");
    });
    let engine = connected(&fake).await;

    let reply = call(&engine, "a").await;

    assert_eq!(
        reply,
        Err(Failure::Refused {
            code: "WRONGTYPE".into(),
            message: "Operation against a key".into()
        })
    );
    assert_eq!(fake.seen().connections, 1);
}

#[tokio::test]
async fn a_readonly_error_is_returned_and_the_connection_is_replaced() {
    let fake = Fake::start_with(|rules| {
        rules.on_script = OnScript::Error("READONLY You can't write against a read only replica.");
    });
    let engine = connected(&fake).await;

    let reply = call(&engine, "a").await;

    assert!(matches!(&reply, Err(Failure::Refused { code, .. }) if code == "READONLY"));
    fake.until(|seen| seen.connections == 2).await;
}

#[tokio::test]
async fn calls_under_way_are_answered_though_the_server_turned_readonly() {
    let fake = Fake::start_with(|rules| rules.on_script = OnScript::Error("READONLY no"));
    let engine = connected(&fake).await;

    fake.freeze();
    let calls: Vec<_> = (0..20)
        .map(|_| tokio::spawn(engine.call(Lane::Commands, echo("a"))))
        .collect();
    fake.until(|seen| seen.count("EVALSHA") == 20).await;
    fake.thaw();

    for call in calls {
        let reply = call.await.unwrap();
        assert!(matches!(reply, Err(Failure::Refused { .. })), "{reply:?}");
    }
}
