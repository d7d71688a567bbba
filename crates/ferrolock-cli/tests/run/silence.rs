//! A server or a store that does not answer: `--wait` and `--try` limit everything before the command.

use std::fs::File;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
use rustix::process::Signal;
use testkit::process::{Child, Role};
use testkit::{Answer, Kind, LIMIT, Server, StubServer};

use crate::run::{Ended, Run, living_in_environment};
use crate::stage::Stage;

/// Options of `ferrolock run`, and how long it waits for an answer with them.
const LIMITS: [(&[&str], Duration); 2] = [
    (&["--wait", "200ms"], Duration::from_millis(200)),
    (&["--try"], Duration::from_secs(3)),
];
/// It must end 100 ms after the limit; a busy machine gets ten times as much.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Each limit is kept, one line says which address did not answer and for how long, and no process of ours is left.
#[track_caller]
fn assert_gives_up_in_time(stage: &Stage, address: &str, variables: &[(&str, &str)]) {
    for (words, limit) in LIMITS {
        let mut command = stage.command(&["run"]);
        command
            .args(words)
            .args(["x", "--", "touch", "ran"])
            .envs(variables.iter().copied());

        let (ended, took) = timed(&mut command);

        println!("{words:?} at {address}: ended after {took:?}");
        assert_eq!(ended.code, 69, "{ended:?}");
        let line = ended.error_line();
        assert!(line.contains(address) && says_how_long(line), "{line}");
        assert!(!line.contains("secret"), "{line}");
        assert!(took >= limit && took < limit + AFTERWARDS, "{took:?}");
        let left = living_in_environment("FERROLOCK_URL", stage.url());
        assert!(left.is_empty(), "{left:?}");
    }
    assert!(!stage.path("ran").exists());
}

/// Whether the line says how long there was no answer.
fn says_how_long(line: &str) -> bool {
    let parts = [
        " did not answer within ",
        " did not answer for ",
        " within ",
    ];
    let found = parts.iter().find_map(|part| line.split_once(part));
    found.is_some_and(|(_, time)| time.starts_with(|first: char| first.is_ascii_digit()))
}

#[track_caller]
fn timed(command: &mut Command) -> (Ended, Duration) {
    let begun = Instant::now();
    let ended = Run::start(command).end();
    (ended, begun.elapsed())
}

#[test]
fn a_server_that_is_stopped_is_given_up_in_time() {
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::builder(Kind::Redis).requirepass("secret").start();
    let address = format!("redis://127.0.0.1:{}", server.port());
    let stage = Stage::on(server.url(), Some(server));
    let server = stage.server().unwrap();
    server.stop_signal();

    assert_gives_up_in_time(&stage, &address, &[]);

    server.cont_signal();
    assert!(stage.is_free("x"));
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn a_store_whose_writer_is_stopped_is_given_up_in_time() {
    let stage = Stage::file();
    assert!(stage.is_free("x"));
    let writer = stopped_writer(&stage);

    assert_gives_up_in_time(&stage, stage.url(), &[]);

    drop(writer);
    assert!(stage.is_free("x"));
}

/// Like a program that is no server, or one that hangs.
#[test]
fn a_port_that_sends_nothing_is_given_up_in_time() {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("redis://{}", port.local_addr().unwrap());
    let stage = Stage::on(url.clone(), None);

    assert_gives_up_in_time(&stage, &url, &[]);
}

/// Like an address behind a firewall that drops packets.
#[test]
fn an_address_that_does_not_accept_is_given_up_in_time() {
    let port = FullPort::new();
    let url = format!("redis://{}", port.address);
    let stage = Stage::on(url.clone(), None);

    assert_gives_up_in_time(&stage, &url, &[]);
}

/// Connecting takes most of the limit; the question for the holders has only the rest, not a limit of its own.
#[test]
fn a_server_that_is_silent_after_connecting_is_given_up_in_time() {
    for (talks_for, variables) in [
        (Duration::ZERO, &[][..]),
        (Duration::ZERO, &[("FERROLOCK_OWNER", "some:1")]),
        (Duration::from_millis(2500), &[]),
        (
            Duration::from_millis(2500),
            &[("FERROLOCK_OWNER", "some:1")],
        ),
    ] {
        let server = StubServer::start(move |words| first_words(talks_for, words));
        let stage = Stage::on(server.url(), None);

        assert_gives_up_in_time(&stage, &server.url(), variables);

        // If the answer to HELLO takes longer than a limit, no script is called within it.
        let connected = LIMITS.iter().filter(|(_, limit)| talks_for < *limit);
        let asked = server.count("EVALSHA");
        assert!(asked >= connected.count(), "{:?}", server.commands());
    }
}

/// The resolver asks a name server that does not answer, in a call that cannot be interrupted.
#[test]
fn a_name_that_is_never_resolved_is_given_up_in_time() {
    let Some(names) = SilentNames::here() else {
        return;
    };
    let stage = Stage::on("redis://db.invalid".to_owned(), None);

    for (words, limit) in LIMITS {
        let mut command = names.command(&stage, words);
        let (ended, took) = timed(&mut command);

        println!("{words:?} for a name: ended after {took:?}");
        assert_eq!(ended.code, 69, "{ended:?}");
        assert!(ended.error_line().contains(stage.url()), "{ended:?}");
        assert!(took >= limit && took < limit + AFTERWARDS, "{took:?}");
    }
    let run = Run::start(&mut names.command(&stage, &["--json"]));
    run.gate();
    let begun = Instant::now();
    run.signal(Signal::INT);
    assert_eq!(run.end().code, 128 + 2);
    println!("after a signal: {:?}", begun.elapsed());
    assert!(begun.elapsed() < AFTERWARDS);
}

#[test]
fn a_server_that_answers_before_the_limit_is_waited_for() {
    let Some(stage) = Stage::redis() else { return };
    let server = stage.server().unwrap();
    server.stop_signal();
    let run = stage.start(&["--wait", "30s", "x", "--", "echo", "ran"]);
    // Wait for the gate: it is started while `ferrolock` connects.
    run.gate();

    server.cont_signal();

    let ended = run.end();
    assert_eq!((ended.code, ended.output.as_str()), (0, "ran\n"));
}

stories!(no_answer_at_the_end_of_the_wait_is_69_although_the_lock_was_busy_before);

fn no_answer_at_the_end_of_the_wait_is_69_although_the_lock_was_busy_before(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");
    let begun = Instant::now();
    let waiter = stage.start(&["--json", "--wait", "3s", "x", "--", "touch", "ran"]);
    waiter.wait_for_error("\"held_seconds\"");

    let writer = match stage.server() {
        Some(server) => {
            server.stop_signal();
            None
        }
        None => Some(stopped_writer(stage)),
    };

    let ended = waiter.end();
    println!(
        "silent at the end of 3 s: ended after {:?}",
        begun.elapsed()
    );
    assert_eq!(ended.code, 69, "{ended:?}");
    assert!(!ended.errors.contains("\"busy\""), "{ended:?}");
    assert!(!stage.path("ran").exists());
    drop(writer);
    stage.server().into_iter().for_each(Server::cont_signal);
}

/// A process that is stopped inside a change of the stage's store.
fn stopped_writer(stage: &Stage) -> Child {
    let turn = stage.path("store/turn").display().to_string();
    let mut writer = Child::again("silence::writer", &[&turn]);
    assert_eq!(writer.hear(LIMIT), "inside");
    writer.stop_signal();
    writer
}

/// The role of that process.
pub(crate) fn writer(role: &Role) {
    let turn = File::open(&role.args()[0]).unwrap();
    flock(&turn, FlockOperation::LockExclusive).unwrap();
    role.say("inside");
    role.hear();
}

/// A server's answers while a client connects, after a pause; other commands get no answer.
fn first_words(talks_for: Duration, words: &[String]) -> Answer {
    let text = Answer::text;
    match words[0].to_ascii_uppercase().as_str() {
        "HELLO" => {
            std::thread::sleep(talks_for);
            Answer::Map(vec![
                (text("server"), text("redis")),
                (text("version"), text("7.4.0")),
                (text("proto"), Answer::Int(3)),
            ])
        }
        "INFO" => text("# Server\r\nredis_version:7.4.0\r\n"),
        "CLIENT" | "SELECT" => Answer::ok(),
        "SCRIPT" => text(&"5ca1ab1e".repeat(5)),
        _ => Answer::Silence,
    }
}

/// A port whose queue of connections is full: the system does not answer a new client.
struct FullPort {
    address: SocketAddr,
    _in_line: Vec<TcpStream>,
    _port: std::os::fd::OwnedFd,
}

impl FullPort {
    fn new() -> Self {
        let port = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&port, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        listen(&port, 0).unwrap();
        let address = SocketAddr::try_from(getsockname(&port).unwrap()).unwrap();
        let mut in_line = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            in_line.push(stream);
            assert!(in_line.len() < 100, "the line has no end");
        }
        Self {
            address,
            _in_line: in_line,
            _port: port,
        }
    }
}

/// A name server that does not answer, and the files that send the resolver there.
struct SilentNames {
    folder: tempfile::TempDir,
    _server: UdpSocket,
}

impl SilentNames {
    const ADDRESS: &str = "127.83.68.1";
    const ENTER: &str =
        "mount --bind resolv /etc/resolv.conf && mount --bind switch /etc/nsswitch.conf";

    /// `None` where it is not allowed; that is printed then.
    fn here() -> Option<Self> {
        let server = UdpSocket::bind((Self::ADDRESS, 53)).ok();
        let folder = tempfile::tempdir().unwrap();
        let resolver = format!("nameserver {}\noptions timeout:30\n", Self::ADDRESS);
        std::fs::write(folder.path().join("resolv"), resolver).unwrap();
        std::fs::write(folder.path().join("switch"), "hosts: dns\n").unwrap();
        let tried = Command::new("unshare")
            .args(["--mount", "sh", "-c", Self::ENTER])
            .current_dir(folder.path())
            .output();
        let is_allowed = tried.is_ok_and(|tried| tried.status.success());
        let Some(_server) = server.filter(|_| is_allowed) else {
            let remedy = "it needs root, a port 53 and mounts of its own\n";
            testkit::left_out("without a name server", remedy);
            return None;
        };
        Some(Self { folder, _server })
    }

    fn command(&self, stage: &Stage, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c"])
            .arg(format!("{} && exec \"$@\"", Self::ENTER))
            .args(["sh", env!("CARGO_BIN_EXE_ferrolock"), "run"])
            .args(words)
            .args(["x", "--", "true"])
            .env("FERROLOCK_URL", stage.url())
            .current_dir(self.folder.path());
        command
    }
}
