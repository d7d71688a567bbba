//! The real Redisson, in a JVM beside the test: the program in `interop/java`.
//!
//! A test with it reads like a dialogue. Every thread is a real Java thread, which lives on between two calls:
//!
//! ```text
//! let Some(java) = JavaPeer::here() else { return };
//! let client = java.open(&server);
//! let (a, b) = (client.thread("a").lock("orders"), client.thread("b").lock("orders"));
//!
//! a.lock().unwrap();
//! let waiting = b.begin_lock();
//! a.unlock().unwrap();
//! waiting.wait().unwrap();
//! ```
//!
//! A call that Java answers with an exception is an [`Exception`]. A JVM that is gone, or that does not answer
//! within [`LIMIT`](crate::LIMIT), ends the test, with what it printed on its error output.
//!
//! A Java method that has no Rust method here is used by [`call`](JavaObject::call):
//! `lock.call::<bool>("forceUnlock", json!([]))`.
//! Times in calls are numbers with a unit: `json!([500, MS])`.

mod answer;
mod client;
mod dialogue;
mod jar;
mod jdk;
mod object;
mod rounds;

pub use answer::{Answer, Exception, Pending};
pub use client::{JavaClient, JavaThread, Opening};
pub use jar::Redisson;
pub use object::{JavaLock, JavaObject, MS};
pub use rounds::{Looped, Place, Rounds};
/// Writes the arguments of a call.
pub use serde_json::json;

use crate::server::Server;
use dialogue::Dialogue;
use rustix::time::{ClockId, clock_gettime};
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How the JVM is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Jvm {
    /// Small, and quick to start: for tests.
    Quick,
    /// With every optimisation, once it is warm: for benchmarks.
    Full,
}

/// A running JVM with Redisson in it.
///
/// It ends when it is dropped, and when the test process ends in any way.
#[derive(Debug)]
pub struct JavaPeer {
    redisson: Redisson,
    dialogue: Arc<Dialogue>,
}

/// The clock of [`Answer::began`] and [`Answer::ended`], which all processes of the machine share.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::try_from(time).expect("the clock began at 0")
}

impl JavaPeer {
    /// The JVM with the newest Redisson that all tests of this process share; see [`JavaPeer::shared`].
    #[track_caller]
    pub fn here() -> Option<&'static Self> {
        Self::shared(Redisson::Newest)
    }

    /// The JVM with this Redisson that all tests of this process share, started at the first call.
    ///
    /// `None` where there is no Java; reports that, or panics, as [`Redisson::is_here`] does.
    #[track_caller]
    pub fn shared(redisson: Redisson) -> Option<&'static Self> {
        static NEWEST: OnceLock<JavaPeer> = OnceLock::new();
        static OLDEST: OnceLock<JavaPeer> = OnceLock::new();
        let peer = match redisson {
            Redisson::Newest => &NEWEST,
            Redisson::Oldest => &OLDEST,
        };
        let jar = redisson.jar_here()?;
        Some(peer.get_or_init(|| Self::launch(redisson, jar, Jvm::Quick)))
    }

    /// A JVM for this test only, to be stopped, killed or measured; `None` as for [`JavaPeer::shared`].
    #[track_caller]
    pub fn start(redisson: Redisson, jvm: Jvm) -> Option<Self> {
        let jar = redisson.jar_here()?;
        Some(Self::launch(redisson, jar, jvm))
    }

    #[track_caller]
    fn launch(redisson: Redisson, jar: &std::path::Path, jvm: Jvm) -> Self {
        Self {
            redisson,
            dialogue: Arc::new(Dialogue::begin(jar, jvm)),
        }
    }

    /// Which Redisson it runs.
    pub fn redisson(&self) -> Redisson {
        self.redisson
    }

    /// Opens a client of a server, with Redisson's usual watchdog time and few threads and connections.
    #[track_caller]
    pub fn open(&self, server: &Server) -> JavaClient {
        self.client(&server.url()).open()
    }

    /// A client with settings, of the server at `url`.
    pub fn client(&self, url: &str) -> Opening {
        Opening::new(Arc::clone(&self.dialogue), url)
    }

    /// The process id of the JVM.
    pub fn pid(&self) -> u32 {
        self.dialogue.pid()
    }

    /// Lets the JVM halt at once, without any clean-up, and returns when it is gone.
    #[track_caller]
    pub fn halt(&self) -> ExitStatus {
        drop(self.dialogue.ask::<()>("halt", json!({})));
        self.dialogue.wait_for_end()
    }

    /// Kills the JVM as `kill -9` does, and returns when it is gone.
    #[track_caller]
    pub fn kill(&self) -> ExitStatus {
        self.dialogue.kill();
        self.dialogue.wait_for_end()
    }

    /// Stops the JVM as `SIGSTOP` does, and returns when it is stopped.
    pub fn stop_signal(&self) {
        self.dialogue.stop();
    }

    /// Lets a stopped JVM continue.
    pub fn cont_signal(&self) {
        self.dialogue.cont();
    }
}

impl Drop for JavaPeer {
    fn drop(&mut self) {
        self.dialogue.kill();
    }
}
