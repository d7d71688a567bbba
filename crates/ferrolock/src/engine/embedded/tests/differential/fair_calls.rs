//! Random calls of the scripts of the fair lock.

use std::time::Duration;

use super::calls::{Call, Source, words_of};
use crate::protocol::fair_lock::{FairScheme, FairTimes};
use crate::protocol::lock;
use crate::protocol::scheme::{Ask, Bearer, Mode, Scheme};

impl Source {
    /// A call of a script of the fair lock. No time that it compares is near another: clients live for more than an hour.
    pub(super) fn fair_script(&mut self) -> Call {
        const CLIENTS: [&str; 3] = [
            "aaaaaaaa-aaaa-8aaa-aaaa-aaaaaaaaaaaa:1",
            "bbbbbbbb-bbbb-8bbb-bbbb-bbbbbbbbbbbb:1",
            "cccccccc-cccc-4ccc-cccc-cccccccccccc:1",
        ];
        let times = FairTimes {
            dead: Duration::from_secs(5_000),
            ..FairTimes::default()
        };
        let scheme = FairScheme::new("lock1".into(), &CLIENTS[0][..36], times);
        let field = self.pick(&CLIENTS).into();
        let who = self.random.bool();
        let who = who.then(|| lock::write_details(42, "host", "label"));
        let bearer = Bearer { field, who };
        let lease = Duration::from_millis(1_000 + self.below(60_000));
        let ask = Ask {
            mode: [Mode::Once, Mode::Waits, Mode::Looks][self.random.usize(..3)],
            // Before all that came meanwhile, or behind them.
            place: [None, Some(1), Some(1 << 52)][self.random.usize(..3)],
            is_front: self.random.bool(),
            ..Ask::once(&bearer, lease)
        };
        let count = self.random.u32(0..3);
        words_of(&match self.random.u8(..8) {
            0..=4 => scheme.acquire(&ask),
            5 => scheme.release(&bearer, count, lease),
            6 => scheme.abandon(&bearer),
            _ => scheme.force_unlock(),
        })
    }
}
