//! A script, a call of it, and the values that come back.

use std::sync::Arc;

/// One Lua file.
#[derive(Debug)]
pub(crate) struct Script {
    /// `lock/acquire` for `lock/acquire.lua`.
    pub(crate) name: &'static str,
    /// Its text.
    pub(crate) source: &'static str,
}

/// Makes a [`Script`] of the file with that name under `protocol/`.
macro_rules! script {
    ($name:literal) => {
        $crate::protocol::script::Script {
            name: $name,
            source: include_str!(concat!($name, ".lua")),
        }
    };
}
pub(crate) use script;

/// One call of a script: all keys share a hash slot.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) args: Vec<Arg>,
}

/// An argument, which a script sees as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    Text(Arc<str>),
    Int(i64),
}

/// A reply, in the few shapes our scripts give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Lua's `false` and `nil`.
    Nil,
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Value>),
}
