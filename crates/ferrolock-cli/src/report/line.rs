//! Describes holders in words.

use std::time::Duration;

use ferrolock::{Holder, Remaining};
use rustix::stdio;
use rustix::termios::tcgetwinsize;

/// The columns that are assumed where the terminal does not tell its own.
const WIDTH: usize = 80;

/// The columns of the terminal.
pub(super) fn width() -> usize {
    match tcgetwinsize(stdio::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => WIDTH,
    }
}

/// The status while waiting, cut so that it stays one line.
pub(super) fn status(name: &str, holders: Option<&[Holder]>, width: usize) -> String {
    let who = holders.map(describe);
    let who = who.unwrap_or_else(|| "no answer about its holder".to_owned());
    let text = format!("waiting for {name:?}: {who}");
    if text.chars().count() < width {
        return text;
    }
    let kept = text.chars().take(width.saturating_sub(2));
    kept.chain(['…']).collect()
}

/// Who holds the lock, for how long, and how long the lease lasts if it is not renewed.
pub(crate) fn describe(holders: &[Holder]) -> String {
    match holders {
        [] => "it is just changing hands".to_owned(),
        [holder] => describe_one(holder),
        [holder, others @ ..] => format!("{} and {} more", describe_one(holder), others.len()),
    }
}

fn describe_one(holder: &Holder) -> String {
    let who = holder.label.as_deref().map(clean);
    let who = who.unwrap_or_else(|| holder.owner.to_string());
    let place = match (&holder.host, holder.pid) {
        (Some(host), Some(pid)) => format!(" on {} (process {pid})", clean(host)),
        (Some(host), None) => format!(" on {}", clean(host)),
        (None, Some(pid)) => format!(" (process {pid})"),
        (None, None) => String::new(),
    };
    let since = match holder.held_for {
        Some(time) => format!(" for {}", seconds(time)),
        None => String::new(),
    };
    let lease = match holder.remaining {
        Remaining::Left(left) => format!(", its lease runs {} more", seconds(left)),
        Remaining::NoExpiry => ", without end".to_owned(),
        _ => String::new(),
    };
    format!("held by {who}{place}{since}{lease}")
}

/// Removes control characters: labels and host names of other clients must not steer the terminal.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn seconds(time: Duration) -> String {
    humantime::format_duration(Duration::from_secs(time.as_secs())).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolock::Client;

    #[tokio::test(start_paused = true)]
    async fn a_holder_is_described_by_its_label_and_times() {
        let client = Client::memory();
        let lock = client.lock("x").label("report");
        let _guard = lock.lock().await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;

        let text = describe(&lock.holders().await.unwrap());

        assert!(text.starts_with("held by report on "), "{text}");
        assert!(text.contains("for 5s, its lease runs 2"), "{text}");
    }

    #[test]
    fn a_status_is_cut_to_one_line() {
        let text = status("nightly", Some(&[]), 20);

        assert_eq!(text, "waiting for \"night…");
        assert!(status("nightly", Some(&[]), 80).ends_with("hands"));
        assert!(status("nightly", None, 80).ends_with("no answer about its holder"));
    }

    #[test]
    fn control_characters_of_other_clients_do_not_reach_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\r"), "a[2Jb");
    }
}
