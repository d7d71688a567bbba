//! Script calls as commands, replies as values.

use ::redis::{Cmd, ServerError, ServerErrorKind, Value as Raw};

use crate::engine::Failure;
use crate::protocol::call::{Arg, Call, Script, Value};

const NO_RIGHT: &str = "NOPERM";
/// How the errors of Redis 7.0 and Valkey begin when a script's user lacks a right.
const RIGHT_MISSING: [&str; 2] = [
    "The user executing the script can't ",
    "ACL failure in script",
];

/// Calls a script that the server should know.
pub(super) fn evalsha(call: &Call) -> Cmd {
    command(call, "EVALSHA", sha(call.script))
}

/// Calls a script with its text.
pub(super) fn eval(call: &Call) -> Cmd {
    command(call, "EVAL", call.script.source.as_bytes())
}

fn command(call: &Call, verb: &str, script: &[u8]) -> Cmd {
    let keys: usize = call.keys.iter().map(|key| key.len()).sum();
    let args: usize = call.args.iter().map(arg_len).sum();
    let count = 3 + call.keys.len() + call.args.len();
    let mut cmd = Cmd::with_capacity(count, verb.len() + script.len() + 4 + keys + args);
    cmd.arg(verb).arg(script).arg(call.keys.len());
    for key in &call.keys {
        cmd.arg(&**key);
    }
    for arg in &call.args {
        match arg {
            Arg::Bytes(bytes) => cmd.arg(&**bytes),
            Arg::Int(number) => cmd.arg(*number),
        };
    }
    cmd
}

fn arg_len(arg: &Arg) -> usize {
    match arg {
        Arg::Bytes(bytes) => bytes.len(),
        Arg::Int(_) => 20,
    }
}

/// Loads a script into the server.
pub(super) fn script_load(script: &'static Script) -> Cmd {
    let mut cmd = ::redis::cmd("SCRIPT");
    cmd.arg("LOAD").arg(script.source);
    cmd
}

fn sha(script: &'static Script) -> &'static [u8; 40] {
    script.hash.get_or_init(|| {
        let mut sha = [0; 40];
        let text = sha1_smol::Sha1::from(script.source).digest().to_string();
        for (digit, byte) in sha.iter_mut().zip(text.bytes()) {
            *digit = byte;
        }
        sha
    })
}

/// Whether the server does not know the script, and so has not run it.
pub(super) fn is_no_script(reply: &::redis::RedisResult<Raw>) -> bool {
    matches!(reply, Ok(Raw::ServerError(error)) if error.kind() == Some(ServerErrorKind::NoScript))
}

/// A reply as our scripts' callers see it.
pub(super) fn decode(raw: Raw) -> Result<Value, Failure> {
    Ok(match raw {
        Raw::Nil | Raw::Boolean(false) => Value::Nil,
        Raw::Boolean(true) => Value::Int(1),
        Raw::Int(number) => Value::Int(number),
        Raw::BulkString(bytes) => Value::Bytes(bytes),
        Raw::SimpleString(text) | Raw::VerbatimString { text, .. } => {
            Value::Bytes(text.into_bytes())
        }
        Raw::Okay => Value::Bytes(b"OK".to_vec()),
        Raw::Array(items) | Raw::Set(items) => {
            Value::List(items.into_iter().map(decode).collect::<Result<_, _>>()?)
        }
        Raw::Attribute { data, .. } => decode(*data)?,
        Raw::ServerError(error) => return Err(refused(&error)),
        _ => {
            return Err(Failure::Unknown(
                "the server's reply is of a kind that no script gives".to_owned(),
            ));
        }
    })
}

/// The server's own error.
pub(super) fn refused(error: &ServerError) -> Failure {
    failure_of(error.code(), error.details().unwrap_or_default())
}

/// Leaves out where in a script the error came up. A missing right has the code `NOPERM` also if the server says `ERR`,
/// as it does when a command inside a script lacks it.
fn failure_of(code: &str, said: &str) -> Failure {
    let said = match said.rsplit_once(" script: ") {
        Some((what, place)) if place.contains("on @user_script:") => what,
        _ => said,
    };
    let in_script = RIGHT_MISSING.iter().any(|begin| said.starts_with(begin));
    if code == NO_RIGHT || (code == "ERR" && in_script) {
        return Failure::Refused {
            code: NO_RIGHT.to_owned(),
            message: format!(
                "{said}: the user lacks a right, see the rights in docs/operations.md"
            ),
        };
    }
    Failure::Refused {
        code: code.to_owned(),
        message: said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::call::Form;

    static NUMBER: Script = Script::new("test/number", "return 1");

    #[test]
    fn a_call_names_the_script_by_its_hash_and_counts_its_keys() {
        let call = Call {
            script: &NUMBER,
            keys: smallvec::smallvec!["k".into()],
            args: smallvec::smallvec![Arg::Bytes(b"a"[..].into()), Arg::Int(-7)],
            form: Form::default(),
        };

        let packed = String::from_utf8(evalsha(&call).get_packed_command()).unwrap();

        assert_eq!(
            packed,
            "*6\r\n$7\r\nEVALSHA\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n\
             $1\r\n1\r\n$1\r\nk\r\n$1\r\na\r\n$2\r\n-7\r\n"
        );
    }

    #[test]
    fn an_argument_may_be_any_bytes() {
        let any: Vec<u8> = vec![0, 0xff, b'\r', b'\n'];
        let call = Call {
            script: &NUMBER,
            keys: smallvec::SmallVec::new(),
            args: smallvec::smallvec![Arg::Bytes(any.clone().into())],
            form: Form::default(),
        };

        let packed = evalsha(&call).get_packed_command();

        let last = [b"$4\r\n", &any[..], b"\r\n"].concat();
        assert!(packed.ends_with(&last), "{packed:?}");
    }

    #[test]
    fn replies_keep_their_shape() {
        let raw = Raw::Array(vec![
            Raw::Nil,
            Raw::Int(5),
            Raw::BulkString(b"b".to_vec()),
            Raw::SimpleString("s".into()),
            Raw::Okay,
        ]);

        let value = decode(raw).unwrap();

        let bytes = |text: &str| Value::Bytes(text.as_bytes().to_vec());
        assert_eq!(
            value,
            Value::List(vec![
                Value::Nil,
                Value::Int(5),
                bytes("b"),
                bytes("s"),
                bytes("OK")
            ])
        );
    }

    #[test]
    fn a_right_that_a_script_lacks_is_noperm_whatever_the_server_calls_it() {
        let at = "script: 39f9b8cd32de62b06f4f66f1172aa4a330593fb1, on @user_script:1.";
        for said in [
            format!("The user executing the script can't run this command or subcommand {at}"),
            format!(
                "The user executing the script can't publish to the channel mentioned in the command {at}"
            ),
            "ACL failure in script: No permissions to access a channel script: on @user_script:1."
                .to_owned(),
        ] {
            let failure = failure_of("ERR", &said);

            let Failure::Refused { code, message } = failure else {
                panic!("{failure:?}");
            };
            assert_eq!(code, "NOPERM", "{said}");
            assert!(message.contains("docs/operations.md"), "{message}");
            assert!(!message.contains("@user_script"), "{message}");
        }
    }

    #[test]
    fn the_place_of_an_error_in_a_script_is_left_out() {
        for at in [
            "script: 39f9b8cd32de62b06f4f66f1172aa4a330593fb1, on @user_script:1.",
            "script: on @user_script:1.",
        ] {
            let said = format!("Operation against a key {at}");

            assert_eq!(
                failure_of("WRONGTYPE", &said),
                Failure::Refused {
                    code: "WRONGTYPE".into(),
                    message: "Operation against a key".into()
                }
            );
        }
    }
}
