//! Random calls of the scripts that multi locks and quorum locks add to those of their members.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{Call, Source, words_of};
use crate::protocol::call::Form;
use crate::protocol::fenced_lock::{FencedScheme, initialise, raise};
use crate::protocol::lock::{self, PlainScheme};
use crate::protocol::multi_lock;
use crate::protocol::scheme::{Ask, Bearer, Scheme};

/// Older than any data that are not initialised, and younger than those that are.
const AGE: Duration = Duration::from_secs(1_000_000_000);

impl Source {
    pub(super) fn bundle_script(&mut self) -> Call {
        let field: Arc<str> = self.pick(&["a:1", "a:2", "b:1"]).into();
        let who = self.random.bool();
        let who = who.then(|| lock::write_details(42, "host", "label"));
        let bearer = Bearer { field, who };
        let lease = Duration::from_millis(self.random.u64(16..60_000));
        // Larger than any time in microseconds, which is not the same on all sides.
        let fence = (1 << 52) + self.random.u64(..5);
        let name: Arc<str> = self.pick(&["lock1", "lock2"]).into();
        words_of(&match self.random.u8(..11) {
            0..=1 => raise(&name, &bearer, fence),
            2 => initialise(""),
            3..=4 => {
                let age = if self.random.bool() {
                    AGE
                } else {
                    Duration::ZERO
                };
                FencedScheme::on_node(name, "", age).acquire(&Ask {
                    fence_floor: fence,
                    ..Ask::once(&bearer, lease)
                })
            }
            5..=7 => {
                let rows = ["lock1", "lock2"].map(|name| {
                    let scheme = PlainScheme::new(name.into());
                    scheme.release_row(&bearer).unwrap()
                });
                multi_lock::release(&rows)
            }
            _ => {
                let rows = ["lock1", "lock2"].map(|name| {
                    let scheme: Box<dyn Scheme> = match self.random.bool() {
                        true => Box::new(PlainScheme::new(name.into())),
                        false => Box::new(FencedScheme::new(name.into())),
                    };
                    scheme.group_row(&bearer, lease).unwrap()
                });
                multi_lock::acquire(&rows, fence, Form::default())
            }
        })
    }
}
