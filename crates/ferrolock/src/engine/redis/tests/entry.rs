//! The first contact: passwords, versions, full servers.

use super::super::ConnectError;
use super::*;

#[tokio::test]
async fn a_wrong_password_is_refused_as_wrongpass_and_shown_nowhere() {
    let fake = Fake::start_with(|rules| rules.password = Some("right"));
    let mut config = config(&fake);
    config.set_password("s3cr3t");
    let engine = RedisEngine::new(config);

    let error = engine.connect().await.unwrap_err();

    assert!(matches!(&error, ConnectError::Refused { code, .. } if code == "WRONGPASS"));
    let shown = format!("{error} {error:?} {engine:?} {:?}", engine.trouble());
    assert!(!shown.contains("s3cr3t"), "{shown}");
    let reply = call(&engine, "a").await;
    assert!(matches!(reply, Err(Failure::NotSent(_))), "{reply:?}");
}

#[tokio::test]
async fn a_server_that_repeats_the_password_does_not_give_it_away() {
    let fake = Fake::start_with(|rules| rules.hello_error = Some("ERR what is"));
    let mut config = config(&fake);
    config.set_password("s3cr3t");
    let engine = RedisEngine::new(config);

    let error = engine.connect().await.unwrap_err().to_string();

    assert!(error.starts_with("ERR ") && error.contains(&fake.address().to_string()));
    assert!(!error.contains("what is"), "{error}");
}

#[tokio::test]
async fn the_right_password_connects() {
    let fake = Fake::start_with(|rules| rules.password = Some("right"));
    let mut config = config(&fake);
    config.set_username("alice");
    config.set_password("right");

    RedisEngine::new(config).connect().await.unwrap();

    assert_eq!(fake.seen().commands[0][2..], ["AUTH", "alice", "right"]);
}

#[tokio::test]
async fn the_error_of_a_full_server_names_the_max_number_of_clients() {
    let fake = Fake::start_with(|rules| {
        rules.hello_error = Some("ERR max number of clients reached");
    });

    let error = lazy(&fake).connect().await.unwrap_err();

    assert!(matches!(&error, ConnectError::Refused { code, .. } if code == "ERR"));
    assert!(error.to_string().contains("max number of clients"));
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused_with_its_version() {
    let fake = Fake::start_with(|rules| rules.version = "redis_version:6.2.14");

    let error = lazy(&fake).connect().await.unwrap_err();

    assert_eq!(
        error,
        ConnectError::TooOld(
            "redis 6.2.14 is too old: ferrolock needs redis 7.0 or valkey 7.2".into()
        )
    );
}

#[tokio::test]
async fn calls_to_an_old_server_fail_with_version_if_connect_was_not_called() {
    let fake = Fake::start_with(|rules| rules.version = "redis_version:6.2.14");
    let engine = lazy(&fake);

    ready(&engine, Lane::Commands).await;
    let reply = call(&engine, "a").await;

    assert!(matches!(&reply, Err(Failure::Refused { code, .. }) if code == "VERSION"));
    assert_eq!(engine.trouble(), reply.err());
}

#[tokio::test]
async fn a_server_without_hello_is_too_old() {
    let fake = Fake::start_with(|rules| rules.hello_error = Some("ERR unknown command `HELLO`,"));

    let error = lazy(&fake).connect().await.unwrap_err();

    assert!(matches!(error, ConnectError::TooOld(_)), "{error}");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_unreachable_after_the_limit() {
    let fake = Fake::start_with(|rules| rules.mute = true);
    let mut config = config(&fake);
    config.set_connect_limit(Duration::from_millis(30));

    let error = RedisEngine::new(config).connect().await.unwrap_err();

    assert_eq!(
        error,
        ConnectError::Unreachable("no answer within 30ms".into())
    );
}

#[tokio::test]
async fn database_and_name_are_chosen_before_the_first_call() {
    let fake = Fake::start();
    let mut config = Config::parse(&format!("redis://{}/3", fake.address())).unwrap();
    config.set_name("orders");

    RedisEngine::new(config).connect().await.unwrap();

    let seen = fake.seen();
    assert_eq!(seen.commands[1], ["SELECT", "3"]);
    assert!(
        seen.commands
            .contains(&["CLIENT", "SETNAME", "orders"].map(str::to_owned).to_vec())
    );
}
