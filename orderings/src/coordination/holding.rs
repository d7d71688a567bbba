//! The library's hold, bundle and unlock answer.

#[path = "../../../crates/ferrolock/src/coordination/holding/bundle.rs"]
pub(crate) mod bundle;
#[path = "../../../crates/ferrolock/src/coordination/holding/hold.rs"]
pub(crate) mod hold;
#[path = "../../../crates/ferrolock/src/coordination/holding/unlock_answer.rs"]
pub(crate) mod unlock_answer;
