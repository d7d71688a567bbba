//! The reentrant lock on a server.
//!
//! | file | the row it measures |
//! |---|---|
//! | [`commands`] | commands per pair |
//! | [`server_cpu`], [`redisson`] | what a pair costs the server, beside Redisson's flow |
//! | [`pair`] | how long a pair takes, beside two PINGs |
//! | [`throughput`], [`bare`] | pairs per second, beside ready-made bytes |
//! | [`handover`] | from a release in one process to running in another |
//! | [`renewal`] | what ten thousand held locks cost |
//! | [`overload`] | how many locks and how much memory are in use when guards are dropped as fast as locks are taken |

pub(crate) mod bare;
mod commands;
pub(crate) mod handover;
mod overload;
mod pair;
pub(crate) mod redisson;
pub(crate) mod renewal;
pub(crate) mod server_cpu;
mod throughput;

pub(crate) use self::pair::pairs;
use crate::Measure;

pub(crate) const MEASURES: [Measure; 7] = [
    ("commands", commands::measure),
    ("server-cpu", server_cpu::measure),
    ("pair", pair::measure),
    ("throughput", throughput::measure),
    ("handover", handover::measure),
    ("renewal", renewal::measure),
    ("overload", overload::measure),
];
