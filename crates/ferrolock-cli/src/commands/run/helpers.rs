//! The two processes of ours that a run needs: they are started beside the taking of the lock, not after it.

use std::io;

use super::Plan;
use crate::process::gate::Gate;
use crate::process::shim::{Fate, Shim};
use crate::process::signals::Signals;

/// One that somebody has ended, as a signal to our group does to a shim that has not left it yet, is started again, so
/// often.
const STARTS_MAX: usize = 3;

/// The shim with nobody to kill, and the command's process behind its gate.
#[derive(Debug)]
pub(super) struct Helpers {
    shim: io::Result<Shim>,
    gate: io::Result<Gate>,
}

impl Helpers {
    /// Starts both. What the system has against it matters when they are needed.
    pub(super) fn start(plan: &Plan) -> Self {
        Self {
            shim: Shim::start(),
            gate: gate(plan),
        }
    }

    /// Both of them, alive; no signal but KILL reaches the shim.
    pub(super) async fn ready(self, plan: &Plan) -> io::Result<(Shim, Gate)> {
        let mut waits = self.gate?;
        if !waits.is_alive() {
            waits = gate(plan)?;
        }
        let mut shim = self.shim?;
        for _ in 1..STARTS_MAX {
            // It may have been ready long ago, before a wait for the lock.
            if shim.ready().await.is_ok() && shim.fate() == Fate::Alive {
                return Ok((shim, waits));
            }
            shim = Shim::start()?;
        }
        shim.ready().await?;
        Ok((shim, waits))
    }

    /// There will be no command: ends both, and waits for it, so that nothing of ours is left behind us.
    pub(super) async fn dismiss(self) {
        if let (Ok(gate), Ok(mut children)) = (self.gate, Signals::of_children()) {
            gate.dismiss(&mut children).await;
        }
        if let (Ok(shim), Ok(children)) = (self.shim, Signals::of_children()) {
            shim.dismiss(children).ended().await;
        }
    }
}

fn gate(plan: &Plan) -> io::Result<Gate> {
    Gate::start(&plan.program, &plan.words, &plan.inherited)
}
