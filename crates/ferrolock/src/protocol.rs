//! What may be asked of a server, without I/O: key names, scripts, their arguments and their replies.

pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod renewal;
pub(crate) mod script;
