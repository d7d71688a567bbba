//! The client of a run: how it connects, and how it is left.

use std::time::Duration;

use ferrolock::{Client, ClientBuilder};

use super::limit::{COMMAND_MAX, Limit};
use super::terms::Terms;
use crate::address::Address;
use crate::exit::Failure;

/// The library's own limit for a connection, and the least that it takes.
const CONNECT_MAX: Duration = Duration::from_secs(5);
const CONNECT_MIN: Duration = Duration::from_millis(1);
/// How long we wait at the end for calls that are not answered yet.
const LEAVING_MAX: Duration = Duration::from_millis(250);

/// Connects within the limit.
pub(super) async fn connect(
    address: &Address,
    terms: &Terms,
    limit: &Limit,
) -> Result<Client, Failure> {
    tracing::info!(address = %address.shown(), "connecting");
    let builder = builder(address, terms);
    let explain = |error| address.explain(error);
    match limit.left() {
        // A store is opened once, and its own failure names the process that blocks it.
        Some(left) if address.is_store() => {
            let builder = builder.connect_limit(left.clamp(CONNECT_MIN, CONNECT_MAX));
            builder.connect().await.map_err(explain)
        }
        // The library may reconnect to a server later, and then has its usual limit: ours must not shorten that one.
        _ => {
            let connecting = async { builder.connect().await.map_err(explain) };
            limit.keep(address, connecting).await
        }
    }
}

fn builder(address: &Address, terms: &Terms) -> ClientBuilder {
    Client::builder()
        .url(address.url())
        .watchdog_lease(terms.lease)
        .safety_margin(terms.margin)
        .command_limit(COMMAND_MAX)
        // A drop would block the one thread on which the answers arrive that it waits for: `leave` waits instead.
        .drop_limit(Duration::ZERO)
}

/// Ends the client. A lock that we asked for and gave up may be granted a moment later: it is released then, and releases
/// that are on their way arrive.
pub(super) async fn leave(client: &Client) {
    leave_within(client, LEAVING_MAX).await;
}

async fn leave_within(client: &Client, limit: Duration) {
    // An error says that holds are left to their leases, which was reported already.
    let _ = client.shutdown(limit).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::OnLost;
    use testkit::{Kind, LIMIT, Proxy, Server, eventually_async};

    /// The server has the acquire, and answers when the caller has given up. On one thread, as in a run.
    #[tokio::test]
    async fn a_lock_that_is_granted_after_giving_up_is_released() {
        if !Kind::Redis.is_here() {
            return;
        }
        const BRIEF: Duration = Duration::from_millis(50);
        for does_wait in [false, true] {
            let server = Server::start(Kind::Redis);
            let proxy = Proxy::start(server.address());
            let address = Address::Given(proxy.url());
            let terms = Terms::new(LIMIT, None, None, OnLost::Term).unwrap();
            let client = builder(&address, &terms).connect().await.unwrap();
            let lock = client.lock("x");
            // Then the server knows the script, and one call is enough.
            let _ = lock.lock().await.unwrap().unlock().await;
            proxy.hold_requests(true);
            let is_given_up = match does_wait {
                true => lock.try_lock_for(BRIEF).await.is_err(),
                false => tokio::time::timeout(BRIEF, lock.try_lock()).await.is_err(),
            };
            assert!(is_given_up);
            eventually_async(LIMIT, "a question", async || proxy.bytes_held() > 0).await;
            drop(lock);
            proxy.hold_requests(false);

            leave_within(&client, LIMIT).await;

            let granted = server.commandstats().get("hset").copied();
            assert_eq!(granted, Some(2), "it was granted");
            assert_eq!(server.keys(), [""; 0], "and was given back");
        }
    }
}
