//! The library's slot, unlock answer, hold and bundle, and what they name.

use std::sync::Arc;

pub(crate) mod holding;
pub(crate) mod waiting;

pub(crate) use crate::primitives::unpoisoned;

/// Lets a panic through: it is how a model fails.
pub(crate) fn safely(work: impl FnOnce()) {
    work();
}

use crate::engine::{Clock, Tick};
use crate::primitives::{AtomicBool, Ordering};

/// What a hold sees of its tenure.
#[derive(Debug, Default)]
pub(crate) struct Tenure {
    pub(crate) scheme: Scheme,
    pub(crate) id: &'static str,
    pub(crate) core: Arc<Core>,
}

#[derive(Debug, Default)]
pub(crate) struct Scheme;

impl Scheme {
    pub(crate) fn name(&self) -> &'static str {
        "lock"
    }
}

#[derive(Debug, Default)]
pub(crate) struct Core {
    closing: AtomicBool,
}

pub(crate) struct AlarmKey;

/// Its alarms never go off: a wait that only an alarm would end is a deadlock.
pub(crate) struct Keeper;

impl Core {
    pub(crate) fn clock(&self) -> Clock {
        Clock::Boot
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock().now()
    }

    pub(crate) fn keeper(&self) -> Keeper {
        Keeper
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn tell_who_shuts_down(&self) {}
}

impl Keeper {
    pub(crate) fn alarm(
        &self,
        _of: &Core,
        _at: Tick,
        _ring: impl FnOnce() + Send + 'static,
    ) -> AlarmKey {
        AlarmKey
    }

    pub(crate) fn cancel(&self, _alarm: AlarmKey) {}
}
