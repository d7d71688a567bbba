//! Where the servers differ from each other, or the embedded engine from both.

use super::calls::{Call, Way};
use super::peers::{Ours, Theirs};
use super::seen::Seen;
use testkit::{Kind, Server, servers};

/// One difference: after the calls of `before`, `call` has these replies.
struct Difference {
    reason: &'static str,
    before: &'static [&'static str],
    call: &'static str,
    embedded: &'static str,
    redis: &'static str,
    valkey: &'static str,
}

/// The embedded engine is like Redis 7.0, the oldest server that is supported, but where a reason says otherwise.
///
/// A space in a word is written `_`; a command that begins with `#` gets its numbers as numbers of Lua.
const KNOWN: [Difference; 14] = [
    Difference {
        reason: "Valkey took the name of Redis out of its messages",
        before: &[],
        call: "GET",
        embedded: "error ERR Wrong number of args calling Redis command from script",
        redis: "error ERR Wrong number of args calling Redis command from script",
        valkey: "error ERR Wrong number of args calling command from script",
    },
    Difference {
        reason: "Valkey took the name of Redis out of its messages",
        before: &[],
        call: "NOPE k",
        embedded: "error ERR Unknown Redis command called from script",
        redis: "error ERR Unknown Redis command called from script",
        valkey: "error ERR Unknown command called from script",
    },
    Difference {
        reason: "Valkey took the name of Redis out of its messages",
        before: &[],
        call: "",
        embedded: "error ERR Please specify at least one argument for this redis lib call",
        redis: "error ERR Please specify at least one argument for this redis lib call",
        valkey: "error ERR Please specify at least one argument for this call",
    },
    Difference {
        reason: "ZRANK takes WITHSCORE since Redis 7.2, so Valkey looks at a fourth word",
        before: &[],
        call: "ZRANK z m odd",
        embedded: "error ERR Wrong number of args calling Redis command from script",
        redis: "error ERR Wrong number of args calling Redis command from script",
        valkey: "error ERR syntax error",
    },
    Difference {
        reason: "Redis 7.0 writes scores with 17 digits, later servers with as many as it takes",
        before: &["ZADD z 3.1 m"],
        call: "ZSCORE z m",
        embedded: "3.1000000000000001",
        redis: "3.1000000000000001",
        valkey: "3.1",
    },
    Difference {
        reason: "Redis 7.0 writes Lua's numbers with 17 digits, later servers with as many as it takes",
        before: &["#SET s 0.1"],
        call: "GET s",
        embedded: "0.10000000000000001",
        redis: "0.10000000000000001",
        valkey: "0.1",
    },
    Difference {
        reason: "Redis 7.0 writes Lua's negative zero with its sign, later servers without",
        before: &["#SET s -0"],
        call: "GET s",
        embedded: "-0",
        redis: "-0",
        valkey: "0",
    },
    Difference {
        reason: "Valkey refuses the lowest number, whose sign cannot be changed; Redis takes it for all",
        before: &["RPUSH l a"],
        call: "LREM l -9223372036854775808 a",
        embedded: "1",
        redis: "1",
        valkey: "error ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
    },
    Difference {
        reason: "Redis reads scores with C's strtod, which takes hexadecimal numbers; no script needs them",
        before: &[],
        call: "ZADD z 0x10 m",
        embedded: "error ERR value is not a valid float",
        redis: "1",
        valkey: "error ERR value is not a valid float",
    },
    Difference {
        reason: "Redis reads bounds with C's strtod, which skips leading spaces",
        before: &["ZADD z 1 m"],
        call: "ZCOUNT z _1 +inf",
        embedded: "1",
        redis: "1",
        valkey: "error ERR min or max is not a float",
    },
    Difference {
        reason: "Redis reads cursors with C's strtoul, which takes a minus; no server hands such a cursor out",
        before: &["HSET h f v"],
        call: "HSCAN h -1",
        embedded: "error ERR invalid cursor",
        redis: "[0 [f v]]",
        valkey: "error ERR invalid cursor",
    },
    Difference {
        reason: "servers keep the sign of a zero in large sets only; the embedded engine in none",
        before: &[
            "ZADD z 1 a-member-that-is-longer-than-sixty-four-bytes-and-so-makes-the-set-large",
            "ZADD z -0 m",
        ],
        call: "ZSCORE z m",
        embedded: "0",
        redis: "-0",
        valkey: "-0",
    },
    Difference {
        reason: "the embedded engine has no patterns: no script needs them",
        before: &["HSET h f v"],
        call: "HSCAN h 0 MATCH *",
        embedded: "error ERR syntax error",
        redis: "[0 [f v]]",
        valkey: "[0 [f v]]",
    },
    Difference {
        reason: "the embedded engine has no ranges by name: no script needs them",
        before: &[],
        call: "ZRANGE z - + BYLEX",
        embedded: "error ERR syntax error",
        redis: "[]",
        valkey: "[]",
    },
];

impl Difference {
    fn on(&self, server: Kind) -> &'static str {
        match server {
            Kind::Redis => self.redis,
            Kind::Valkey => self.valkey,
        }
    }

    fn calls(&self) -> Vec<Call> {
        let lines = self.before.iter().chain([&self.call]);
        lines.map(|line| call(line)).collect()
    }
}

fn call(line: &str) -> Call {
    let (way, line) = match line.strip_prefix('#') {
        Some(line) => (Way::Numbers, line),
        None => (Way::Command, line),
    };
    let words = line
        .split_terminator(' ')
        .map(|word| word.replace('_', " "));
    Call {
        way,
        words: words.collect(),
    }
}

/// Whether two errors are a known difference.
pub(super) fn is_known(server: Kind, command: &str, ours: &Seen, theirs: &Seen) -> bool {
    let (Seen::Error(_), Seen::Error(_)) = (ours, theirs) else {
        return false;
    };
    let (ours, theirs) = (brief(ours), brief(theirs));
    KNOWN.iter().any(|known| {
        let is_of_all = !known.call.starts_with("ZRANK") || command == "ZRANK";
        is_of_all && known.embedded == ours && known.on(server) == theirs
    })
}

/// Whether two texts are one score, in the forms that servers write.
pub(super) fn is_same_score(server: Kind, ours: &str, theirs: &str) -> bool {
    let number = |text: &str| text.parse::<f64>().ok();
    server == Kind::Valkey && number(ours).is_some() && number(ours) == number(theirs)
}

/// A reply in a line.
fn brief(seen: &Seen) -> String {
    match seen {
        Seen::False => "false".to_owned(),
        Seen::Nothing => "nil".to_owned(),
        Seen::Number(number) => number.to_string(),
        Seen::Int(number) => number.to_string(),
        Seen::Text(text) | Seen::Status(text) => text.clone(),
        Seen::Error(text) => format!("error {text}"),
        Seen::List(list) => {
            let list: Vec<_> = list.iter().map(brief).collect();
            format!("[{}]", list.join(" "))
        }
        Seen::Plain(inner) => brief(inner),
    }
}

#[test]
fn known_differences_are_as_listed() {
    for known in &KNOWN {
        let answer = |mut replies: Vec<Seen>| brief(&replies.pop().unwrap());
        let calls = known.calls();

        for mut ours in [Ours::in_memory(), Ours::in_file()] {
            let report = ours.run(1_700_000_000_000_000, &calls);
            assert_eq!(answer(report.replies), known.embedded, "{}", known.reason);
        }

        for kind in servers() {
            let server = Server::start(kind);
            let theirs = Theirs::new(&server).run(&[], &calls).unwrap();
            assert_eq!(answer(theirs.replies), known.on(kind), "{}", known.reason);
        }
    }
}
