//! One store, opened by many paths: all clients share its locks.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use ferrolock::Client;

use crate::actor::Actor;
use crate::stage::{LONG, Store, is_possible, limited, url};

async fn client(url: &str) -> Client {
    let builder = Client::builder().url(url).watchdog_lease(LONG);
    builder.connect().await.unwrap()
}

/// The path of the same directory relative to the current one.
fn relative(store: &Store) -> String {
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let from_root = store.path().strip_prefix("/").unwrap();
    url(&up.join(from_root))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_a_store_leads_to_the_same_locks() {
    let store = Store::new();
    symlink(store.path(), store.beside("link")).unwrap();
    symlink(store.beside("link"), store.beside("link of a link")).unwrap();
    let spelled = store
        .path()
        .join("..")
        .join(store.path().file_name().unwrap());
    let first = store.client().await;
    let ways = [
        store.url(),
        url(&store.beside("link")),
        url(&store.beside("link of a link")),
        relative(&store),
        url(&spelled),
        format!("file://{}/", store.path().display()),
        format!("file://localhost{}", store.path().display()),
        format!("{}?filesystem=any", store.url()),
    ];

    for (number, way) in ways.iter().enumerate() {
        let (name, back) = (format!("there {number}"), format!("back {number}"));
        let second = client(way).await;
        let guard = first.lock(&name).try_lock().await.unwrap().unwrap();
        assert!(
            second.lock(&name).try_lock().await.unwrap().is_none(),
            "{way}"
        );
        let _other = second.lock(&back).try_lock().await.unwrap().unwrap();
        assert!(
            first.lock(&back).try_lock().await.unwrap().is_none(),
            "{way}"
        );

        let waits = tokio::spawn({
            let lock = second.lock(&name);
            async move { lock.lock().await }
        });
        guard.unlock().await.unwrap();

        let guard = limited(waits).await.unwrap().unwrap();
        guard.unlock().await.unwrap();
    }
    assert_eq!(
        store
            .sessions()
            .iter()
            .filter(|name| !name.contains('.'))
            .count(),
        1
    );
}

/// A second way to the same files that cannot be seen from the path.
#[test]
fn a_bind_mount_leads_to_the_same_locks() {
    let mounts = ["unshare", "--user", "--map-root-user", "--mount"];
    let store = Store::begun();
    let bound = store.beside("bound");
    std::fs::create_dir(&bound).unwrap();
    let (from, to) = (store.path().to_str().unwrap(), bound.to_str().unwrap());
    let script = format!("mount --bind '{from}' '{to}' && exec \"$@\"");
    let inside = [&mounts[..], &["sh", "-c", &script, "sh"]].concat();
    if !is_possible(&[&inside[..], &["true"]].concat()) {
        let remedy = "mounts in a namespace of one's own are not allowed here\n";
        return testkit::left_out("without namespaces", remedy);
    }
    let mut actor = Actor::start_under(&inside);
    actor.connects(&store);
    actor.takes("x");
    let mut outside = Actor::start();
    outside.connects(&store);

    // In one process, and from the other side of the mount.
    let again = actor.does(&["connect", &url(&bound), "120000"]);

    assert_eq!(again, "connected");
    assert_eq!(actor.does(&["try", "x"]), "busy");
    actor.takes("y");
    assert_eq!(outside.does(&["try", "x"]), "busy");
    assert_eq!(outside.does(&["try", "y"]), "busy");
    actor.is_killed();
    outside.takes("x");
    outside.takes("y");
}
