//! The recipes of `docs/guarantees.md` refuse the write of a holder that comes too late. They are run as the page has them.

use std::time::Duration;

use ferrolock::{Client, Fence};
use rusqlite::{Connection, named_params};
use testkit::{Kind, Reply, Server};

const PAGE: &str = include_str!("../../../../docs/guarantees.md");

on_each_server!(the_recipe_for_redis_refuses_a_late_write);

/// The code of that language on the page.
fn recipe(language: &str) -> &'static str {
    let opening = format!("```{language}\n");
    let (_, code) = PAGE.split_once(&opening).expect("the page has it");
    let (code, rest) = code.split_once("```").expect("it has an end");
    assert!(!rest.contains(&opening), "there is one");
    code
}

/// The fence of a holder whose lease has ended, and that of the next holder.
async fn late_and_next(client: &Client) -> (Fence, Fence) {
    let short = client.fenced_lock("x").lease(Duration::from_millis(200));
    let late = short.lock().await.unwrap();
    let next = client.fenced_lock("x").lock().await.unwrap();
    (late.fence(), next.fence())
}

#[tokio::test(start_paused = true)]
async fn the_recipe_for_sql_refuses_a_late_write() {
    let (late, next) = late_and_next(&Client::memory()).await;
    let database = Connection::open_in_memory().unwrap();
    database
        .execute_batch(
            "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER, fence INTEGER NOT NULL);
             INSERT INTO account VALUES (1, 100, 0);",
        )
        .unwrap();
    let write = |fence: Fence, balance: i64| {
        let values = named_params! { ":id": 1, ":balance": balance, ":fence": fence.as_i64() };
        database.execute(recipe("sql"), values).unwrap()
    };

    assert_eq!(write(late, 110), 1);
    assert_eq!(write(next, 120), 1);
    assert_eq!(write(late, 130), 0);
    assert_eq!(write(next, 140), 1);

    let balance = database.query_row("SELECT balance FROM account", [], |row| row.get(0));
    assert_eq!(balance, Ok(140));
}

async fn the_recipe_for_redis_refuses_a_late_write(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(server.url()).await.unwrap();
    let (late, next) = late_and_next(&client).await;
    let write = |fence: Fence, value: &str| {
        let fence = fence.to_string();
        let keys = ["balance", "balance:fence"];
        server.command(&["EVAL", recipe("lua"), "2", keys[0], keys[1], &fence, value])
    };

    assert_eq!(write(late, "110"), Reply::Int(1));
    assert_eq!(write(next, "120"), Reply::Int(1));
    assert_eq!(write(late, "130"), Reply::Int(0));
    assert_eq!(write(next, "140"), Reply::Int(1));

    assert_eq!(server.command(&["GET", "balance"]).text(), "140");
}
