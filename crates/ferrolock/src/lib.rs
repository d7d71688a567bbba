#![doc = include_str!("../README.md")]
#![cfg_attr(
    not(all(feature = "redis", feature = "embedded")),
    allow(
        dead_code,
        reason = "each engine uses its own part of what lies above and below it"
    )
)]

mod client;
mod coordination;
mod engine;
mod error;
mod figures;
mod guard;
mod inspect;
pub mod kind;
mod name;
mod options;
mod owner;
mod protocol;
#[cfg(all(test, feature = "embedded"))]
mod simulation;
mod sync;

pub use tokio_util::sync::CancellationToken;

pub use client::{Client, ClientBuilder};
#[cfg(feature = "tls")]
pub use engine::redis::Tls;
pub use error::{Error, ErrorKind, LostReason, Result};
pub use guard::{Guard, HoldState, Unlocked};
pub use inspect::{Holder, Remaining};
pub use name::LockName;
pub use owner::{Owner, OwnerId};
#[cfg(feature = "redis")]
pub use redis;
pub use sync::lock::Lock;
