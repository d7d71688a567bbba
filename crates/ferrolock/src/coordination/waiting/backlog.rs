//! New acquires wait while their client owes too many releases.
//!
//! A guard can be dropped faster than its release can be sent. Without a bound on the releases that are owed, memory and the
//! number of locks that are held for no caller would grow as long as a program goes on like that.

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::coordination::Core;
use crate::coordination::waiting::{Patience, Request};
use crate::engine::{RUNTIME_ENDED, Tick};
use crate::error::{Error, Result};

/// Returns when few enough releases are owed; an error when the request's time is over before.
pub(crate) async fn wait_for_releases(core: &Arc<Core>, request: &Request) -> Result<()> {
    let limit = match (request.patience, request.deadline) {
        (Patience::None, _) => request.command_limit(core),
        (_, Some(deadline)) => deadline,
        (_, None) => request.begun.after(core.settings.unreachable_after),
    };
    let named = |error: Error| error.of(request.scheme.name());
    while core.pending.is_full() {
        core.check_open().map_err(named)?;
        let waits = core.runtime()?.spawn(until_room(core.clone(), limit));
        match (&mut Aborting(waits).0).await {
            Ok(true) => {}
            Ok(false) => return Err(named(not_answered(core))),
            Err(_) => return Err(named(Error::closed(RUNTIME_ENDED))),
        }
    }
    Ok(())
}

/// True: there is room, or the client is shut down. False: the time is over.
async fn until_room(core: Arc<Core>, limit: Tick) -> bool {
    let room = core.pending.room(|| core.is_closing());
    core.until(limit, room).await.is_some()
}

fn not_answered(core: &Core) -> Error {
    let (address, owed) = (core.engine.address(), core.pending.owed());
    Error::unreachable(format!(
        "this client owes {address} {owed} releases, some of acquires without an answer: it asks for no new lock before"
    ))
}

/// A task that is aborted when its caller's future is dropped.
struct Aborting(JoinHandle<bool>);

impl Drop for Aborting {
    fn drop(&mut self) {
        self.0.abort();
    }
}
