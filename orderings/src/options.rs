//! The times of a hold.

use std::time::Duration;

use crate::engine::Tick;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    pub(crate) renew_every: Option<Duration>,
}

impl Terms {
    pub(crate) fn deadline(&self, sent: Tick, lease: Duration) -> Tick {
        sent.after(lease)
    }

    pub(crate) fn lease_at(&self, _now: Tick, _cap: Option<Tick>) -> Duration {
        Duration::ZERO
    }
}
