//! The servers' protocol, version 2, as far as a blocking client and a stub need it.

use std::io::{self, BufRead, Write};

/// A server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A status or a string; bytes that are not UTF-8 are shown escaped (`\xff`).
    Text(String),
    /// Several replies.
    List(Vec<Reply>),
    /// An error, with its code word.
    Error(String),
}

impl Reply {
    /// The text; panics for any other reply.
    #[track_caller]
    pub fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    /// The number; panics for any other reply.
    #[track_caller]
    pub fn int(self) -> i64 {
        match self {
            Self::Int(number) => number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The list; panics for any other reply.
    #[track_caller]
    pub fn list(self) -> Vec<Reply> {
        match self {
            Self::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }

    /// The list, of which every element must be a text.
    #[track_caller]
    pub fn texts(self) -> Vec<String> {
        self.list().into_iter().map(Reply::text).collect()
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// Writes one command.
pub(crate) fn write_command(to: &mut impl Write, words: &[&str]) -> io::Result<()> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    to.write_all(&bytes)
}

/// Reads one reply, or one command, which has the form of a reply.
pub(crate) fn read_reply(from: &mut impl BufRead) -> io::Result<Reply> {
    let line = read_line(from)?;
    let Some((kind, rest)) = line.split_at_checked(1) else {
        return Err(malformed(&line));
    };
    match kind {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Ok(Reply::Error(rest.to_owned())),
        ":" => Ok(Reply::Int(number(rest)?)),
        "$" => read_string(from, number(rest)?),
        "*" => read_list(from, number(rest)?),
        _ => Err(malformed(&line)),
    }
}

fn read_string(from: &mut impl BufRead, len: i64) -> io::Result<Reply> {
    let Ok(len) = usize::try_from(len) else {
        return Ok(Reply::Nil);
    };
    let mut bytes = vec![0; len + 2];
    from.read_exact(&mut bytes)?;
    bytes.truncate(len);
    Ok(Reply::Text(shown(bytes)))
}

fn read_list(from: &mut impl BufRead, len: i64) -> io::Result<Reply> {
    if len < 0 {
        return Ok(Reply::Nil);
    }
    (0..len)
        .map(|_| read_reply(from))
        .collect::<io::Result<_>>()
        .map(Reply::List)
}

/// A line without its end.
pub(crate) fn read_line(from: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = Vec::new();
    from.read_until(b'\n', &mut bytes)?;
    match bytes.strip_suffix(b"\r\n") {
        Some(line) => Ok(shown(line.to_vec())),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn shown(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|e| e.as_bytes().escape_ascii().to_string())
}

fn number(digits: &str) -> io::Result<i64> {
    digits.parse().map_err(|_| malformed(digits))
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("not a RESP2 reply: {line:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut bytes: &[u8]) -> io::Result<Reply> {
        read_reply(&mut bytes)
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        assert_eq!(read(b"+OK\r\n").unwrap(), "OK".into());
        assert_eq!(
            read(b"-ERR no\r\n").unwrap(),
            Reply::Error("ERR no".to_owned())
        );
        assert_eq!(read(b":-2\r\n").unwrap(), Reply::Int(-2));
        assert_eq!(read(b"$4\r\na\r\nb\r\n").unwrap(), "a\r\nb".into());
        assert_eq!(read(b"$-1\r\n").unwrap(), Reply::Nil);
        assert_eq!(read(b"*-1\r\n").unwrap(), Reply::Nil);
        assert_eq!(
            read(b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n").unwrap(),
            Reply::List(vec![Reply::Int(1), Reply::List(vec!["x".into()])])
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_escaped() {
        assert_eq!(read(b"$2\r\n\xff1\r\n").unwrap(), "\\xff1".into());
    }

    #[test]
    fn a_reply_that_is_cut_off_or_malformed_is_an_error() {
        for bytes in [
            &b""[..],
            b"+OK",
            b"$5\r\nab\r\n",
            b"?\r\n",
            b"\r\n",
            b":x\r\n",
        ] {
            assert!(read(bytes).is_err(), "{:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_command_is_read_as_it_was_written() {
        let mut bytes = Vec::new();
        write_command(&mut bytes, &["SET", "name", "a b"]).unwrap();

        assert_eq!(read(&bytes).unwrap().texts(), ["SET", "name", "a b"]);
    }
}
