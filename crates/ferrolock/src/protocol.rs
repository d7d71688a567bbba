//! What may be asked of a server, without I/O: key names, scripts, their arguments and their replies.

pub(crate) mod call;
pub(crate) mod fair_lock;
pub(crate) mod fenced_lock;
pub(crate) mod key_type;
pub(crate) mod keys;
pub(crate) mod lock;
pub(crate) mod multi_lock;
pub(crate) mod pace;
pub(crate) mod renewal;
pub(crate) mod rw_lock;
pub(crate) mod scheme;
#[cfg(test)]
pub(crate) mod several;
pub(crate) mod spin_lock;

use call::Script;

/// Every script of every kind: a connection makes them known to its server.
pub(crate) fn scripts() -> Vec<&'static Script> {
    [
        &lock::SCRIPTS[..],
        &fair_lock::SCRIPTS[..],
        &fenced_lock::SCRIPTS[..],
        &multi_lock::SCRIPTS[..],
        &spin_lock::SCRIPTS[..],
        &rw_lock::SCRIPTS[..],
        &key_type::SCRIPTS[..],
    ]
    .concat()
}
