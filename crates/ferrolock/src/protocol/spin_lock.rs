//! The spin lock: the plain lock without messages. Its waiters attempt by the clock alone.

use std::sync::Arc;
use std::time::Duration;

use smallvec::smallvec;

use super::call::{Call, Script, script};
use super::lock::PlainScheme;
use super::pace::Pace;
use super::scheme::{Bearer, Line, Scheme, Subject, Waiting};

static RELEASE: Script = script!("spin_lock/release", Release, "lock/set_count");
static FORCE_UNLOCK: Script = script!("spin_lock/force_unlock", Ask);

/// Every script of this file: a connection makes them known to its server.
pub(super) static SCRIPTS: [&Script; 2] = [&RELEASE, &FORCE_UNLOCK];

#[derive(Debug)]
pub(crate) struct SpinScheme {
    subject: Subject,
    waiting: Waiting,
    plain: PlainScheme,
}

impl SpinScheme {
    /// As Redisson's, with less chance.
    pub(crate) const PACE: Pace = Pace::Doubled {
        first: Duration::from_millis(1),
        most: Duration::from_millis(128),
    };

    pub(crate) fn new(name: Arc<str>, pace: Pace) -> Self {
        let line = Line::Spin;
        Self {
            plain: PlainScheme::new(name.clone()),
            waiting: Waiting {
                channel: None,
                pace,
                has_places: false,
                place_lasts: None,
                is_courteous: false,
                is_shared: false,
            },
            subject: Subject::new(name, line),
        }
    }
}

impl Scheme for SpinScheme {
    fn subject(&self) -> &Subject {
        &self.subject
    }

    fn plain(&self) -> &PlainScheme {
        &self.plain
    }

    fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        let keys = &self.plain.keys;
        let used = smallvec![keys.lock.clone()];
        keys.release(&RELEASE, used, bearer, left, need)
    }

    fn force_unlock(&self) -> Call {
        let keys = &self.plain.keys;
        Call::of(
            &FORCE_UNLOCK,
            smallvec![keys.lock.clone(), keys.details.clone()],
        )
    }
}
