//! What a stub answers.

/// What a stub answers, in either version of the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// No value.
    Nil,
    /// A status: `OK`.
    Status(String),
    /// An error, with its code word.
    Error(String),
    /// A number.
    Int(i64),
    /// A string.
    Text(String),
    /// Several answers.
    List(Vec<Answer>),
    /// Answers by name, in version 3.
    Map(Vec<(Answer, Answer)>),
    /// The connection joins the channels that the command names, with a confirmation for each.
    Join,
    /// The connection leaves the channels that the command names, with a confirmation for each.
    Leave,
    /// No answer; the connection stays.
    Silence,
    /// No answer; the connection is closed.
    Close,
}

impl Answer {
    /// The status `OK`.
    pub fn ok() -> Self {
        Self::Status("OK".to_owned())
    }

    /// A string.
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// An error as a server gives it for a command it does not know.
    pub fn unknown(command: &[String]) -> Self {
        let name = command.first().map_or("", String::as_str);
        Self::Error(format!("ERR unknown command '{name}'"))
    }

    pub(super) fn encode(&self) -> String {
        match self {
            Self::Nil => "$-1\r\n".to_owned(),
            Self::Status(word) => format!("+{word}\r\n"),
            Self::Error(text) => format!("-{text}\r\n"),
            Self::Int(number) => format!(":{number}\r\n"),
            Self::Text(text) => format!("${}\r\n{text}\r\n", text.len()),
            Self::List(list) => {
                let parts: String = list.iter().map(Self::encode).collect();
                format!("*{}\r\n{parts}", list.len())
            }
            Self::Map(map) => {
                let pair = |(name, value): &(Self, Self)| name.encode() + &value.encode();
                let parts: String = map.iter().map(pair).collect();
                format!("%{}\r\n{parts}", map.len())
            }
            Self::Join | Self::Leave | Self::Silence | Self::Close => String::new(),
        }
    }
}

/// How a server of that version answers the commands with which a client begins; all others are unknown.
pub(super) fn first_contact(version: &str, command: &[String]) -> Answer {
    let words: Vec<_> = command
        .iter()
        .map(|word| word.to_ascii_uppercase())
        .collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["HELLO", "3", ..] => Answer::Map(hello(version, 3)),
        ["HELLO", ..] => {
            let flat = |(name, value)| [name, value];
            Answer::List(hello(version, 2).into_iter().flat_map(flat).collect())
        }
        ["INFO", ..] => Answer::Text(format!(
            "# Server\r\nredis_version:{version}\r\nredis_mode:standalone\r\n"
        )),
        ["PING"] => Answer::Status("PONG".to_owned()),
        ["CLIENT", "ID"] => Answer::Int(1),
        ["CLIENT", "INFO"] => Answer::text("id=1 addr=127.0.0.1:1 name= user=default resp=3\n"),
        ["CLIENT", "SETNAME", ..] | ["AUTH", ..] | ["SELECT", ..] => Answer::ok(),
        _ => Answer::unknown(command),
    }
}

fn hello(version: &str, protocol: i64) -> Vec<(Answer, Answer)> {
    vec![
        (Answer::text("server"), Answer::text("redis")),
        (Answer::text("version"), Answer::text(version)),
        (Answer::text("proto"), Answer::Int(protocol)),
        (Answer::text("id"), Answer::Int(1)),
        (Answer::text("mode"), Answer::text("standalone")),
        (Answer::text("role"), Answer::text("master")),
        (Answer::text("modules"), Answer::List(Vec::new())),
    ]
}

/// A push: what a server sends without a request.
pub(super) fn push(kind: &str, channel: &str, last: &Answer) -> String {
    let parts = [&Answer::text(kind), &Answer::text(channel), last];
    let parts: String = parts.into_iter().map(Answer::encode).collect();
    format!(">3\r\n{parts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hello_in_version_three_is_answered_with_a_map() {
        let map = first_contact("6.2.14", &["hello".to_owned(), "3".to_owned()]).encode();

        assert!(
            map.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"),
            "{map}"
        );
    }
}
