//! Clients over engines that lie, for the tests of this module; in paused time, and none hangs for ever.

use std::sync::Arc;
use std::time::Duration;

use crate::Client;
use crate::coordination::Core;
use crate::engine::Engine;
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::testing::lying::Lying;

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(30 * 24 * 3600);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A client, the engine under it, which lies when a test orders it, and the client's core.
pub(crate) fn insider() -> (Client, Arc<Lying>, Arc<Core>) {
    insider_with(Settings::default())
}

pub(crate) fn insider_with(settings: Settings) -> (Client, Arc<Lying>, Arc<Core>) {
    let engine = Lying::over_memory(MemoryEngine::open(None));
    let core = core(engine.clone(), settings);
    (Client::of(core.clone()), engine, core)
}

/// The same without the core.
pub(crate) fn liar() -> (Client, Arc<Lying>) {
    let (client, engine, _) = insider();
    (client, engine)
}

/// Two clients of one space. The engine of the first lies when a test orders it; the second stands for another process.
pub(crate) struct Pair {
    pub(crate) lying: Arc<Lying>,
    pub(crate) us: Client,
    pub(crate) them: Client,
}

pub(crate) fn pair(space: &str) -> Pair {
    pair_with(space, Settings::default())
}

/// The same, with settings for our client.
pub(crate) fn pair_with(space: &str, settings: Settings) -> Pair {
    let memory = || MemoryEngine::open(Some(space));
    let lying = Lying::over_memory(memory());
    Pair {
        us: Client::of(core(lying.clone(), settings)),
        them: Client::of(core(memory(), Settings::default())),
        lying,
    }
}

/// A core whose calls all fail after a month: a test that waits for what never comes fails then, and does not hang.
pub(crate) fn core(engine: Arc<dyn Engine>, settings: Settings) -> Arc<Core> {
    let core = Core::new(engine, settings, None);
    let watched = Arc::downgrade(&core);
    tokio::spawn(async move {
        tokio::time::sleep(LIMIT).await;
        if let Some(core) = watched.upgrade() {
            core.begin_closing();
        }
        tokio::time::sleep(LIMIT).await;
        // The test waits for something else than a call.
        std::process::abort();
    });
    core
}
