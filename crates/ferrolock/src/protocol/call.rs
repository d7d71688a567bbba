//! A script, a call of it, and the values that come back.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

/// One Lua file.
#[derive(Debug)]
pub(crate) struct Script {
    /// `lock/acquire` for `lock/acquire.lua`.
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    /// Its text.
    pub(crate) source: &'static str,
    /// The hash of its text, for an engine that calls it by that.
    pub(crate) hash: OnceLock<[u8; 40]>,
}

impl Script {
    pub(crate) const fn of_role(name: &'static str, role: Role, source: &'static str) -> Script {
        let hash = OnceLock::new();
        Script {
            name,
            role,
            source,
            hash,
        }
    }

    /// A script that belongs to no kind of lock.
    #[cfg(test)]
    pub(crate) const fn new(name: &'static str, source: &'static str) -> Script {
        Script::of_role(name, Role::Ask, source)
    }
}

/// What a script does, whatever kind of lock it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Takes a lock that its owner did not have.
    Acquire,
    Reenter,
    Release,
    Renew,
    /// Leaves the name taken for a while after its last hold: field and time are its arguments.
    Delay,
    /// Asks something, or does something that no holder does.
    Ask,
}

/// Makes a [`Script`] of the file with that name under `protocol/`, with that [`Role`]. Steps that several scripts share are
/// in files of their own, the parts; their functions come before the script.
macro_rules! script {
    ($name:literal, $role:ident $(, $part:literal)*) => {
        $crate::protocol::call::Script::of_role(
            $name,
            $crate::protocol::call::Role::$role,
            concat!(
                $(include_str!(concat!($part, ".lua")), "\n",)*
                include_str!(concat!($name, ".lua")),
            ),
        )
    };
}
pub(crate) use script;

/// One call of a script. All its keys share a hash slot, except those of a batch of renewals.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: SmallVec<[Arc<str>; 3]>,
    pub(crate) args: SmallVec<[Arg; 3]>,
    pub(crate) form: Form,
}

impl Call {
    /// A call without arguments.
    pub(super) fn of(script: &'static Script, keys: SmallVec<[Arc<str>; 3]>) -> Self {
        let (args, form) = (SmallVec::new(), Form::default());
        Self {
            script,
            keys,
            args,
            form,
        }
    }
}

/// How a call names the script that the server has to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// By its hash, and if the server does not know that, by its text.
    #[default]
    HashThenText,
    /// By its hash; a server that does not know it refuses with [`NO_SCRIPT`].
    Hash,
    /// By its text.
    Text,
}

/// How a server refuses a script that it does not know: nothing has run.
pub(crate) const NO_SCRIPT: &str = "NOSCRIPT";

/// An argument, which a script sees as a string of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    Bytes(Arc<[u8]>),
    Int(i64),
}

impl From<Arc<str>> for Arg {
    fn from(text: Arc<str>) -> Self {
        Arg::Bytes(text.into())
    }
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
