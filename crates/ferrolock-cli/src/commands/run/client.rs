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
/// How long we stay for what was asked and not answered, when nothing else is left to do.
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
        // A store is opened once, and its own failure names the process that is in the way.
        Some(left) if address.is_store() => {
            let builder = builder.connect_limit(left.clamp(CONNECT_MIN, CONNECT_MAX));
            builder.connect().await.map_err(explain)
        }
        // To a server the library connects again later, and may take as long as ever then.
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
        // A drop would stand still on the one thread that could bring what it waits for: it is left instead.
        .drop_limit(Duration::ZERO)
}

/// Ends the client. What was asked for and given up may be granted a moment later: it is given back then, and a release
/// that is on its way arrives.
pub(super) async fn leave(client: &Client) {
    leave_within(client, LEAVING_MAX).await;
}

async fn leave_within(client: &Client, limit: Duration) {
    // An error tells of holds that are left to their leases, which was said where they were.
    let _ = client.shutdown(limit).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::OnLost;
    use testkit::{Kind, LIMIT, Proxy, Server, eventually_async};

    /// The server has the question, and answers when the caller has given up. As a run has it: on one thread.
    #[tokio::test]
    async fn what_is_granted_after_giving_up_is_given_back() {
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
            // The server knows the script then, and needs no second word for it.
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
