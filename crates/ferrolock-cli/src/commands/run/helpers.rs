//! The two processes of ours that a run needs: they are started while the lock is being taken, not after it.

use std::io;

use tokio::signal::unix;

use super::Plan;
use crate::process::gate::Gate;
use crate::process::shim::{Fate, Shim};
use crate::process::signals::Signals;

/// How many shims are started if each is killed. A signal to our group kills a shim that has not left the group yet.
const STARTS_MAX: usize = 3;

/// The shim, without a group to kill yet, and the command's process behind its gate.
#[derive(Debug)]
pub(super) struct Helpers {
    /// An error matters only when the process is needed: then it is started again, and may succeed.
    shim: io::Result<Shim>,
    gate: io::Result<Gate>,
}

impl Helpers {
    /// None yet: they are started when they are needed.
    pub(super) fn none() -> Self {
        Self {
            shim: Err(io::ErrorKind::NotFound.into()),
            gate: Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Starts both. An error: the command can never be started.
    pub(super) fn start(plan: &Plan) -> io::Result<Self> {
        match gate(plan) {
            Err(why) if why.kind() == io::ErrorKind::ArgumentListTooLong => Err(why),
            gate => Ok(Self {
                shim: Shim::start(),
                gate,
            }),
        }
    }

    /// Waits until both are alive, and the shim has blocked all signals but KILL and STOP.
    pub(super) async fn ready(self, plan: &Plan) -> io::Result<(Shim, Gate)> {
        let mut children = Signals::of_children()?;
        let shim = ready(self.shim, &mut children).await;
        let waiting = match self.gate {
            Ok(waiting) if waiting.is_alive() => Ok(waiting),
            _ => gate(plan),
        };
        match (shim, waiting) {
            (Ok(shim), Ok(waiting)) => Ok((shim, waiting)),
            (Ok(shim), Err(why)) => {
                shim.end(&mut children).await;
                Err(why)
            }
            (Err(why), waiting) => {
                if let Ok(waiting) = waiting {
                    waiting.end(&mut children).await;
                }
                Err(why)
            }
        }
    }

    /// There will be no command: ends both, so that no process of ours is left.
    pub(super) async fn end(self) {
        let Ok(mut children) = Signals::of_children() else {
            return;
        };
        if let Ok(gate) = self.gate {
            gate.end(&mut children).await;
        }
        if let Ok(shim) = self.shim {
            shim.end(&mut children).await;
        }
    }
}

fn gate(plan: &Plan) -> io::Result<Gate> {
    Gate::start(&plan.program, &plan.words, &plan.inherited)
}

async fn ready(first: io::Result<Shim>, children: &mut unix::Signal) -> io::Result<Shim> {
    let mut next = first;
    for _ in 1..STARTS_MAX {
        if let Ok(shim) = next {
            // It may have been ready long ago, before a wait for the lock, and stopped or killed since.
            shim.wake();
            if shim.ready().await.is_ok() && shim.fate() == Fate::Alive {
                return Ok(shim);
            }
            shim.end(children).await;
        }
        next = Shim::start();
    }
    let shim = next?;
    shim.ready().await?;
    Ok(shim)
}
