//! One test per engine for each story.
//!
//! A story is an `async fn` over a [`Stage`]. The macro under which it is listed says where it runs:
//!
//! | macro | engines |
//! |---|---|
//! | `stories!` | `memory:` in paused time; `file:`, Redis, Valkey |
//! | `stories_in_paused_time!` | `memory:` in paused time: what needs exact time |
//! | `stories_in_real_time!` | `memory:` in real time, because threads compute or runtimes end; `file:`, Redis, Valkey |
//! | `stories_on_one_thread!` | `file:`, Redis, Valkey, on a runtime with one thread: a future's polls are the same each time |
//! | `stories_of_processes!` | `file:`, Redis, Valkey: what several processes share |
//! | `server_stories!`, `on_each_server!` | Redis, Valkey: what needs a network, or a view that only a server gives |

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use testkit::{Kind, Server};
use tokio::runtime::{Builder, Runtime};

use super::{Stage, Time, causes};

macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod memory {
            $(#[test] fn $story() { crate::stage::stories::in_paused_time(super::$story) })+
        }
        shared_stories!(AmongOthers $($story)+);
    };
}

/// Stories that need exact time.
macro_rules! stories_in_paused_time {
    ($($story:ident),+ $(,)?) => {
        mod in_paused_time {
            $(#[test] fn $story() { crate::stage::stories::in_paused_time(super::$story) })+
        }
    };
}

macro_rules! stories_in_real_time {
    ($($story:ident),+ $(,)?) => {
        mod in_real_time {
            use super::{$($story),+};
            mod memory {
                $(#[test] fn $story() { crate::stage::stories::in_real_time(super::$story) })+
            }
            shared_stories!(AmongOthers $($story)+);
        }
    };
}

macro_rules! stories_on_one_thread {
    ($($story:ident),+ $(,)?) => {
        mod on_one_thread {
            use super::{$($story),+};
            shared_stories!(OnOneThread $($story)+);
        }
    };
}

macro_rules! stories_of_processes {
    (alone: $($story:ident),+ $(,)?) => {
        mod of_processes {
            use super::{$($story),+};
            shared_stories!(Alone $($story)+);
        }
    };
    ($($story:ident),+ $(,)?) => {
        mod of_processes {
            use super::{$($story),+};
            shared_stories!(AmongOthers $($story)+);
        }
    };
}

/// The engines that processes can share.
macro_rules! shared_stories {
    ($company:ident $($story:ident)+) => {
        #[cfg(target_os = "linux")]
        mod file {
            use crate::stage::stories::{Company, on_file};
            $(#[test] fn $story() { on_file(Company::$company, super::$story) })+
        }
        mod redis {
            use crate::stage::stories::{Company, on};
            $(#[test] fn $story() { on(Company::$company, testkit::Kind::Redis, super::$story) })+
        }
        mod valkey {
            use crate::stage::stories::{Company, on};
            $(#[test] fn $story() { on(Company::$company, testkit::Kind::Valkey, super::$story) })+
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
const REAL_LIMIT: Duration = Duration::from_secs(300);
const VIRTUAL_LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);
/// Only ends a story that hangs in such a way that its runtime cannot end it.
const LAST_LIMIT: Duration = Duration::from_secs(330);

pub(crate) fn in_paused_time(story: impl AsyncFnOnce(&Stage) + Send + 'static) {
    play(Company::AmongOthers, Time::Virtual, async || {
        story(&Stage::memory(Time::Virtual)).await;
    });
}

pub(crate) fn in_real_time(story: impl AsyncFnOnce(&Stage) + Send + 'static) {
    play(Company::AmongOthers, Time::Real, async || {
        story(&Stage::memory(Time::Real)).await;
    });
}

pub(crate) fn on_file(company: Company, story: impl AsyncFnOnce(&Stage) + Send + 'static) {
    play(company, Time::Real, async || story(&Stage::file()).await);
}

pub(crate) fn on(company: Company, kind: Kind, story: impl AsyncFnOnce(&Stage) + Send + 'static) {
    of_kind(company, kind, async |kind| story(&Stage::on(kind)).await);
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
    testkit::within(LAST_LIMIT, "a story", move || {
        let (limit, runtime) = match time {
            Time::Virtual => (VIRTUAL_LIMIT, paused()),
            Time::Real => (REAL_LIMIT, company.runtime()),
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
