//! Renewals: rows of one script call, and what its reply says of each.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::call::{Arg, Call, Form, Script, Value};
use super::lock::millis;
use super::scheme::{BadReply, Standing, read_standing};

/// One hold to keep, or to ask about.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) script: &'static Script,
    /// As many as every row of its script and kind has.
    pub(crate) keys: SmallVec<[Arc<str>; 2]>,
    pub(crate) field: Arc<str>,
    /// Zero only asks.
    pub(crate) lease: Duration,
}

/// What rows must share to go out in one call: the script, and how many keys each has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape(&'static str, usize);

/// The server's error about one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowError {
    /// The first word.
    pub(crate) code: String,
    /// The rest.
    pub(crate) message: String,
}

impl Row {
    pub(crate) fn shape(&self) -> Shape {
        Shape(self.script.name, self.keys.len())
    }

    /// The call of this row alone.
    pub(crate) fn call(&self) -> Call {
        call(self.script, std::slice::from_ref(self))
    }
}

/// One call of rows that all have the [`Shape`] of the first. `None`: there are no rows.
pub(crate) fn batch(rows: &[Row]) -> Option<Call> {
    rows.first().map(|first| call(first.script, rows))
}

fn call(script: &'static Script, rows: &[Row]) -> Call {
    let keys = rows.iter().flat_map(|row| row.keys.iter().cloned());
    let args = rows
        .iter()
        .flat_map(|row| [Arg::from(row.field.clone()), millis(row.lease)]);
    Call {
        script,
        keys: keys.collect(),
        args: args.collect(),
        form: Form::default(),
    }
}

/// The answer to each row of a call with that many rows.
pub(crate) fn read(reply: Value, rows: usize) -> Result<Vec<Result<Standing, RowError>>, BadReply> {
    match reply {
        Value::List(answers) if answers.len() == rows => {
            answers.into_iter().map(read_row).collect()
        }
        other => Err(BadReply("renew", other)),
    }
}

/// The answer to a row that was sent alone: its error would have been the reply.
pub(crate) fn read_one(reply: Value) -> Result<Standing, BadReply> {
    match reply {
        Value::List(mut answers) if answers.len() == 1 => {
            read_standing(answers.pop().unwrap_or(Value::Nil))
        }
        other => Err(BadReply("renew", other)),
    }
}

fn read_row(answer: Value) -> Result<Result<Standing, RowError>, BadReply> {
    match answer {
        Value::Bytes(text) => Ok(Err(RowError::of(&text))),
        other => read_standing(other).map(Ok),
    }
}

impl RowError {
    /// Of the text that stands in the place of an answer.
    pub(super) fn of(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let (code, message) = text.split_once(' ').unwrap_or((&text, ""));
        Self {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static RENEW: Script = Script::new("lock/renew", "");

    fn row(name: &str, lease_ms: u64) -> Row {
        Row {
            script: &RENEW,
            keys: [name, "details"].map(Arc::from).into(),
            field: format!("client:{name}").into(),
            lease: Duration::from_millis(lease_ms),
        }
    }

    fn bytes(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn rows_follow_each_other_in_one_call() {
        let call = batch(&[row("a", 5), row("b", 0)]).unwrap();

        let keys: Vec<&str> = call.keys.iter().map(|key| &**key).collect();
        assert_eq!(keys, ["a", "details", "b", "details"]);
        let args = [
            Arg::Bytes(b"client:a"[..].into()),
            Arg::Int(5),
            Arg::Bytes(b"client:b"[..].into()),
            Arg::Int(0),
        ];
        assert_eq!(call.args.as_slice(), args);
    }

    #[test]
    fn no_rows_make_no_call() {
        assert!(batch(&[]).is_none());
    }

    #[test]
    fn rows_with_another_script_or_number_of_keys_have_another_shape() {
        static OTHER: Script = Script::new("read_lock/renew", "");
        let (a, b) = (row("a", 5), row("b", 7));
        let plain = Row {
            keys: [Arc::from("a")].into_iter().collect(),
            ..a.clone()
        };
        let other = Row {
            script: &OTHER,
            ..a.clone()
        };

        assert_eq!(a.shape(), b.shape());
        assert_ne!(a.shape(), plain.shape());
        assert_ne!(a.shape(), other.shape());
    }

    #[test]
    fn each_row_has_its_own_answer() {
        let wrong = "WRONGTYPE Operation against a key";
        let reply = Value::List(vec![
            Value::Int(1),
            Value::Int(0),
            bytes(wrong),
            Value::Int(-1),
            bytes("ODD"),
        ]);

        let error = |code: &str, message: &str| {
            let (code, message) = (code.to_owned(), message.to_owned());
            Err(RowError { code, message })
        };
        assert_eq!(
            read(reply, 5),
            Ok(vec![
                Ok(Standing::Ours),
                Ok(Standing::Gone),
                error("WRONGTYPE", "Operation against a key"),
                Ok(Standing::Taken),
                error("ODD", ""),
            ])
        );
    }

    /// The answer of a proxy itself, or of a foreign script with our hash.
    #[test]
    fn a_reply_that_does_not_fit_the_rows_makes_no_sense() {
        for odd in [
            Value::Int(1),
            Value::List(vec![Value::Int(1)]),
            Value::List(vec![Value::Int(1), Value::Int(7)]),
            Value::List(vec![Value::Int(1), Value::Nil]),
        ] {
            assert!(read(odd.clone(), 2).is_err(), "{odd:?}");
        }
        for odd in [
            Value::Int(1),
            Value::List(vec![]),
            Value::List(vec![bytes("ERR")]),
        ] {
            assert!(read_one(odd.clone()).is_err(), "{odd:?}");
        }
        assert_eq!(
            read_one(Value::List(vec![Value::Int(0)])),
            Ok(Standing::Gone)
        );
    }
}
