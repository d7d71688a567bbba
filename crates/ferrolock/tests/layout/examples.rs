//! The documented examples of what lies on a server, for the plain lock, and the one key that only this library writes.

use std::time::Duration;

use ferrolock::{Client, Owner, Unlocked};
use testkit::Value;

use crate::journal::Journal;
use crate::{connect, on_each_server};

fn published(journal: &mut Journal) -> Vec<(String, String)> {
    let messages = journal.take().messages;
    messages
        .into_iter()
        .map(|message| (message.channel, message.payload))
        .collect()
}

#[test]
fn a_lock_held_twice_and_released_twice_looks_as_the_examples_say() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let mut journal = Journal::of(server);
        let me = Owner::new();
        let lock = client.lock("orders").owned_by(&me);

        let outer = lock.lock().await.unwrap();
        let inner = lock.lock().await.unwrap();
        let field = outer.owner_id().as_str().to_owned();
        assert_eq!(
            field,
            format!("{}:{}", client.id(), outer.owner_id().number())
        );
        let held = server.dump();
        assert_eq!(held.len(), 1, "{held:?}");
        assert_eq!((&*held[0].key, &*held[0].kind), ("orders", "hash"));
        assert_eq!(held[0].value, Value::hash([(&field, "2")]));
        assert!(held[0].ttl.unwrap() <= Duration::from_secs(30));

        assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));
        assert_eq!(server.dump()[0].value, Value::hash([(&field, "1")]));
        assert_eq!(published(&mut journal), []);

        assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
        assert_eq!(server.dump(), []);
        let message = ("redisson_lock__channel:{orders}".to_owned(), "0".to_owned());
        assert_eq!(published(&mut journal), [message]);
    });
}

#[test]
fn a_name_with_a_tag_keeps_it_in_its_channel() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let mut journal = Journal::of(server);

        let guard = client.lock("{eu}:orders").lock().await.unwrap();
        assert_eq!(server.keys(), ["{eu}:orders"]);
        guard.unlock().await.unwrap();

        let message = (
            "redisson_lock__channel:{eu}:orders".to_owned(),
            "0".to_owned(),
        );
        assert_eq!(published(&mut journal), [message]);
    });
}

#[test]
fn holder_details_are_written_only_with_a_label_or_name_and_go_with_the_hold() {
    on_each_server(async |server| {
        let plain = connect(server).await;
        let named = Client::builder()
            .url(server.url())
            .name("billing")
            .connect()
            .await
            .unwrap();

        let guard = plain.lock("a").lock().await.unwrap();
        assert_eq!(server.keys(), ["a"]);
        let seen = plain.lock("a").holders().await.unwrap();
        assert_eq!(
            (&seen[0].host, &seen[0].pid, &seen[0].label),
            (&None, &None, &None)
        );
        guard.unlock().await.unwrap();

        let guard = plain.lock("a").label("import").lock().await.unwrap();
        let other = named.lock("{eu}:b").lock().await.unwrap();
        let keys = [
            "a",
            "ferrolock_holder:{a}",
            "ferrolock_holder:{eu}:b",
            "{eu}:b",
        ];
        assert_eq!(server.keys(), keys);
        for pair in server.dump().chunks(2) {
            let ttl = pair.iter().map(|entry| entry.ttl.unwrap());
            assert!(
                ttl.clone().all(|ttl| ttl <= Duration::from_secs(30)),
                "{pair:?}"
            );
        }
        let seen = plain.lock("a").holders().await.unwrap();
        assert_eq!(seen[0].label.as_deref(), Some("import"));
        assert_eq!(seen[0].pid, Some(std::process::id()));
        let seen = plain.lock("{eu}:b").holders().await.unwrap();
        assert_eq!(seen[0].label.as_deref(), Some("billing"));

        guard.unlock().await.unwrap();
        other.unlock().await.unwrap();
        assert_eq!(server.dump(), []);

        let guard = plain.lock("a").label("import").lock().await.unwrap();
        assert!(plain.lock("a").force_unlock().await.unwrap());
        assert_eq!(server.dump(), []);
        drop(guard);
    });
}
