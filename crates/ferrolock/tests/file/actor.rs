//! Another process, which executes commands that its test sends.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferrolock::{Client, Guard, Result};
use rustix::fs::{FlockOperation, flock};
use testkit::process::{Child, Role};
use testkit::{LIMIT, eventually};

use crate::causes;
use crate::stage::{LONG, Store};

/// A process of this binary with a client of its own.
#[derive(Debug)]
pub(crate) struct Actor {
    child: Child,
}

/// What led to a grant, and when the waiter got it, by the boot clock.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) cause: String,
    pub(crate) at_nanos: u64,
}

impl Grant {
    /// Whether a message led to the grant, and not a poll by the waiter itself.
    pub(crate) fn is_woken(&self, since_nanos: u64) -> bool {
        let took = Duration::from_nanos(self.at_nanos.saturating_sub(since_nanos));
        eprintln!("granted after {took:?}: {}", self.cause);
        self.cause == "message"
    }
}

/// The thread with which a process waits for the end of another process.
const MOURNER: &str = "ferrolock-waits";

/// Commands to an actor; it answers when it is done.
impl Actor {
    pub(crate) fn start() -> Self {
        Self::start_under(&[])
    }

    /// Started by that command, which becomes the actor: in a namespace, or as another user.
    pub(crate) fn start_under(command: &[&str]) -> Self {
        let child = Child::again_under(command, "actor::actor", &[]);
        Self { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Sends it a command, without waiting for the answer.
    pub(crate) fn begins(&mut self, words: &[&str]) {
        self.child.say(&serde_json::to_string(words).unwrap());
    }

    /// The answer to the last command.
    #[track_caller]
    pub(crate) fn answers(&mut self) -> String {
        self.child.hear(4 * LIMIT)
    }

    #[track_caller]
    pub(crate) fn does(&mut self, words: &[&str]) -> String {
        self.begins(words);
        self.answers()
    }

    /// Connects with a lease that does not end during a test.
    #[track_caller]
    pub(crate) fn connects(&mut self, store: &Store) {
        self.connects_with_lease(store, LONG);
    }

    #[track_caller]
    pub(crate) fn connects_with_lease(&mut self, store: &Store, lease: Duration) {
        let lease = lease.as_millis().to_string();
        assert_eq!(self.does(&["connect", &store.url(), &lease]), "connected");
    }

    #[track_caller]
    pub(crate) fn takes(&mut self, name: &str) {
        assert_eq!(self.does(&["try", name]), "held");
    }

    #[track_caller]
    pub(crate) fn releases(&mut self, name: &str) {
        assert_eq!(self.does(&["unlock", name]), "released");
    }

    /// Begins to wait for a lock that another process holds; it must be the first lock that this actor waits for. Returns
    /// when the actor listens, has found the lock busy since, and sleeps until something happens. That is seen by its
    /// thread that waits for the end of the holder: that thread exists as long as the holder does.
    #[track_caller]
    pub(crate) fn waits(&mut self, name: &str) {
        assert!(!self.threads().contains(&MOURNER.to_owned()));
        self.begins(&["wait", name]);
        eventually(LIMIT, "it waits for the holder", || {
            self.threads().contains(&MOURNER.to_owned())
        });
    }

    /// The answer of an actor that waited, when it has the lock.
    #[track_caller]
    pub(crate) fn gets(&mut self) -> Grant {
        let answer = self.answers();
        let (cause, at) = answer.split_once(' ').unwrap_or_else(|| panic!("{answer}"));
        Grant {
            cause: cause.to_owned(),
            at_nanos: at.parse().unwrap_or_else(|_| panic!("{answer}")),
        }
    }

    /// Ends the process in the regular way.
    #[track_caller]
    pub(crate) fn ends(mut self) {
        assert_eq!(self.does(&["close"]), "closed");
        self.begins(&["exit"]);
        assert!(self.child.wait(LIMIT).success());
    }

    /// The names of its threads, as far as the system shows them: the first fifteen letters. A new thread has the name of
    /// the thread that started it until it runs.
    pub(crate) fn threads(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let names = threads
            .flatten()
            .map(|thread| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
        names.map(|name| name.trim_end().to_owned()).collect()
    }

    pub(crate) fn is_killed(&mut self) {
        self.child.kill();
    }

    pub(crate) fn stops(&self) {
        self.child.stop_signal();
    }

    pub(crate) fn goes_on(&self) {
        self.child.cont_signal();
    }
}

/// The actor itself.
pub(crate) fn actor(role: &Role) {
    causes::begin();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut props = Props::default();
    loop {
        let words: Vec<String> = serde_json::from_str(&role.hear()).unwrap();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        if words == ["exit"] {
            return;
        }
        let answer = match runtime.block_on(props.act(&words)) {
            Ok(answer) => answer,
            Err(error) => {
                let code = error.code().unwrap_or_default();
                format!("{:?} {code}: {error}", error.kind())
            }
        };
        role.say(&answer);
    }
}

/// The state of an actor.
#[derive(Default)]
struct Props {
    client: Option<Client>,
    guards: HashMap<String, Guard>,
    files: Vec<File>,
    children: Vec<std::process::Child>,
    calls: Vec<Pin<Box<dyn Future<Output = Result<()>>>>>,
}

impl Props {
    async fn act(&mut self, words: &[&str]) -> Result<String> {
        let began = Instant::now();
        Ok(match *words {
            ["connect", url, lease, ref limit @ ..] => self.connect(url, lease, limit).await?,
            ["try", name] => match self.lock(name).try_lock().await? {
                Some(guard) => self.holds(name, guard),
                None => "busy".to_owned(),
            },
            ["try leased", name, lease] => {
                match self.lock(name).lease(ms(lease)).try_lock().await? {
                    Some(guard) => self.holds(name, guard),
                    None => "busy".to_owned(),
                }
            }
            // With a client of its own.
            ["try other", url, name] => {
                let client = Client::connect(url).await?;
                let guard = client.lock(name).try_lock().await?;
                if guard.is_some() { "held" } else { "busy" }.to_owned()
            }
            ["try for", name, wait] => match self.lock(name).try_lock_for(ms(wait)).await? {
                Some(guard) => self.holds(name, guard),
                None => "busy".to_owned(),
            },
            ["lock", name] => {
                let guard = self.lock(name).lock().await?;
                self.holds(name, guard)
            }
            // Answers what led to the grant and when it came, by the clock that all processes share.
            ["wait", name] => {
                let guard = self.lock(name).lock().await?;
                let at = crate::stage::boot_nanos();
                self.holds(name, guard);
                format!("{} {at}", causes::last_of(name).unwrap())
            }
            ["unlock", name] => {
                self.guards.remove(name).unwrap().unlock().await?;
                "released".to_owned()
            }
            ["unlock after", name, stay] => {
                let guard = self.guards.remove(name).unwrap();
                guard.unlock_after(ms(stay)).await?;
                "released later".to_owned()
            }
            ["force", name] => self.lock(name).force_unlock().await?.to_string(),
            ["held", name] => self.guards[name].is_held().to_string(),
            ["lost", name] => {
                let reason = self.guards[name].lost().await;
                format!("{reason:?} after {} ms", began.elapsed().as_millis())
            }
            ["close"] => {
                self.guards.clear();
                self.client = None;
                "closed".to_owned()
            }
            _ => self.act_otherwise(words).await?,
        })
    }

    /// Commands that are not about one lock.
    async fn act_otherwise(&mut self, words: &[&str]) -> Result<String> {
        Ok(match *words {
            ["lifeline"] => self.share_lifeline(),
            // Takes the lock and gives it back, as fast as it can, until this process ends.
            ["churn", name] => {
                let lock = self.lock(name);
                tokio::spawn(async move {
                    loop {
                        lock.lock().await.unwrap().unlock().await.unwrap();
                    }
                });
                "begun".to_owned()
            }
            ["first calls", url, count] => self.begin_first_calls(url, count),
            ["first calls end"] => {
                let mut ended = 0;
                for call in std::mem::take(&mut self.calls) {
                    call.await?;
                    ended += 1;
                }
                format!("{ended} ended")
            }
            // Takes a file lock that LMDB or another process would take.
            ["flock", how, path] => self.lock_file(how, path),
            ["transaction", map] => {
                begin_transaction(Path::new(map));
                "begun".to_owned()
            }
            ["close files"] => {
                self.files.clear();
                "closed".to_owned()
            }
            ["shell", script] => shell(script),
            _ => panic!("an actor cannot {words:?}"),
        })
    }

    /// `limit`: for calls and for connecting; may be empty.
    async fn connect(&mut self, url: &str, lease: &str, limit: &[&str]) -> Result<String> {
        let mut builder = Client::builder().url(url).watchdog_lease(ms(lease));
        for limit in limit {
            builder = builder.command_limit(ms(limit)).connect_limit(ms(limit));
        }
        self.client = Some(builder.connect().await?);
        Ok("connected".to_owned())
    }

    /// Creates clients that connect with their first call, and begins that call on each of them.
    fn begin_first_calls(&mut self, url: &str, count: &str) -> String {
        for number in 0..count.parse::<usize>().unwrap() {
            let builder = Client::builder().url(url).command_limit(4 * LIMIT);
            let client = builder.connect_lazy().unwrap();
            // The first attempt is made as its future is polled.
            let taking = client.lock(format!("of {number}")).try_lock();
            let mut call = Box::pin(async move { taking.await.map(drop) });
            assert!(testkit::poll_once(call.as_mut()).is_pending());
            self.calls.push(call);
        }
        "begun".to_owned()
    }

    fn lock_file(&mut self, how: &str, path: &str) -> String {
        let file = File::options().read(true).write(true).open(path).unwrap();
        flock(&file, operation(how)).unwrap();
        self.files.push(file);
        "locked".to_owned()
    }

    fn lock(&self, name: &str) -> ferrolock::Lock {
        self.client.as_ref().expect("connected").lock(name)
    }

    fn holds(&mut self, name: &str, guard: Guard) -> String {
        self.guards.insert(name.to_owned(), guard);
        "held".to_owned()
    }

    /// Starts a program that has the lifeline as its output until it is killed; returns its process id.
    fn share_lifeline(&mut self) -> String {
        let lifeline = self.client.as_ref().unwrap().lifeline().unwrap();
        let child = Command::new("sleep")
            .arg("120")
            .stdin(Stdio::null())
            .stdout(Stdio::from(lifeline))
            .spawn()
            .unwrap();
        let number = child.id().to_string();
        self.children.push(child);
        number
    }
}

/// Begins a write transaction in LMDB directly, without our own locks, and never ends it.
fn begin_transaction(map: &Path) {
    let mut options = heed::EnvOpenOptions::new();
    options.map_size(1 << 30).max_readers(1);
    #[expect(
        unsafe_code,
        reason = "this process opens the table once and writes nothing"
    )]
    let env = unsafe { options.open(map).unwrap() };
    let env: &'static heed::Env = Box::leak(Box::new(env));
    std::mem::forget(env.write_txn().unwrap());
}

fn ms(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap())
}

fn operation(how: &str) -> FlockOperation {
    match how {
        "shared" => FlockOperation::LockShared,
        "exclusive" => FlockOperation::LockExclusive,
        _ => panic!("a lock is shared or exclusive"),
    }
}

/// What the script printed, or how it failed, in one line.
fn shell(script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).output().unwrap();
    let said = if output.status.success() {
        format!("ok {}", String::from_utf8_lossy(&output.stdout))
    } else {
        format!("failed {}", String::from_utf8_lossy(&output.stderr))
    };
    said.trim().replace('\n', " ")
}
