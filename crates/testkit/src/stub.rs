//! A server that answers as told, for what real servers here do not do.

use crate::resp::read_reply;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

/// A scripted server on a port of its own; it remembers every command.
#[derive(Debug)]
pub struct StubServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

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
    /// No answer; the connection is closed.
    Close,
}

#[derive(Debug, Default)]
struct Shared {
    ended: AtomicBool,
    commands: Mutex<Vec<Vec<String>>>,
    clients: Mutex<Vec<TcpStream>>,
}

impl StubServer {
    /// A Redis of this version that is willing to talk, and knows no commands but those of the first contact.
    pub fn of_version(version: &str) -> Self {
        let version = version.to_owned();
        Self::start(move |command| first_contact(&version, command))
    }

    /// A Redis of a version before 7.
    pub fn old() -> Self {
        Self::of_version("6.2.14")
    }

    /// A server that answers every command with what `script` says.
    #[track_caller]
    pub fn start(script: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared::default());
        let script = Arc::new(script);
        let accepting = Arc::clone(&shared);
        let listener = std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (script, shared) = (Arc::clone(&script), Arc::clone(&accepting));
                // Ends with its client, or with an answer that closes the connection.
                std::thread::spawn(move || shared.serve(client, &*script));
            }
        });
        Self {
            address,
            shared,
            listener: Some(listener),
        }
    }

    /// What a client is to connect to.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every command so far, in the order they came.
    pub fn commands(&self) -> Vec<Vec<String>> {
        lock(&self.shared.commands).clone()
    }

    /// How often a command came, by its first word in any case.
    pub fn count(&self, name: &str) -> usize {
        lock(&self.shared.commands)
            .iter()
            .filter(|words| {
                words
                    .first()
                    .is_some_and(|word| word.eq_ignore_ascii_case(name))
            })
            .count()
    }
}

impl Drop for StubServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        for client in lock(&self.shared.clients).drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
        // Wakes the listener, which then sees that it has ended.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(listener) = self.listener.take().filter(|_| woken) {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn serve(&self, client: TcpStream, script: &dyn Fn(&[String]) -> Answer) -> io::Result<()> {
        client.set_nodelay(true)?;
        lock(&self.clients).push(client.try_clone()?);
        let mut output = client.try_clone()?;
        let mut input = BufReader::new(client);
        loop {
            let command = read_reply(&mut input)?.texts();
            lock(&self.commands).push(command.clone());
            match script(&command) {
                Answer::Close => return output.shutdown(Shutdown::Both),
                answer => output.write_all(answer.encode().as_bytes())?,
            }
        }
    }
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

    fn encode(&self) -> String {
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
            Self::Close => String::new(),
        }
    }
}

fn first_contact(version: &str, command: &[String]) -> Answer {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Address, Connection};
    use crate::resp::Reply;

    fn connect(stub: &StubServer) -> Connection {
        Connection::open(&Address::Tcp(stub.address())).unwrap()
    }

    #[test]
    fn an_old_server_tells_its_version_both_ways() {
        let stub = StubServer::old();
        let mut client = connect(&stub);

        let hello = client.command(&["HELLO", "2"]).list();
        assert_eq!(hello[3], "6.2.14".into());
        let info = client.command(&["INFO", "server"]).text();
        assert!(info.contains("redis_version:6.2.14\r\n"), "{info}");
    }

    #[test]
    fn hello_in_version_three_is_answered_with_a_map() {
        let map = first_contact("6.2.14", &["hello".to_owned(), "3".to_owned()]).encode();

        assert!(
            map.starts_with("%7\r\n$6\r\nserver\r\n$5\r\nredis\r\n"),
            "{map}"
        );
    }

    #[test]
    fn commands_are_counted_and_unknown_ones_refused() {
        let stub = StubServer::old();
        let mut client = connect(&stub);

        assert_eq!(client.command(&["PING"]), "PONG".into());
        let refusal = client.command(&["EVAL", "return 1", "0"]);

        assert_eq!(
            refusal,
            Reply::Error("ERR unknown command 'EVAL'".to_owned())
        );
        assert_eq!(stub.count("eval"), 1);
        assert_eq!(stub.count("SET"), 0);
        assert_eq!(stub.commands()[0], ["PING"]);
    }

    #[test]
    fn a_script_may_close_the_connection() {
        let stub = StubServer::start(|_| Answer::Close);

        assert!(connect(&stub).try_command(&["PING"]).is_err());
        assert_eq!(stub.count("PING"), 1);
    }

    #[test]
    fn a_dropped_stub_is_not_there_any_more() {
        let stub = StubServer::old();
        let mut client = connect(&stub);
        client.command(&["PING"]);
        let address = stub.address();

        drop(stub);

        assert!(client.try_command(&["PING"]).is_err());
        assert!(Connection::open(&Address::Tcp(address)).is_err());
    }
}
