//! The client's runtime ends while other runtimes use the client: typed errors, no hang.

use std::pin::Pin;
use std::time::Duration;

use ferrolock::{Error, ErrorKind, Unlocked};
use testkit::LIMIT;
use tokio::runtime::Runtime;

use crate::stage::{Party, Stage, TestGuard, listens, unique};

stories_in_real_time!(
    a_free_name_needs_no_runtime_where_no_server_is_asked,
    waiters_return_closed_when_the_runtime_ends,
    calls_after_the_runtime_ended_return_closed,
);

/// With the embedded engines, the caller's own task takes a free name: that needs nothing of the client's runtime.
async fn a_free_name_needs_no_runtime_where_no_server_is_asked(stage: &Stage) {
    if stage.server().is_some() {
        return;
    }
    let (theirs, client) = client_elsewhere(stage).await;
    end(theirs).await;

    let free = client.lock("b").lock().await.unwrap();

    assert_eq!(free.unlock().await.unwrap(), Unlocked::Released);
}

async fn waiters_return_closed_when_the_runtime_ends(stage: &Stage) {
    let ((theirs, client), name) = (client_elsewhere(stage).await, unique("a"));
    let held = client.lock(&name).lease(LIMIT).lock().await.unwrap();
    let waiters = [
        tokio::spawn(client.lock(&name).lock()),
        tokio::spawn(client.lock(&name).max_wait(LIMIT).lock()),
    ];
    listens(&client, &name).await;

    end(theirs).await;

    for waiter in waiters {
        let error = error_of(waiter).await;
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        assert!(error.to_string().contains("runtime"), "{error}");
    }
    drop(held);
}

async fn calls_after_the_runtime_ended_return_closed(stage: &Stage) {
    let (theirs, client) = client_elsewhere(stage).await;
    let held = client.lock("a").lease(LIMIT).lock().await.unwrap();
    end(theirs).await;

    let other = if stage.server().is_some() { "b" } else { "a" };
    assert_calls_return_closed(&client, &held, ["a", other, "a", other]).await;
}

type Call<'a> = (
    &'static str,
    Pin<Box<dyn Future<Output = Option<Error>> + 'a>>,
);

/// Every call fails with `Closed`, also the second one of each.
async fn assert_calls_return_closed<const N: usize>(
    client: &Party,
    held: &TestGuard,
    names: [&str; N],
) {
    for name in names {
        let lock = client.lock(name);
        let calls: [Call<'_>; 7] = [
            ("lock", Box::pin(async { lock.lock().await.err() })),
            ("try_lock", Box::pin(async { lock.try_lock().await.err() })),
            (
                "try_lock_for",
                Box::pin(async { lock.try_lock_for(LIMIT).await.err() }),
            ),
            (
                "run",
                Box::pin(async { lock.run(async |_| ()).await.err() }),
            ),
            ("holders", Box::pin(async { lock.holders().await.err() })),
            ("ping", Box::pin(async { client.ping().await.err() })),
            ("relock", Box::pin(async { held.relock().await.err() })),
        ];
        for (what, call) in calls {
            let answer = tokio::time::timeout(Duration::from_secs(10), call).await;
            let error = answer
                .unwrap_or_else(|_| panic!("{what} hangs"))
                .expect(what);
            assert_eq!(error.kind(), ErrorKind::Closed, "{what}: {error}");
        }
    }
}

async fn client_elsewhere(stage: &Stage) -> (Runtime, Party) {
    let theirs = Runtime::new().unwrap();
    let (builder, place) = (stage.builder(), stage.place());
    let connecting = async move { Party::connect(builder, &place).await };
    let client = theirs.spawn(connecting).await.unwrap();
    (theirs, client)
}

async fn end(runtime: Runtime) {
    tokio::task::spawn_blocking(move || drop(runtime))
        .await
        .unwrap();
}

async fn error_of<T>(waiter: tokio::task::JoinHandle<ferrolock::Result<T>>) -> Error {
    let answer = tokio::time::timeout(LIMIT, waiter)
        .await
        .expect("no hang")
        .unwrap();
    answer.err().expect("an error")
}
