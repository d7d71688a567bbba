//! The library's errors, as far as its files here name them.

/// Why a hold is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LostReason {
    Expired,
    TakenOver,
    Removed,
    MaxHold,
    ShutDown,
}

impl std::fmt::Display for LostReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Error;

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn closed(_why: &str) -> Error {
        Error
    }
}
