//! Runtimes that end and engines that are closed.

use super::fake::OnScript;
use super::*;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

#[tokio::test]
async fn calls_after_the_runtime_ended_return_closed() {
    let fake = Fake::start_with(|rules| rules.on_script = OnScript::Swallow);
    let engine = lazy(&fake);
    let home = runtime();
    engine.start(home.handle().clone());
    engine.connect().await.unwrap();
    let under_way = tokio::spawn(engine.call(Lane::Commands, echo("a")));
    fake.until(|seen| seen.count("EVALSHA") == 1).await;

    home.shutdown_background();

    let cut = tokio::time::timeout(HANG, under_way)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(cut, Err(Failure::Unknown(_))), "{cut:?}");
    // The runtime's own thread drops its tasks one after the other.
    while !matches!(call(&engine, "b").await, Err(Failure::Closed(_))) {
        tokio::task::yield_now().await;
    }
    ready(&engine, Lane::Commands).await;
    let listening = engine.listen("a".into(), notes().0);
    let outcome = tokio::time::timeout(HANG, listening).await.unwrap();
    let why = "the runtime that this client was connected in has ended";
    assert_eq!(outcome.unwrap_err(), Failure::Closed(why.into()));
    assert_eq!(engine.trouble(), Some(Failure::Closed(why.into())));
}

#[tokio::test]
async fn listen_returns_closed_when_the_runtime_of_the_subscriptions_ends() {
    let fake = Fake::start();
    fake.freeze();
    let engine = lazy(&fake);
    let home = runtime();
    engine.start(home.handle().clone());
    let listening = tokio::spawn(engine.listen("a".into(), notes().0));
    fake.until(|seen| seen.count("HELLO") == 1).await;

    home.shutdown_background();

    let outcome = tokio::time::timeout(HANG, listening).await.unwrap();
    assert!(matches!(outcome.unwrap(), Err(Failure::Closed(_))));
}

#[tokio::test]
async fn the_keepers_lane_begins_again_in_the_next_runtime() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let first = runtime();
    let lane = engine.ready(Lane::Keeper);
    first.spawn(lane).await.unwrap();
    let reply = engine.call(Lane::Keeper, echo("a")).await;
    assert_eq!(reply, Ok(bytes("a")));

    first.shutdown_background();

    let mut reply = engine.call(Lane::Keeper, echo("b")).await;
    while reply.is_err() {
        ready(&engine, Lane::Keeper).await;
        reply = engine.call(Lane::Keeper, echo("b")).await;
    }
    assert_eq!(reply, Ok(bytes("b")));
}

#[tokio::test]
async fn closing_ends_calls_under_way_and_all_later_ones() {
    let fake = Fake::start_with(|rules| rules.on_script = OnScript::Swallow);
    let engine = connected(&fake).await;
    let (listener, _heard) = notes();
    let _subscription = engine.listen("a".into(), listener).await.unwrap();
    let under_way = tokio::spawn(engine.call(Lane::Commands, echo("a")));
    fake.until(|seen| seen.count("EVALSHA") == 1).await;

    engine.close();

    let cut = tokio::time::timeout(HANG, under_way)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(cut, Err(Failure::Unknown(_))), "{cut:?}");
    let closed = Failure::Closed("the client was shut down".into());
    assert_eq!(call(&engine, "b").await, Err(closed.clone()));
    ready(&engine, Lane::Commands).await;
    ready(&engine, Lane::Keeper).await;
    let listening = engine.listen("b".into(), notes().0).await;
    assert_eq!(listening.unwrap_err(), closed);
}

#[tokio::test]
async fn a_call_outside_of_a_runtime_returns_closed() {
    let fake = Fake::start();
    let engine = lazy(&fake);

    let reply = std::thread::spawn(move || {
        let waker = std::task::Waker::noop();
        let mut call = engine.call(Lane::Commands, echo("a"));
        std::pin::Pin::new(&mut call).poll(&mut std::task::Context::from_waker(waker))
    })
    .join()
    .unwrap();

    assert!(matches!(
        reply,
        std::task::Poll::Ready(Err(Failure::Closed(_)))
    ));
}

#[tokio::test]
async fn reconnected_resolves_once_there_is_a_new_connection() {
    let fake = Fake::start();
    let engine = lazy(&fake);
    let mut first = Box::pin(engine.reconnected(Lane::Keeper));
    assert!(testkit::poll_once(first.as_mut()).is_pending());
    ready(&engine, Lane::Keeper).await;
    tokio::time::timeout(HANG, first).await.unwrap();
    let mut next = Box::pin(engine.reconnected(Lane::Keeper));
    assert!(testkit::poll_once(next.as_mut()).is_pending());
    let reply = engine.call(Lane::Keeper, echo("a")).await;
    assert_eq!(reply, Ok(bytes("a")));
    assert!(testkit::poll_once(next.as_mut()).is_pending());

    fake.kick();

    tokio::time::timeout(HANG, next).await.unwrap();
}
