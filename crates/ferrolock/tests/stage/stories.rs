//! One test per engine for each story.
//!
//! A story is an `async fn` over a [`Stage`]. The macro under which it is listed says where it runs:
//!
//! | macro | engines |
//! |---|---|
//! | `stories!` | `memory:` in paused time; `file:`, Redis, Valkey |
//! | `stories_in_real_time!` | `memory:` in real time, because threads compute or runtimes end; `file:`, Redis, Valkey |
//! | `stories_on_one_thread!` | `file:`, Redis, Valkey, on a runtime with one thread: a future's polls are the same each time |
//! | `stories_of_processes!` | `file:`, Redis, Valkey: what several processes share |
//! | `server_stories!`, `on_each_server!` | Redis, Valkey: what needs a network, or a look that only a server allows |

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use testkit::{Kind, Server};
use tokio::runtime::{Builder, Runtime};

use super::{Stage, Time};

macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod memory {
            $(#[test] fn $story() { crate::stage::stories::in_paused_time(super::$story) })+
        }
        shared_stories!(AmongOthers $($story)+);
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

/// Who else may run meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// Two threads for tasks, and other stories of this program.
    AmongOthers,
    /// No other story: some measure what others' load would spoil.
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

pub(crate) fn in_paused_time(story: impl AsyncFnOnce(&Stage)) {
    let mut paused = Builder::new_current_thread();
    let runtime = paused.enable_all().start_paused(true).build().unwrap();
    let stage = Stage::memory(Time::Virtual);
    play(Company::AmongOthers, runtime, VIRTUAL_LIMIT, story(&stage));
}

pub(crate) fn in_real_time(story: impl AsyncFnOnce(&Stage)) {
    let stage = Stage::memory(Time::Real);
    play(Company::AmongOthers, threads(), REAL_LIMIT, story(&stage));
}

pub(crate) fn on_file(company: Company, story: impl AsyncFnOnce(&Stage)) {
    let stage = Stage::file();
    play(company, company.runtime(), REAL_LIMIT, story(&stage));
}

pub(crate) fn on(company: Company, kind: Kind, story: impl AsyncFnOnce(&Stage)) {
    if kind.is_here() {
        let stage = Stage::on(kind);
        play(company, company.runtime(), REAL_LIMIT, story(&stage));
    }
}

pub(crate) fn with_server(kind: Kind, story: impl AsyncFnOnce(&Server)) {
    if kind.is_here() {
        let server = Server::start(kind);
        play(Company::AmongOthers, threads(), REAL_LIMIT, story(&server));
    }
}

pub(crate) fn of_kind(company: Company, kind: Kind, story: impl AsyncFnOnce(Kind)) {
    if kind.is_here() {
        play(company, company.runtime(), REAL_LIMIT, story(kind));
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

fn play(company: Company, runtime: Runtime, limit: Duration, story: impl Future<Output = ()>) {
    static QUIET: RwLock<()> = RwLock::new(());
    let (_shared, _alone);
    match company {
        Company::AmongOthers | Company::OnOneThread => {
            _shared = QUIET.read().unwrap_or_else(PoisonError::into_inner)
        }
        Company::Alone => _alone = QUIET.write().unwrap_or_else(PoisonError::into_inner),
    }
    runtime.block_on(async {
        let ended = tokio::time::timeout(limit, story).await;
        ended.expect("the story comes to its end");
    });
    runtime.shutdown_background();
}
