//! The owner of an acquisition.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::error::{Error, Result};

tokio::task_local! {
    static CURRENT: Owner;
}

/// An owner in this process that acquires locks, and may enter again a lock that it holds.
///
/// Without one, every acquisition has a new owner, so two tasks never share a lock by accident. An owner is a value:
/// clone it, send it, store it; clones are the same owner. It is not tied to a client.
///
/// Two tasks with one owner hold a lock both at once: make one per piece of work, never one for a whole service.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::{Client, Owner};
///
/// let client = Client::memory();
/// let owner = Owner::new();
///
/// let outer = client.lock("x").owned_by(&owner).lock().await?;
/// let inner = client.lock("x").owned_by(&owner).lock().await?; // enters again
///
/// assert_eq!(inner.hold_count(), 2);
/// # drop(outer); Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner(u64);

impl Owner {
    /// A new owner, unique in this process.
    #[expect(
        clippy::new_without_default,
        reason = "a default owner would not be anybody in particular"
    )]
    pub fn new() -> Owner {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The owner of the scope that this task is in; to carry it into a spawned task.
    pub fn current() -> Option<Owner> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Makes all acquisitions inside `work` this owner's.
    ///
    /// A scope does not reach into tasks that `work` spawns: give them a scope of their own.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
    /// use ferrolock::{Client, Owner};
    ///
    /// let client = Client::memory();
    /// Owner::new()
    ///     .scope(async {
    ///         let _outer = client.lock("x").lock().await?;
    ///         let _inner = client.lock("x").lock().await?; // the same owner
    ///         Ok(())
    ///     })
    ///     .await
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), work)
    }
}

/// What a server shows of a holder: the client's id and a number, `uuid:number`.
///
/// For looking only. A client takes a new number each time an owner goes from no hold to one on a name, and never
/// takes one twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnerId {
    text: Arc<str>,
    colon: usize,
    number: u64,
}

impl OwnerId {
    pub(crate) fn new(client: &str, number: u64) -> OwnerId {
        // One is made for every lock, so it is written on the stack and by hand: with `write!` it was 4 % of the instructions
        // that a client spends on a pair.
        let mut text = SmallVec::<[u8; 64]>::from_slice(client.as_bytes());
        text.push(b':');
        let begin = text.len();
        let mut rest = number;
        loop {
            text.push(b'0' + (rest % 10) as u8);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if let Some(digits) = text.get_mut(begin..) {
            digits.reverse();
        }
        OwnerId {
            text: std::str::from_utf8(&text).unwrap_or_default().into(),
            colon: client.len(),
            number,
        }
    }

    /// The whole text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The id of the client.
    pub fn client(&self) -> &str {
        self.text.get(..self.colon).unwrap_or_default()
    }

    /// The number behind it; a thread's id for a Java client.
    pub fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn as_arc(&self) -> &Arc<str> {
        &self.text
    }
}

impl FromStr for OwnerId {
    type Err = Error;

    fn from_str(text: &str) -> Result<OwnerId> {
        let parsed = text
            .rsplit_once(':')
            .and_then(|(client, number)| Some((client.len(), number.parse().ok()?)));
        match parsed {
            Some((colon, number)) if colon > 0 => Ok(OwnerId {
                text: text.into(),
                colon,
                number,
            }),
            _ => Err(Error::invalid(format!(
                "{text:?} is no owner id: it must be a client id, a colon and a number"
            ))),
        }
    }
}

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_id_is_read_as_it_is_shown() {
        let id = OwnerId::new("8743c9c0-0795-8907-87fd-6c719a6b4586", 42);

        let read: OwnerId = id.to_string().parse().unwrap();

        assert_eq!(read, id);
        assert_eq!(
            (read.client(), read.number()),
            ("8743c9c0-0795-8907-87fd-6c719a6b4586", 42)
        );
        assert!("orders".parse::<OwnerId>().is_err());
        assert!(":1".parse::<OwnerId>().is_err());
        assert!("a:b".parse::<OwnerId>().is_err());
    }

    #[tokio::test]
    async fn a_scope_ends_with_its_work() {
        let owner = Owner::new();

        assert_eq!(owner.scope(async { Owner::current() }).await, Some(owner));
        assert_eq!(Owner::current(), None);
    }
}
