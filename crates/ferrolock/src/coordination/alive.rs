//! What keeps a client alive.

use std::sync::Arc;

use super::Core;

/// What every handle and guard of a client holds; with the last one the client ends.
#[derive(Debug)]
pub(crate) struct Alive {
    pub(crate) core: Arc<Core>,
}

impl Alive {
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        Arc::new(Self { core })
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.core.last_handle_gone();
    }
}
