//! Grants that come too late, one after the other.

use std::time::Duration;

use crate::engine::Tick;

/// Grants of one call in a row that came too late; they count like no answer.
#[derive(Debug, Default)]
pub(super) struct LateGrants {
    /// When the first of them was asked for, and when the last came.
    row: Option<(Tick, Tick)>,
}

impl LateGrants {
    /// Another one, asked for at `sent`, came at `now`. Returns until when the call goes on, with that patience for the row.
    pub(super) fn another(&mut self, sent: Tick, now: Tick, patience: Duration) -> Tick {
        let first = match self.row {
            Some((first, last)) if sent < last.after(patience) => first,
            _ => sent,
        };
        self.row = Some((first, now));
        first.after(patience)
    }
}
