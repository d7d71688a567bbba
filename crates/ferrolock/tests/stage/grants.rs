//! What led to the grants of this process, as the library counts them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Grants by what led to them.
#[derive(Debug, Default)]
pub(crate) struct Grants(pub(crate) BTreeMap<String, u64>);

impl Grants {
    fn of(&self, causes: &[&str]) -> u64 {
        causes.iter().filter_map(|cause| self.0.get(*cause)).sum()
    }

    /// To a waiter that had found the lock busy and was woken.
    pub(crate) fn handed_off(&self) -> u64 {
        self.of(&["message", "gap", "confirmed"])
    }

    /// To a waiter that should have been woken, and was not.
    pub(crate) fn lost(&self) -> u64 {
        self.of(&["safety_poll", "lease_end"])
    }
}

/// Counts grants by cause, and nothing else.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    by_cause: Arc<Mutex<BTreeMap<String, Arc<Count>>>>,
}

#[derive(Default)]
struct Count(AtomicU64);

impl Counts {
    /// Counts for the rest of this process.
    pub(crate) fn begin() -> Self {
        let counts = Self::default();
        metrics::set_global_recorder(counts.clone()).expect("the only recorder of this process");
        counts
    }

    pub(crate) fn by_cause(&self) -> BTreeMap<String, u64> {
        let counts = self.by_cause.lock().unwrap();
        counts
            .iter()
            .map(|(cause, count)| (cause.clone(), count.0.load(Ordering::SeqCst)))
            .collect()
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::SeqCst);
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "ferrolock_grants_total" {
            return Counter::noop();
        }
        let cause = key.labels().next().expect("the cause").value().to_owned();
        let count = self
            .by_cause
            .lock()
            .unwrap()
            .entry(cause)
            .or_default()
            .clone();
        Counter::from_arc(count)
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
