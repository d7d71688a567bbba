//! Replies that are lost: what was asked for is given back, or found again.

use ferrolock::{Client, ErrorKind};
use testkit::{LIMIT, Proxy, Server, eventually_async};

server_stories!(
    a_downgrade_without_its_reply_leaves_nothing,
    a_read_and_a_write_whose_replies_are_lost_leave_one_hold_each,
    a_release_whose_reply_is_lost_leaves_nothing,
);

async fn through_a_proxy(server: &Server) -> (Proxy, Client) {
    let proxy = Proxy::start(server.address());
    let client = Client::connect(server.url_at(proxy.port())).await.unwrap();
    (proxy, client)
}

async fn emptied(server: &Server) {
    eventually_async(LIMIT, "no key is left", async || server.keys().is_empty()).await;
}

async fn a_downgrade_without_its_reply_leaves_nothing(server: &Server) {
    let (proxy, client) = through_a_proxy(server).await;
    for _ in 0..3 {
        let writing = client.rw_lock("shelf").write().await.unwrap();
        proxy.drop_reply_to("shelf");

        let error = writing.downgrade().await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        emptied(server).await;
    }
}

async fn a_read_and_a_write_whose_replies_are_lost_leave_one_hold_each(server: &Server) {
    let (proxy, client) = through_a_proxy(server).await;
    for prefers in [false, true] {
        let lock = client.rw_lock("shelf");
        let lock = if prefers { lock.prefer_writers() } else { lock };
        proxy.drop_reply_to("shelf");
        let reading = lock.read().await.unwrap();
        reading.unlock().await.unwrap();
        emptied(server).await;

        proxy.drop_reply_to("shelf");
        let writing = lock.write().await.unwrap();
        writing.check().await.unwrap();
        writing.unlock().await.unwrap();
        emptied(server).await;
    }
}

async fn a_release_whose_reply_is_lost_leaves_nothing(server: &Server) {
    let (proxy, client) = through_a_proxy(server).await;
    let reading = client.rw_lock("shelf").read().await.unwrap();
    proxy.drop_reply_to("shelf");
    reading.unlock().await.unwrap();
    let writing = client.rw_lock("shelf").write().await.unwrap();
    proxy.drop_reply_to("shelf");
    writing.unlock().await.unwrap();
    emptied(server).await;
}
