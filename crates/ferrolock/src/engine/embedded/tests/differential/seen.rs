//! A reply as a script or a caller sees it.

/// A reply.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub(super) enum Seen {
    /// Lua's `false`; for a caller, nothing.
    False,
    /// Lua's `nil`, which no command replies.
    Nothing,
    /// A number of Lua.
    Number(f64),
    Int(i64),
    Text(String),
    Status(String),
    Error(String),
    List(Vec<Seen>),
    /// What a caller gets for a reply that a script returns.
    Plain(Box<Seen>),
}

impl Seen {
    /// Reads what `show` in `batch.lua` wrote.
    pub(super) fn parse(shown: &str) -> Self {
        let (seen, rest) = read(shown);
        assert_eq!(rest, "", "{shown:?}");
        seen
    }

    pub(super) fn text(self) -> String {
        match self {
            Seen::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    pub(super) fn int(self) -> i64 {
        match self {
            Seen::Int(number) => number,
            other => panic!("not an integer: {other:?}"),
        }
    }

    pub(super) fn list(self) -> Vec<Seen> {
        match self {
            Seen::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }
}

fn read(shown: &str) -> (Seen, &str) {
    let (kind, rest) = shown.split_at(1);
    match kind {
        "f" => return (Seen::False, rest),
        "u" => return (Seen::Nothing, rest),
        _ => {}
    }
    let (length, rest) = rest.split_once(':').unwrap();
    let length: usize = length.parse().unwrap();
    if kind == "l" {
        let mut rest = rest;
        let list = (0..length).map(|_| {
            let (item, after) = read(rest);
            rest = after;
            item
        });
        return (Seen::List(list.collect()), rest);
    }
    let (text, rest) = rest.split_at(length);
    let seen = match kind {
        "s" => Seen::Text(text.to_owned()),
        "n" => Seen::Number(text.parse().unwrap()),
        "o" => Seen::Status(text.to_owned()),
        "e" => Seen::Error(text.to_owned()),
        other => panic!("no such kind: {other}"),
    };
    (seen, rest)
}

#[test]
fn a_shown_reply_is_parsed() {
    let shown = "l5:s3:a:bn2:-2fo2:OKl1:e5:ERR x";

    let seen = Seen::parse(shown);

    let list = vec![
        Seen::Text("a:b".to_owned()),
        Seen::Number(-2.0),
        Seen::False,
        Seen::Status("OK".to_owned()),
        Seen::List(vec![Seen::Error("ERR x".to_owned())]),
    ];
    assert_eq!(seen, Seen::List(list));
}
