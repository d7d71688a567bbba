//! What the log says of a link: once per change, however often it tries.

use std::time::Duration;

use super::super::trouble::{Class, Trouble};
use crate::figures;

/// After a connection that lived this long, the next trouble is logged as a new one.
const STORY_OVER: Duration = Duration::from_secs(30);

/// What was logged so far.
#[derive(Debug, Default)]
pub(in super::super) struct Report {
    told: Option<Class>,
    told_up: bool,
}

impl Report {
    pub(in super::super) fn up(&mut self, address: &str, role: &str) {
        figures::connected();
        if self.note_up() {
            tracing::info!(address, role, "connected again");
        } else {
            tracing::debug!(address, role, "connected");
        }
    }

    /// A connection has lived for a while.
    pub(in super::super) fn lived(&mut self, time: Duration) {
        if time >= STORY_OVER {
            *self = Report::default();
        }
    }

    pub(in super::super) fn down(&mut self, address: &str, role: &str, trouble: &Trouble) {
        let (class, failure) = (trouble.class, &trouble.failure);
        figures::connection_failed(class.as_str());
        if self.note_down(class) {
            tracing::warn!(address, role, %class, "no connection: {failure}");
        } else {
            tracing::debug!(address, role, %class, "still no connection: {failure}");
        }
    }

    /// Whether it is news that there is a connection.
    fn note_up(&mut self) -> bool {
        self.told.is_some() && !std::mem::replace(&mut self.told_up, true)
    }

    /// Whether it is news that there is none, for that reason.
    fn note_down(&mut self, class: Class) -> bool {
        let news = self.told != Some(class);
        if news {
            self.told = Some(class);
            self.told_up = false;
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_is_logged_once_however_often_it_comes() {
        let mut report = Report::default();

        assert!(!report.note_up());
        assert!(report.note_down(Class::Refused));
        assert!(!report.note_down(Class::Refused));
        assert!(report.note_down(Class::Password));
        assert!(report.note_up());
        assert!(!report.note_up());
    }

    #[test]
    fn a_flapping_connection_is_logged_once_until_one_lived_long() {
        let mut report = Report::default();
        assert!(report.note_down(Class::Other) && report.note_up());

        report.lived(Duration::from_secs(1));
        assert!(!report.note_down(Class::Other) && !report.note_up());

        report.lived(STORY_OVER);
        assert!(report.note_down(Class::Other) && report.note_up());
    }
}
