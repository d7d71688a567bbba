//! The machinery under every primitive: who waits, who holds, which releases are owed.
//!
//! | who | lives in | owns |
//! |---|---|---|
//! | the caller's future | the caller's task | a slot, and its first attempt while no other call of this client wants the name |
//! | driver, one per contended name | the client's runtime | local queue, attempts, subscription, timers of waiting |
//! | tenures | the client | which owner holds which name how often; one count-changing command at a time |
//! | keeper, one per process | its own OS thread | offers, deadlines, renewals, dropped guards, debts |
//!
//! Driver, tenure, watch and debts are state machines without I/O and clock; the files beside them are their shells.
//! Locks are taken in this order: names, tenure, a request's first attempt, its place on the server, the process's keeper,
//! its state, slot, the kind of a piece of pending work, pending work, unlock answer; late grants, idle timers and random
//! numbers last. Nothing else is locked while a bundle's parts, what joins it later, or the seats of a common release are.
//! While one is held, no foreign code runs: no waker of a caller, no log or metrics sink, no end of a connection. (But for the
//! first attempt: the engine's future may keep or wake the caller's waker while its caller polls it.)

mod alive;
#[cfg(all(test, feature = "embedded"))]
mod backlog_tests;
#[cfg(all(test, feature = "embedded"))]
mod beside_redisson_tests;
mod core;
mod crowd;
#[cfg(all(test, feature = "embedded"))]
mod crowd_tests;
#[cfg(all(test, feature = "embedded"))]
mod ending_tests;
#[cfg(all(test, feature = "embedded"))]
mod fair_heads_tests;
#[cfg(all(test, feature = "embedded"))]
mod fair_lies_tests;
#[cfg(all(test, feature = "embedded"))]
mod fair_tests;
mod foreign;
#[cfg(all(test, feature = "embedded"))]
mod foreign_tests;
#[cfg(all(test, feature = "embedded"))]
mod giving_back_tests;
pub(crate) mod holding;
pub(crate) mod keeper;
#[cfg(all(test, feature = "embedded"))]
mod late_replies_tests;
#[cfg(all(test, feature = "embedded"))]
mod leftovers_tests;
#[cfg(all(test, feature = "embedded"))]
mod mixed_preference_tests;
pub(crate) mod names;
mod number_hash;
mod process;
mod random;
mod send;
#[cfg(all(test, feature = "embedded"))]
mod several_tests;
mod timer;
pub(crate) mod waiting;

pub(crate) use self::alive::Alive;
pub(crate) use self::core::{Core, Told};
pub(crate) use self::foreign::safely;
pub(crate) use self::holding::tenure::Tenure;
pub(crate) use crate::engine::unpoisoned;
