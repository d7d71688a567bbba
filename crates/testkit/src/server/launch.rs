//! From settings to a server that answers.

use super::Server;
use super::builder::{Settings, Transport};
use crate::certificates::Certificates;
use crate::connection::{Address, Connection};
use crate::leash::Leash;
use crate::resp::Reply;
use crate::wait::{LIMIT, eventually};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// The user for the tests' own connections, where the default user may have no access.
const CONTROL_USER: &str = "testkit-control";

/// More port clashes in a row than a busy machine would have.
const PORT_CLASHES_MAX: usize = 20;

/// How a start ended.
enum Started {
    Ready(Leash),
    PortTaken,
}

pub(super) fn first(settings: Settings) -> Server {
    let folder = tempfile::Builder::new()
        .prefix("ferrolock-")
        .tempdir()
        .expect("a temporary directory");
    let certificates =
        (settings.transport == Transport::Tls).then(|| Certificates::make(folder.path()));
    for _ in 0..PORT_CLASHES_MAX {
        let port = (settings.transport != Transport::Unix).then(free_port);
        write_configuration(&settings, folder.path(), port, certificates.as_ref());
        if let Started::Ready(process) = attempt(&settings, folder.path()) {
            return Server {
                settings,
                folder,
                certificates,
                port,
                process: Mutex::new(Some(process)),
            };
        }
    }
    panic!("{PORT_CLASHES_MAX} ports in a row were taken");
}

/// Starts a server again with its configuration; waits while its port is taken.
pub(super) fn again(settings: &Settings, folder: &Path) -> Leash {
    let mut process = None;
    eventually(LIMIT, "the server's old port is free", || {
        if let Started::Ready(ready) = attempt(settings, folder) {
            process = Some(ready);
        }
        process.is_some()
    });
    process.expect("the wait ended well")
}

pub(super) fn socket_in(folder: &Path) -> PathBuf {
    folder.join("server.sock")
}

/// A connection with all rights.
pub(super) fn connect(settings: &Settings, folder: &Path) -> io::Result<Connection> {
    let mut connection = Connection::open(&Address::Unix(socket_in(folder)))?;
    if settings.guarded {
        connection.try_command(&["AUTH", CONTROL_USER, "any"])?;
    }
    Ok(connection)
}

/// A port on which no program listens, below those that the system gives to outgoing connections.
///
/// A client that connects to a dead server's port from that same port would connect to itself.
fn free_port() -> u16 {
    const LOWEST: u16 = 10_000;
    const COUNT: u64 = 20_000;
    loop {
        let offset = RandomState::new().hash_one(()) % COUNT;
        let port = LOWEST + u16::try_from(offset).expect("below 20,000");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn write_configuration(
    settings: &Settings,
    folder: &Path,
    port: Option<u16>,
    certificates: Option<&Certificates>,
) {
    let (plain, tls) = match settings.transport {
        Transport::Tls => (0, port.unwrap_or(0)),
        Transport::Tcp | Transport::Unix => (port.unwrap_or(0), 0),
    };
    let mut lines = vec![
        "bind 127.0.0.1".to_owned(),
        format!("port {plain}"),
        format!("unixsocket {}", socket_in(folder).display()),
        format!("dir {}", folder.display()),
        "save \"\"".to_owned(),
        "appendonly no".to_owned(),
        "daemonize no".to_owned(),
    ];
    if let Some(made) = certificates {
        lines.extend([
            format!("tls-port {tls}"),
            format!("tls-ca-cert-file {}", made.ca().display()),
            format!("tls-cert-file {}", made.server().display()),
            format!("tls-key-file {}", made.server_key().display()),
            "tls-auth-clients no".to_owned(),
        ]);
    }
    lines.extend(settings.lines.iter().cloned());
    if settings.guarded {
        lines.push(format!("user {CONTROL_USER} on nopass ~* &* +@all"));
    }
    lines.push(String::new());
    fs::write(configuration_in(folder), lines.join("\n")).expect("a configuration file");
}

fn attempt(settings: &Settings, folder: &Path) -> Started {
    // The socket that a killed server leaves would not prevent the start, but it is no sign that the new server runs either.
    let _ = fs::remove_file(socket_in(folder));
    let mut process = spawn(settings, folder);
    let mut exited = false;
    eventually(LIMIT, "the server answers PING", || {
        exited = process.exit_status().is_some();
        exited || answers(settings, folder)
    });
    if !exited {
        return Started::Ready(process);
    }
    let log = fs::read_to_string(log_in(folder)).unwrap_or_default();
    assert!(
        log.contains("Address already in use"),
        "{} did not start:\n{log}",
        settings.kind.name()
    );
    Started::PortTaken
}

fn spawn(settings: &Settings, folder: &Path) -> Leash {
    let name = settings.kind.name();
    let program = settings
        .kind
        .available()
        .unwrap_or_else(|| panic!("no {name} server found"));
    let log = File::create(log_in(folder)).expect("a log file");
    Leash::start(folder, &program, &configuration_in(folder), log)
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// The server opens its socket after its port: if it answers on the socket, it has the port too.
fn answers(settings: &Settings, folder: &Path) -> bool {
    connect(settings, folder)
        .and_then(|mut connection| connection.try_command(&["PING"]))
        .is_ok_and(|reply| reply == Reply::from("PONG"))
}

fn configuration_in(folder: &Path) -> PathBuf {
    folder.join("server.conf")
}

fn log_in(folder: &Path) -> PathBuf {
    folder.join("server.log")
}
