//! The library's pulse, and the models of it: it is visible only here.

pub(crate) mod models;
#[path = "../../../crates/ferrolock/src/engine/redis/pulse.rs"]
mod pulse;

mod trouble {
    #[derive(Debug)]
    pub(super) struct Trouble;
}
