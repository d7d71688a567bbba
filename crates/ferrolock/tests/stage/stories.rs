//! One test per engine, and per kind of lock, for each story.
//!
//! A story is an `async fn` over a [`Stage`]. The macro under which it is listed says where it runs:
//!
//! | macro | with the plain lock | with every other kind |
//! |---|---|---|
//! | `stories!` | `memory:` in paused time; `file:`, Redis, Valkey | `memory:` in paused time |
//! | `stories_in_paused_time!` | `memory:` in paused time: what needs exact time | the same |
//! | `stories_of_one_kind!` | `memory:` in paused time; `file:`, Redis, Valkey: with the kind that the story is about | |
//! | `stories_of_every_kind!` | as in the list in which the story stands too | `file:`, Redis, Valkey |
//! | `stories_in_real_time!` | `memory:` in real time, because threads compute or runtimes end; `file:`, Redis, Valkey | |
//! | `stories_on_one_thread!` | `file:`, Redis, Valkey, on a runtime with one thread: a future's polls are the same each time | |
//! | `stories_of_processes!` | `file:`, Redis, Valkey: what several processes share | |
//! | `server_stories!`, `on_each_server!` | Redis, Valkey: what needs a network, or a view that only a server gives | |
//!
//! The stories of the last four are about the machinery under all kinds, or about commands and keys of the plain lock.
//! `left_out.rs` has the stories that are not true of some kind.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use testkit::{Kind, Server};
use tokio::runtime::{Builder, Runtime};

use super::kinds::LockKind;
use super::{Stage, Time, causes, left_out};

macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        paused_stories!(memory Plain $($story)+);
        shared_stories!(Plain AmongOthers $($story)+);
        mod kinds {
            use super::{$($story),+};
            of_each_kind_in_paused_time!($($story)+);
        }
    };
}

/// Stories about one kind, which they make themselves.
macro_rules! stories_of_one_kind {
    ($($story:ident),+ $(,)?) => {
        paused_stories!(memory Plain $($story)+);
        shared_stories!(Plain AmongOthers $($story)+);
    };
}

/// Stories that need exact time.
macro_rules! stories_in_paused_time {
    ($($story:ident),+ $(,)?) => {
        paused_stories!(in_paused_time Plain $($story)+);
        mod kinds_in_paused_time {
            use super::{$($story),+};
            of_each_kind_in_paused_time!($($story)+);
        }
    };
}

/// The part of the stories that shows most: exclusion, hand-off, renewal, loss, drop, cancellation, shutdown, killed holders.
/// They stand in another list too, which runs them with the plain lock.
macro_rules! stories_of_every_kind {
    ($($story:ident),+ $(,)?) => {
        mod everywhere {
            use super::{$($story),+};
            of_each_kind!(stories_everywhere $($story)+);
        }
    };
}

macro_rules! stories_in_real_time {
    ($($story:ident),+ $(,)?) => {
        mod in_real_time {
            use super::{$($story),+};
            mod memory {
                use crate::stage::{LockKind, stories::{Tale, in_real_time}};
                $(#[test] fn $story() {
                    in_real_time(Tale::of(stringify!($story), LockKind::Plain), super::$story)
                })+
            }
            shared_stories!(Plain AmongOthers $($story)+);
        }
    };
}

macro_rules! stories_on_one_thread {
    ($($story:ident),+ $(,)?) => {
        mod on_one_thread {
            use super::{$($story),+};
            shared_stories!(Plain OnOneThread $($story)+);
        }
    };
}

macro_rules! stories_of_processes {
    (alone: $($story:ident),+ $(,)?) => {
        mod of_processes {
            use super::{$($story),+};
            shared_stories!(Plain Alone $($story)+);
        }
    };
    ($($story:ident),+ $(,)?) => {
        mod of_processes {
            use super::{$($story),+};
            shared_stories!(Plain AmongOthers $($story)+);
        }
    };
}

/// Every kind but the plain lock, each with the module of its tests.
macro_rules! of_each_kind {
    ($make:ident $($story:ident)+) => {
        $make!(fair Fair $($story)+);
        $make!(fenced Fenced $($story)+);
        $make!(spin Spin $($story)+);
        $make!(write Write $($story)+);
        $make!(multi Multi $($story)+);
        $make!(quorum Quorum $($story)+);
    };
}

/// Those, and the kinds for which paused time is enough: an erased lock is a plain lock underneath, a mixed one several of the
/// others; what a reader and a writer with an intent have on each engine, `tests/rw` shows.
macro_rules! of_each_kind_in_paused_time {
    ($($story:ident)+) => {
        of_each_kind!(paused_stories $($story)+);
        paused_stories!(read Read $($story)+);
        paused_stories!(preferred Preferred $($story)+);
        paused_stories!(mixed Mixed $($story)+);
        paused_stories!(erased Any $($story)+);
    };
}

macro_rules! paused_stories {
    ($module:ident $kind:ident $($story:ident)+) => {
        mod $module {
            use crate::stage::{LockKind, stories::{Tale, in_paused_time}};
            $(#[test] fn $story() {
                in_paused_time(Tale::of(stringify!($story), LockKind::$kind), super::$story)
            })+
        }
    };
}

macro_rules! stories_everywhere {
    ($module:ident $kind:ident $($story:ident)+) => {
        mod $module {
            use super::{$($story),+};
            shared_stories!($kind AmongOthers $($story)+);
        }
    };
}

/// The engines that processes can share.
macro_rules! shared_stories {
    ($kind:ident $company:ident $($story:ident)+) => {
        #[cfg(target_os = "linux")]
        mod file {
            use crate::stage::{LockKind, stories::{Company, Tale, on_file}};
            $(#[test] fn $story() {
                let tale = Tale::of(stringify!($story), LockKind::$kind);
                on_file(Company::$company, tale, super::$story)
            })+
        }
        shared_stories!(@ redis Redis $kind $company $($story)+);
        shared_stories!(@ valkey Valkey $kind $company $($story)+);
    };
    (@ $module:ident $server:ident $kind:ident $company:ident $($story:ident)+) => {
        mod $module {
            use crate::stage::{LockKind, stories::{Company, Tale, on}};
            $(#[test] fn $story() {
                let tale = Tale::of(stringify!($story), LockKind::$kind);
                on(Company::$company, testkit::Kind::$server, tale, super::$story)
            })+
        }
    };
}

/// Functions that take a [`Server`].
macro_rules! server_stories {
    ($($story:ident),+ $(,)?) => {
        mod on_redis {
            use crate::stage::stories::with_server;
            $(#[test] fn $story() { with_server(testkit::Kind::Redis, super::$story) })+
        }
        mod on_valkey {
            use crate::stage::stories::with_server;
            $(#[test] fn $story() { with_server(testkit::Kind::Valkey, super::$story) })+
        }
    };
}

/// Functions that take a [`Kind`] and start a server of their own.
macro_rules! on_each_server {
    (alone: $($story:ident),+ $(,)?) => { on_each_server!(@ Alone $($story)+); };
    ($($story:ident),+ $(,)?) => { on_each_server!(@ AmongOthers $($story)+); };
    (@ $company:ident $($story:ident)+) => {
        mod on_redis {
            use crate::stage::stories::{Company, of_kind};
            $(#[test] fn $story() { of_kind(Company::$company, testkit::Kind::Redis, super::$story) })+
        }
        mod on_valkey {
            use crate::stage::stories::{Company, of_kind};
            $(#[test] fn $story() { of_kind(Company::$company, testkit::Kind::Valkey, super::$story) })+
        }
    };
}

/// Which other stories may run at the same time, and with how many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Two threads for tasks, and other stories of this program.
    AmongOthers,
    /// No other story: some stories measure what the load of others would spoil.
    Alone,
    /// Other stories, and no other thread for tasks.
    OnOneThread,
}

impl Company {
    fn runtime(self) -> Runtime {
        match self {
            Company::AmongOthers | Company::Alone => threads(),
            Company::OnOneThread => one_thread(),
        }
    }
}

/// Only ends a story that would hang.
fn real_limit() -> Duration {
    Duration::from_secs(testkit::count(300, 3000).into())
}

const VIRTUAL_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);
/// After this and the limit, a story ends that hangs in such a way that its runtime cannot end it.
const LAST_LIMIT: Duration = Duration::from_secs(30);

/// A story by its name, and the kind of lock that it runs with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tale {
    name: &'static str,
    kind: LockKind,
}

impl Tale {
    pub(crate) fn of(name: &'static str, kind: LockKind) -> Self {
        Self { name, kind }
    }

    /// Whether it is true of that kind of lock. If not, says so.
    fn is_true(self) -> bool {
        let why = left_out::why(self.name, self.kind);
        if let Some(why) = why {
            eprintln!("LEFT OUT for the {}: {why}", self.kind);
        }
        why.is_none()
    }
}

pub(crate) fn in_paused_time(tale: Tale, story: impl AsyncFnOnce(&Stage) + Send + 'static) {
    if tale.is_true() {
        play(Company::AmongOthers, Time::Virtual, async move || {
            story(&Stage::memory(Time::Virtual, tale.kind)).await;
        });
    }
}

pub(crate) fn in_real_time(tale: Tale, story: impl AsyncFnOnce(&Stage) + Send + 'static) {
    if tale.is_true() {
        play(Company::AmongOthers, Time::Real, async move || {
            story(&Stage::memory(Time::Real, tale.kind)).await;
        });
    }
}

pub(crate) fn on_file(
    company: Company,
    tale: Tale,
    story: impl AsyncFnOnce(&Stage) + Send + 'static,
) {
    if tale.is_true() {
        play(company, Time::Real, async move || {
            story(&Stage::file(tale.kind)).await;
        });
    }
}

pub(crate) fn on(
    company: Company,
    server: Kind,
    tale: Tale,
    story: impl AsyncFnOnce(&Stage) + Send + 'static,
) {
    if tale.is_true() {
        of_kind(company, server, async move |server| {
            story(&Stage::on(server, tale.kind)).await;
        });
    }
}

pub(crate) fn with_server(kind: Kind, story: impl AsyncFnOnce(&Server) + Send + 'static) {
    of_kind(Company::AmongOthers, kind, async |kind| {
        story(&Server::start(kind)).await;
    });
}

pub(crate) fn of_kind(
    company: Company,
    kind: Kind,
    story: impl AsyncFnOnce(Kind) + Send + 'static,
) {
    if kind.is_here() {
        play(company, Time::Real, async move || story(kind).await);
    }
}

/// Two threads for tasks.
pub(crate) fn threads() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn paused() -> Runtime {
    let mut paused = Builder::new_current_thread();
    paused.enable_all().start_paused(true).build().unwrap()
}

fn play(company: Company, time: Time, story: impl AsyncFnOnce() + Send + 'static) {
    static QUIET: RwLock<()> = RwLock::new(());
    let (_shared, _alone);
    match company {
        Company::AmongOthers | Company::OnOneThread => {
            _shared = QUIET.read().unwrap_or_else(PoisonError::into_inner)
        }
        Company::Alone => _alone = QUIET.write().unwrap_or_else(PoisonError::into_inner),
    }
    causes::begin();
    testkit::within(real_limit() + LAST_LIMIT, "a story", move || {
        let (limit, runtime) = match time {
            Time::Virtual => (VIRTUAL_LIMIT, paused()),
            Time::Real => (real_limit(), company.runtime()),
        };
        let runtime = Left(Some(runtime));
        runtime.block_on(async {
            let ended = tokio::time::timeout(limit, story()).await;
            ended.expect("the story comes to its end");
        });
    });
}

/// A runtime whose drop does not wait for its threads, also when the story panics: one of them may hang.
struct Left(Option<Runtime>);

impl Left {
    fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(future)
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
