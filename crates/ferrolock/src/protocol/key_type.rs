//! Which type the key under a name has; asked after a call found the wrong type.

use smallvec::{SmallVec, smallvec};

use super::call::{Call, Form, Script, Value, script};
use super::scheme::Subject;

static KEY_TYPE: Script = script!("key/type", Ask);

/// Every script of this file: a connection makes them known to its server.
pub(crate) static SCRIPTS: [&Script; 1] = [&KEY_TYPE];

pub(crate) fn ask(name: &std::sync::Arc<str>) -> Call {
    Call {
        script: &KEY_TYPE,
        keys: smallvec![name.clone()],
        args: SmallVec::new(),
        form: Form::default(),
    }
}

/// The error text for a key that is no lock, from the reply to [`ask`].
pub(crate) fn wrong_type(subject: &Subject, reply: Option<Value>) -> String {
    let found = match &reply {
        Some(Value::Bytes(kind)) => String::from_utf8_lossy(kind).into_owned(),
        _ => "value of another type".to_owned(),
    };
    format!(
        "the key {:?} holds a {found}, not a lock: use another name or a key prefix",
        subject.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::scheme::Line;

    #[test]
    fn a_key_that_is_no_lock_is_named_with_what_it_holds() {
        let subject = Subject::new("orders".into(), Line::Lock);

        let told = wrong_type(&subject, Some(Value::Bytes(b"string".to_vec())));
        let unknown = wrong_type(&subject, None);

        assert!(told.contains("\"orders\" holds a string, not"), "{told}");
        assert!(unknown.contains("a value of another type"), "{unknown}");
    }
}
