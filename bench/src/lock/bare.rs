//! The least a client can do: ready-made bytes over one socket, with a given number of pairs in flight.

use redis::Cmd;
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use testkit::Server;

pub(crate) const ACQUIRE: &str = concat!(
    include_str!("../../../crates/ferrolock/src/protocol/lock/take.lua"),
    "\n",
    include_str!("../../../crates/ferrolock/src/protocol/lock/acquire.lua"),
);
const RELEASE: &str = concat!(
    include_str!("../../../crates/ferrolock/src/protocol/lock/set_count.lua"),
    "\n",
    include_str!("../../../crates/ferrolock/src/protocol/lock/release.lua"),
);
/// As long as the ids that the library makes.
const CLIENT_ID: &str = "5f2c31b5-93a1-8c11-9bdc-0c6f2b3a7d10";
const LEASE_MS: &str = "30000";

/// A socket and the bytes of every pair.
#[derive(Debug)]
pub(crate) struct Bare {
    stream: TcpStream,
    pairs: Vec<Pair>,
}

#[derive(Debug)]
struct Pair {
    acquire: Vec<u8>,
    release: Vec<u8>,
}

/// A command whose reply has not come yet.
#[derive(Debug, Clone, Copy)]
enum Owed {
    Acquire(usize),
    Release,
}

impl Bare {
    /// Connects, and makes the bytes for these names.
    pub(crate) fn new(server: &Server, names: &[String]) -> Self {
        let (acquire, release) = (load(server, ACQUIRE), load(server, RELEASE));
        let pairs = names.iter().enumerate().map(|(number, name)| {
            let [acquire, release] = words(&acquire, &release, name, number).map(|it| packed(&it));
            Pair { acquire, release }
        });
        let stream = TcpStream::connect(server.address()).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            pairs: pairs.collect(),
            stream,
        }
    }

    /// Runs each pair `times` times, `in_flight` at once; each release follows the reply to its acquire.
    pub(crate) fn run(&mut self, in_flight: usize, times: usize) {
        let total = self.pairs.len() * times;
        let mut begun = in_flight.min(total);
        let mut owed: VecDeque<Owed> = (0..begun).map(Owed::Acquire).collect();
        let mut out: Vec<u8> = Vec::with_capacity(1 << 20);
        (0..begun).for_each(|pair| out.extend(&self.pairs[pair].acquire));
        let mut input = vec![0; 64 * 1024];
        let mut filled = 0;
        while !owed.is_empty() {
            self.stream.write_all(&out).unwrap();
            out.clear();
            let read = self.stream.read(&mut input[filled..]).unwrap();
            assert_ne!(read, 0, "the server closed the connection");
            filled += read;
            let mut taken = 0;
            while let Some(end) = line_end(&input[taken..filled]) {
                let line = &input[taken..taken + end];
                taken += end + 2;
                match owed.pop_front().unwrap() {
                    Owed::Acquire(pair) => {
                        assert_eq!(line, b"$-1", "the acquire was not granted");
                        out.extend(&self.pairs[pair].release);
                        owed.push_back(Owed::Release);
                    }
                    Owed::Release => {
                        assert_eq!(line, b":0", "the release did not release");
                        if begun < total {
                            let pair = begun % self.pairs.len();
                            begun += 1;
                            out.extend(&self.pairs[pair].acquire);
                            owed.push_back(Owed::Acquire(pair));
                        }
                    }
                }
            }
            input.copy_within(taken..filled, 0);
            filled -= taken;
        }
    }
}

/// The two script calls of a pair, for a client that sends commands.
pub(crate) fn commands(server: &Server, name: &str) -> [Cmd; 2] {
    words_of(server, name).map(|words| {
        let mut command = Cmd::new();
        for word in &words {
            command.arg(word);
        }
        command
    })
}

/// The same, word by word.
pub(crate) fn words_of(server: &Server, name: &str) -> [Vec<String>; 2] {
    words(&load(server, ACQUIRE), &load(server, RELEASE), name, 0)
}

fn words(acquire: &str, release: &str, name: &str, number: usize) -> [Vec<String>; 2] {
    let field = format!("{CLIENT_ID}:{number}");
    let channel = format!("redisson_lock__channel:{{{name}}}");
    [
        vec!["EVALSHA", acquire, "1", name, &field, LEASE_MS],
        vec!["EVALSHA", release, "2", name, &channel, &field, "0", "0"],
    ]
    .map(|words| words.into_iter().map(str::to_owned).collect())
}

fn load(server: &Server, source: &str) -> String {
    let sha = sha1_smol::Sha1::from(source).digest().to_string();
    assert_eq!(server.command(&["SCRIPT", "LOAD", source]).text(), sha);
    sha
}

fn packed(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Where the first line ends; every reply here is one line.
fn line_end(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|byte| *byte == b'\r')?;
    (bytes.get(end + 1) == Some(&b'\n')).then_some(end)
}
