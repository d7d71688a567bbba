//! Random calls of the scripts of the read-write lock.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Call, Source, words_of};
use crate::protocol::rw_lock::{ReadScheme, WriteScheme};
use crate::protocol::scheme::{Ask, Bearer, Mode, Scheme};
use crate::protocol::{lock, renewal};

impl Source {
    /// A call of a script of a read-write lock.
    pub(super) fn rw_script(&mut self) -> Call {
        let tenure: Arc<str> = self.pick(&["a:1", "a:2", "b:1"]).into();
        let beside: Arc<str> = self.pick(&["a:1:write", "b:1:write"]).into();
        let who = self.random.bool();
        let who = who.then(|| lock::write_details(42, "host", "label"));
        let lease = match self.below(4) {
            0 => self.below(50),
            _ => self.below(60_000),
        };
        let lease = Duration::from_millis(if lease < 16 { 0 } else { lease });
        let (count, prefers) = (self.random.u32(0..4), self.random.bool());
        let bearer = |field| Bearer {
            field,
            who: who.clone(),
        };
        let name = || Arc::from("rw1");
        let keys: Box<dyn Scheme> = match self.random.u8(..7) {
            0..=2 => Box::new(ReadScheme::new(name(), prefers)),
            3..=5 => Box::new(WriteScheme::new(name(), prefers)),
            _ => Box::new(ReadScheme::instead_of(name(), bearer(beside.clone()))),
        };
        let bearer = bearer(keys.field(&tenure));
        let ask = Ask {
            mode: [Mode::Once, Mode::Waits][self.random.usize(..2)],
            beside: Some(&beside),
            ..Ask::once(&bearer, lease)
        };
        words_of(&match self.random.u8(..18) {
            0..=5 => keys.acquire(&ask),
            6..=7 => keys.reenter(&bearer, lease, count),
            8..=10 => keys.release(&bearer, count, lease),
            11 => renewal::batch(&[keys.renew(&bearer, lease)]).unwrap(),
            12 => keys.delay_release(&bearer, lease),
            13..=15 => keys.abandon(&bearer),
            16 => keys.force_unlock(),
            _ => keys.inspect(),
        })
    }
}
