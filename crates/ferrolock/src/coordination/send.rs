//! One call to the server: over which lane, when there is a connection, and until when.

use std::sync::Arc;

use crate::coordination::Core;
use crate::engine::{Calling, Failure, Lane, RUNTIME_ENDED, Tick};
use crate::error::{Error, Result};
use crate::protocol::call::{Call, Value};
use crate::protocol::key_type;
use crate::protocol::scheme::Scheme;

impl Core {
    /// Every call of the machinery goes out here. It is sent when the future is first polled.
    pub(super) fn send(&self, lane: Lane, call: Call) -> Calling {
        self.engine.call(lane, call)
    }

    /// Runs the work until `limit`. `None`: it did not end in time, and is dropped.
    pub(crate) async fn until<T>(&self, limit: Tick, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.sleep_until(limit) => None,
        }
    }

    /// Asks the server something that changes no count. One limit, that of a command, covers the wait for a connection, the
    /// answer, and for a key of another type the question for that type, which the error then names.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        lane: Lane,
        about: Option<&Arc<dyn Scheme>>,
        call: Call,
    ) -> Result<Value> {
        self.check_process()?;
        let (core, about) = (self.clone(), about.cloned());
        // In a task of the client's runtime: the caller may be in another, or poll late.
        let asked = self.runtime()?.spawn(async move {
            let limit = core.settings.command_limit;
            let work = async {
                let reply = core.send_when_connected(lane, call).await;
                match (reply, about) {
                    (Err(failure), Some(scheme)) => Err(core.explain(&*scheme, failure).await),
                    (reply, _) => reply,
                }
            };
            match core.until(core.now().after(limit), work).await {
                Some(reply) => reply.map_err(Error::from),
                None => Err(core.no_answer(limit, core.engine.trouble())),
            }
        });
        match asked.await {
            Ok(reply) => reply,
            Err(_) => Err(Error::closed(RUNTIME_ENDED)),
        }
    }

    async fn send_when_connected(
        &self,
        lane: Lane,
        call: Call,
    ) -> std::result::Result<Value, Failure> {
        loop {
            match self.send(lane, call.clone()).await {
                Err(Failure::NotSent(_)) => self.engine.ready(lane).await,
                reply => return reply,
            }
        }
    }

    /// A refusal for the type of the key names the type found.
    pub(crate) async fn explain(&self, scheme: &dyn Scheme, failure: Failure) -> Failure {
        match failure {
            Failure::Refused { code, .. } if code == "WRONGTYPE" => {
                let call = key_type::ask(scheme.name());
                let kind = self.send(Lane::Commands, call).await.ok();
                let message = key_type::wrong_type(scheme.subject(), kind);
                Failure::Refused { code, message }
            }
            failure => failure,
        }
    }
}
