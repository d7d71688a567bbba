//! The scripts that each connection loads into its server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::{Failure, unpoisoned};
use crate::protocol::call::Script;

/// Shared by the connections of a client that calls go over.
#[derive(Debug, Default)]
pub(in super::super) struct Scripts {
    used: Mutex<Vec<&'static Script>>,
    /// The server does not let this user load scripts: it is not asked again.
    is_forbidden: AtomicBool,
}

impl Scripts {
    pub(in super::super) fn add(&self, scripts: &[&'static Script]) {
        let mut used = unpoisoned(&self.used);
        for script in scripts {
            if !used.iter().any(|other| std::ptr::eq(*other, *script)) {
                used.push(script);
            }
        }
    }

    /// The scripts that a new connection loads.
    pub(in super::super) fn to_load(&self) -> Vec<&'static Script> {
        if self.is_forbidden.load(Ordering::Relaxed) {
            return Vec::new();
        }
        unpoisoned(&self.used).clone()
    }

    /// The server refused them. Unless the user lacks the right, the next connection tries again.
    pub(in super::super) fn refused(&self, failure: &Failure) {
        if matches!(failure, Failure::Refused { code, .. } if code == "NOPERM") {
            self.is_forbidden.store(true, Ordering::Relaxed);
        }
    }
}
