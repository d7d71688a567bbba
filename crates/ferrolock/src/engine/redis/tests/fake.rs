//! A server that follows a script: it speaks enough RESP3 for the engine, counts what it is asked, and fails on
//! command.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// What the server does with the next script calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnScript {
    /// Answers with the first argument.
    Echo,
    /// Runs it and closes the connection instead of answering.
    LoseReply,
    /// Runs it and says nothing.
    Swallow,
    Error(&'static str),
}

/// How the server behaves; a test may change it at any time.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) version: &'static str,
    pub(super) password: Option<&'static str>,
    /// Said to HELLO, whereupon the connection is closed.
    pub(super) hello_error: Option<&'static str>,
    pub(super) on_script: OnScript,
    pub(super) knows_scripts: bool,
    /// Channels that begin like this are forbidden.
    pub(super) forbidden: Option<&'static str>,
    pub(super) subscribe_error: Option<&'static str>,
    /// Reads everything, answers nothing.
    pub(super) mute: bool,
}

pub(super) struct Fake {
    pub(super) address: SocketAddr,
    /// Bound, never listening: nobody else gets the port while the server is away.
    _port: TcpSocket,
    shared: Arc<Shared>,
    accepting: CancellationToken,
}

struct Shared {
    rules: Mutex<Rules>,
    seen: watch::Sender<Seen>,
    connections: Mutex<Vec<Arc<Connection>>>,
    frozen: watch::Sender<bool>,
}

/// What the server was asked, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) commands: Vec<Vec<String>>,
    pub(super) connections: usize,
}

struct Connection {
    out: mpsc::UnboundedSender<Vec<u8>>,
    end: CancellationToken,
    channels: Mutex<HashSet<String>>,
}

impl Seen {
    /// How many commands of that name came.
    pub(super) fn count(&self, verb: &str) -> usize {
        self.commands
            .iter()
            .filter(|words| words[0] == verb)
            .count()
    }
}

impl Fake {
    pub(super) async fn start() -> Fake {
        Fake::start_with(|_| {}).await
    }

    pub(super) async fn start_with(edit: impl FnOnce(&mut Rules)) -> Fake {
        let mut rules = Rules {
            version: "redis_version:7.0.15",
            password: None,
            hello_error: None,
            on_script: OnScript::Echo,
            knows_scripts: true,
            forbidden: None,
            subscribe_error: None,
            mute: false,
        };
        edit(&mut rules);
        let port = bound("127.0.0.1:0".parse().unwrap());
        let address = port.local_addr().unwrap();
        let mut fake = Fake {
            address,
            _port: port,
            shared: Arc::new(Shared {
                rules: Mutex::new(rules),
                seen: watch::Sender::default(),
                connections: Mutex::default(),
                frozen: watch::Sender::new(false),
            }),
            accepting: CancellationToken::new(),
        };
        fake.restart();
        fake
    }

    fn accept(&mut self, listener: TcpListener) {
        self.accepting = CancellationToken::new();
        let (shared, stop) = (self.shared.clone(), self.accepting.clone());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                shared.serve(stream);
            }
        }));
    }

    pub(super) fn rules(&self) -> MutexGuard<'_, Rules> {
        self.shared.rules.lock().unwrap()
    }

    pub(super) fn seen(&self) -> Seen {
        self.shared.seen.borrow().clone()
    }

    /// Resolves when what was seen is as wanted.
    pub(super) async fn until(&self, wanted: impl FnMut(&Seen) -> bool) {
        self.shared.seen.subscribe().wait_for(wanted).await.unwrap();
    }

    /// Closes all connections.
    pub(super) fn kick(&self) {
        for connection in self.shared.connections.lock().unwrap().drain(..) {
            connection.end.cancel();
        }
    }

    /// Dies: closes all connections and takes no new ones.
    pub(super) async fn stop(&self) {
        self.accepting.cancel();
        self.kick();
        // Over only when nobody gets in any more.
        while TcpStream::connect(self.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn restart(&mut self) {
        self.accept(bound(self.address).listen(64).unwrap());
    }

    /// Stops writing, keeps reading; what it would have written comes when it is thawed.
    pub(super) fn freeze(&self) {
        self.shared.frozen.send_replace(true);
    }

    pub(super) fn thaw(&self) {
        self.shared.frozen.send_replace(false);
    }

    /// Gives how many heard it.
    pub(super) fn publish(&self, channel: &str, payload: &str) -> usize {
        self.push_to(channel, &push(&["message", channel, payload]))
    }

    /// Ends a subscription that nobody asked to end.
    pub(super) fn cut(&self, channel: &str) -> usize {
        let mut bytes = b">3\r\n".to_vec();
        bytes.extend(bulk("unsubscribe"));
        bytes.extend(bulk(channel));
        bytes.extend(b":0\r\n");
        self.push_to(channel, &bytes)
    }

    fn push_to(&self, channel: &str, bytes: &[u8]) -> usize {
        let connections = self.shared.connections.lock().unwrap();
        let listening =
            |connection: &&Arc<Connection>| connection.channels.lock().unwrap().contains(channel);
        connections
            .iter()
            .filter(listening)
            .map(|connection| connection.out.send(bytes.to_vec()))
            .filter(Result::is_ok)
            .count()
    }
}

impl Shared {
    fn serve(self: &Arc<Self>, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let (read, write) = stream.into_split();
        let (out, queue) = mpsc::unbounded_channel();
        let connection = Arc::new(Connection {
            out,
            end: CancellationToken::new(),
            channels: Mutex::default(),
        });
        self.connections.lock().unwrap().push(connection.clone());
        self.seen.send_modify(|seen| seen.connections += 1);
        let (end, frozen) = (connection.end.clone(), self.frozen.subscribe());
        tokio::spawn(
            end.clone()
                .run_until_cancelled_owned(write_all(write, queue, frozen)),
        );
        let shared = self.clone();
        tokio::spawn(end.run_until_cancelled_owned(async move {
            shared.read_all(read, &connection).await;
            connection.channels.lock().unwrap().clear();
            connection.end.cancel();
        }));
    }

    async fn read_all(&self, read: OwnedReadHalf, connection: &Connection) {
        let mut read = BufReader::new(read);
        while let Some(words) = read_command(&mut read).await {
            let rules = self.rules.lock().unwrap().clone();
            let reply = if rules.mute {
                Some(Vec::new())
            } else {
                answer(&rules, connection, &words, &self.rules)
            };
            if let Some(reply) = &reply {
                let _ = connection.out.send(reply.clone());
            }
            self.seen.send_modify(|seen| seen.commands.push(words));
            if reply.is_none() {
                return;
            }
        }
    }
}

/// `None`: the connection is closed.
fn answer(
    rules: &Rules,
    connection: &Connection,
    words: &[String],
    live: &Mutex<Rules>,
) -> Option<Vec<u8>> {
    match words[0].as_str() {
        "HELLO" => hello(rules, connection, words),
        "INFO" => Some(bulk(rules.version)),
        "PING" => Some(b"+PONG\r\n".to_vec()),
        "EVALSHA" if !rules.knows_scripts => {
            Some(error("NOSCRIPT No matching script. Please use EVAL."))
        }
        "EVAL" | "EVALSHA" => {
            live.lock().unwrap().knows_scripts = true;
            script(rules, words)
        }
        "SUBSCRIBE" => Some(subscribe(rules, connection, &words[1..])),
        "UNSUBSCRIBE" => {
            let mut channels = connection.channels.lock().unwrap();
            let part = |channel: &String| {
                channels.remove(channel);
                confirmation("unsubscribe", channel)
            };
            Some(words[1..].iter().flat_map(part).collect())
        }
        _ => Some(b"+OK\r\n".to_vec()),
    }
}

fn hello(rules: &Rules, connection: &Connection, words: &[String]) -> Option<Vec<u8>> {
    if let Some(text) = rules.hello_error {
        // Old servers repeat what they were told.
        let _ = connection
            .out
            .send(error(&format!("{text} {}", words.join(" "))));
        return Some(Vec::new());
    }
    let given = words.iter().skip_while(|word| *word != "AUTH").nth(2);
    match rules.password {
        Some(password) if given.is_none_or(|given| given != password) => Some(error(
            "WRONGPASS invalid username-password pair or user is disabled.",
        )),
        _ => Some(b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec()),
    }
}

fn script(rules: &Rules, words: &[String]) -> Option<Vec<u8>> {
    let keys: usize = words[2].parse().unwrap();
    match rules.on_script {
        OnScript::Echo => Some(bulk(words.get(3 + keys).map_or("", String::as_str))),
        OnScript::LoseReply => None,
        OnScript::Swallow => Some(Vec::new()),
        OnScript::Error(text) => Some(error(text)),
    }
}

fn subscribe(rules: &Rules, connection: &Connection, channels: &[String]) -> Vec<u8> {
    if let Some(text) = rules.subscribe_error {
        return error(text);
    }
    let forbidden = |channel: &String| {
        rules
            .forbidden
            .is_some_and(|start| channel.starts_with(start))
    };
    if channels.iter().any(forbidden) {
        return error("NOPERM No permissions to access a channel");
    }
    connection
        .channels
        .lock()
        .unwrap()
        .extend(channels.iter().cloned());
    channels
        .iter()
        .flat_map(|channel| confirmation("subscribe", channel))
        .collect()
}

fn confirmation(kind: &str, channel: &str) -> Vec<u8> {
    let mut bytes = b">3\r\n".to_vec();
    bytes.extend(bulk(kind));
    bytes.extend(bulk(channel));
    bytes.extend(b":1\r\n");
    bytes
}

fn push(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!(">{}\r\n", words.len()).into_bytes();
    words.iter().for_each(|word| bytes.extend(bulk(word)));
    bytes
}

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

fn error(text: &str) -> Vec<u8> {
    format!("-{text}\r\n").into_bytes()
}

fn bound(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(address).unwrap();
    socket
}

async fn write_all(
    mut write: OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    mut frozen: watch::Receiver<bool>,
) {
    while let Some(bytes) = queue.recv().await {
        let thawed = frozen.wait_for(|frozen| !frozen).await.is_ok();
        if !thawed || write.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read_command(read: &mut BufReader<OwnedReadHalf>) -> Option<Vec<String>> {
    let count = read_number(read).await?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut word = vec![0; read_number(read).await? + 2];
        read.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8(word).unwrap());
    }
    Some(words)
}

async fn read_number(read: &mut BufReader<OwnedReadHalf>) -> Option<usize> {
    let mut line = String::new();
    read.read_line(&mut line).await.ok()?;
    line.trim().get(1..)?.parse().ok()
}
