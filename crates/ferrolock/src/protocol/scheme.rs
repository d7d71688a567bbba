//! What the machinery asks of a kind of lock.
//!
//! One object per handle, without I/O and clock. The machinery (who waits, who holds, who renews) never knows kinds: it
//! asks the scheme for calls, has it read their replies, and takes how a kind waits as data.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::call::{Arg, Call, Role, Value};
use super::fair_lock::FairScheme;
use super::fenced_lock::FencedScheme;
use super::lock::PlainScheme;
use super::multi_lock::{GroupRow, ReleaseRow};
use super::pace::Pace;
use super::renewal::Row;
use super::rw_lock::ReadScheme;
#[cfg(test)]
use super::several::Several;
use super::spin_lock::SpinScheme;

/// One kind of lock on one name.
pub(crate) trait Scheme: fmt::Debug + Send + Sync + 'static {
    /// Its key in the table of names.
    fn subject(&self) -> &Subject;

    /// The lines whose attempts wait while a release of this one is not answered: such an attempt could find our own hold.
    fn barred(&self) -> Lines {
        Lines::OWN
    }

    fn waiting(&self) -> &Waiting;

    /// The field of a tenure with that id.
    fn field(&self, tenure: &Arc<str>) -> Arc<str> {
        tenure.clone()
    }

    /// Its callers let others go first that the rest of its line does not mind.
    fn yields(&self) -> bool {
        false
    }

    /// The other line of the same name, where a kind has two.
    fn sibling(&self) -> Option<&Sibling> {
        None
    }

    /// Which waiters a message is for.
    fn hears(&self, _payload: &[u8]) -> Wake {
        Wake::Front
    }

    /// Another channel on which the first of this client's waiters has to be told, while waiters of other libraries are in
    /// its queue.
    fn own_channel(&self, _bearer: &Bearer) -> Option<Arc<str>> {
        None
    }

    /// What a kind does not do in its own way, it does as the plain lock on its name.
    fn plain(&self) -> &PlainScheme;

    /// Takes it, or says that it is busy. A kind with places is asked again under the same field: if an earlier attempt took
    /// it, and its answer was lost, the lease begins anew.
    fn acquire(&self, ask: &Ask<'_>) -> Call {
        self.plain().acquire(ask)
    }

    fn read_acquire(&self, reply: Value) -> Result<AttemptReply, BadReply> {
        self.plain().read_acquire(reply)
    }

    /// Its row of an acquire of several names in one call; `None`: it is acquired by itself only.
    fn group_row(&self, _bearer: &Bearer, _lease: Duration) -> Option<GroupRow> {
        None
    }

    /// Its row of a release of several names in one call, which leaves nothing; `None`: it is released by itself only.
    fn release_row(&self, _bearer: &Bearer) -> Option<ReleaseRow> {
        None
    }

    /// One more hold of a tenure that the server has; leaves that count.
    fn reenter(&self, bearer: &Bearer, lease: Duration, count: u32) -> Call {
        self.plain().reenter(bearer, lease, count)
    }

    /// Leaves that many holds of a tenure, which need that much time.
    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Call {
        self.plain().release(bearer, left, need)
    }

    /// The longest time between two renewals of a hold, where clients of another library cut leases of ours. A hold with a
    /// fixed lease is renewed for [`NO_LONGER`] then, which restores what it has.
    fn renewed_within(&self) -> Option<Duration> {
        None
    }

    /// A row of a batch: see [`renewal`](super::renewal). `lease` zero only asks.
    fn renew(&self, bearer: &Bearer, lease: Duration) -> Row {
        self.plain().renew(bearer, lease)
    }

    /// Ends the last hold of a tenure; the name stays taken for `stay`.
    fn delay_release(&self, bearer: &Bearer, stay: Duration) -> Call {
        self.plain().delay_release(bearer, stay)
    }

    /// The keys that have fields of holders and waiters, for an engine that frees those of dead processes.
    fn searched(&self) -> SmallVec<[Arc<str>; 1]> {
        smallvec![self.subject().name.clone()]
    }

    /// Releases the field, with its hold or its place in a queue, for a caller or a process that has gone.
    fn abandon(&self, bearer: &Bearer) -> Call {
        self.release(bearer, 0, Duration::ZERO)
    }

    fn inspect(&self) -> Call {
        self.plain().inspect()
    }

    /// The rest of the lease (`None`: free) and the holders.
    fn read_inspect(&self, reply: Value) -> Result<(Option<Rest>, Vec<Seen>), BadReply> {
        self.plain().read_inspect(reply)
    }

    fn force_unlock(&self) -> Call {
        self.plain().force_unlock()
    }
}

impl dyn Scheme {
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.subject().name
    }
}

/// A lease that makes no hold longer.
pub(crate) const NO_LONGER: Duration = Duration::from_millis(1);

/// Lines of one name: a scheme's own, and that of its sibling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) own: bool,
    pub(crate) sibling: bool,
}

impl Lines {
    pub(crate) const NONE: Self = Self::new(false, false);
    pub(crate) const OWN: Self = Self::new(true, false);
    pub(crate) const SIBLING: Self = Self::new(false, true);
    pub(crate) const BOTH: Self = Self::new(true, true);

    const fn new(own: bool, sibling: bool) -> Self {
        Self { own, sibling }
    }
}

/// A kind on a name: each has its own line, its own re-entry and its own guards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Computed once: an acquire and its release look six times into the table of names.
    hash: u64,
    pub(crate) line: Line,
    pub(crate) name: Arc<str>,
}

impl Subject {
    pub(crate) fn new(name: Arc<str>, line: Line) -> Self {
        // Random in each process: names come from users, who must not choose which of them collide.
        static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self {
            hash: KEYS.hash_one((&name, line)),
            line,
            name,
        }
    }
}

impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    Lock,
    Fair,
    Fenced,
    Spin,
    Read,
    Write,
    #[cfg(test)]
    Several,
}

/// A line whose holders are in the way of another's.
#[derive(Debug)]
pub(crate) struct Sibling {
    pub(crate) subject: Subject,
    /// What a hold of the same owner there means for a call here.
    pub(crate) own_hold: OwnHold,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnHold {
    /// The attempt names its field, and gets in beside it.
    LetsIn,
    /// The call would wait for its own owner.
    Blocks,
}

/// The scheme of a call that a client made, by the folder of its script and its first key: for an engine that frees what
/// dead processes left under it.
pub(crate) fn scheme_of(call: &Call) -> Option<Arc<dyn Scheme>> {
    let (folder, _) = call.script.name.split_once('/')?;
    let name = call.keys.first()?.clone();
    match folder {
        "lock" => Some(Arc::new(PlainScheme::new(name))),
        "fair_lock" => Some(Arc::new(FairScheme::of_call(name, call))),
        "fenced_lock" => Some(Arc::new(FencedScheme::new(name))),
        "spin_lock" => Some(Arc::new(SpinScheme::new(name, SpinScheme::PACE))),
        // Either side frees the entries of both.
        "rw_lock" => Some(Arc::new(ReadScheme::new(name, false))),
        #[cfg(test)]
        "several" => Some(Arc::new(Several::new(name))),
        _ => None,
    }
}

/// Whether a call asks for a lock that its owner does not have.
pub(crate) fn is_acquire(call: &Call) -> bool {
    call.script.role == Role::Acquire
}

/// The field and the time in ms for which a call leaves the name taken, also when its process ends.
pub(crate) fn stays(call: &Call) -> Option<(&str, i64)> {
    match call.args.as_slice() {
        [Arg::Bytes(field), Arg::Int(stay)] if call.script.role == Role::Delay => {
            Some((std::str::from_utf8(field).ok()?, *stay))
        }
        _ => None,
    }
}

/// The client in a field: `client:number`, with more behind another colon for what a kind of lock adds to it.
pub(crate) fn client_of(field: &str) -> Option<&str> {
    let mut parts = field.split(':');
    let (client, number) = (parts.next()?, parts.next()?);
    number.parse::<u64>().ok().map(|_| client)
}

/// The bearer of a field whose process has ended. It names the key of the details, because there may be some.
pub(crate) fn dead_bearer(field: Arc<str>) -> Bearer {
    let who = Some(Arc::from(""));
    Bearer { field, who }
}

/// How waiters of a kind wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Where releases are announced; `None`: attempts follow the clock alone.
    pub(crate) channel: Option<Arc<str>>,
    pub(crate) pace: Pace,
    /// The server keeps a queue: a waiter's field stays the same from attempt to attempt, and is abandoned with its
    /// request.
    pub(crate) has_places: bool,
    /// How long a place is good without an attempt of its waiter; `None`: for good.
    pub(crate) place_lasts: Option<Duration>,
    /// After a release of ours the waiters of other processes go first.
    pub(crate) is_courteous: bool,
    /// Holders share it: callers ask for themselves, at the same time, while none of them waits in the line.
    pub(crate) is_shared: bool,
}

/// What an attempt asks for.
#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) bearer: &'a Bearer,
    pub(crate) lease: Duration,
    pub(crate) mode: Mode,
    /// Where the server has put it in its queue, as far as this is known.
    pub(crate) place: Option<u64>,
    /// It is the first of its client's waiters.
    pub(crate) is_front: bool,
    /// The largest fence that this client has seen: a new one is larger.
    pub(crate) fence_floor: u64,
    /// The field under which its owner holds the sibling line.
    pub(crate) beside: Option<&'a Arc<str>>,
}

#[cfg(test)]
impl<'a> Ask<'a> {
    /// For a caller that does not wait, and has seen no fence.
    pub(crate) fn once(bearer: &'a Bearer, lease: Duration) -> Self {
        Self {
            bearer,
            lease,
            mode: Mode::Once,
            place: None,
            is_front: true,
            fence_floor: 0,
            beside: None,
        }
    }
}

/// What an attempt does if the lock is busy, and why it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Its caller does not wait.
    Once,
    /// Its caller waits: a kind with places gives it one.
    Waits,
    /// The same; nothing has happened, only time has passed.
    Looks,
}

/// A tenure as scripts see it: its field, and whether it keeps details for people.
#[derive(Clone, Debug)]
pub(crate) struct Bearer {
    pub(crate) field: Arc<str>,
    /// `pid`, host and label, a line each; `None`: nothing is written.
    pub(crate) who: Option<Arc<str>>,
}

/// The reply to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptReply {
    Granted(Granted),
    Busy(Busy),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Granted {
    /// A number that grows from grant to grant, where the kind has one.
    pub(crate) fence: Option<u64>,
    /// The next in line may get in too.
    pub(crate) more: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) rest: Rest,
    /// Where the server has put the waiter in its queue.
    pub(crate) place: Option<u64>,
    /// It gets the lock when the holder's lease ends: no other waiter is before it.
    pub(crate) is_next: bool,
    /// When its client's first waiter looks again, if that is sooner than usual.
    pub(crate) look_in: Option<Duration>,
    /// The first in the server's queue, if it is a waiter of this very client: the number of its field.
    pub(crate) head: Option<u64>,
    /// Holders or waiters of another library are there.
    pub(crate) is_mixed: bool,
    /// It had lost its place, and so may others of its client.
    pub(crate) is_shaken: bool,
}

impl From<Rest> for Busy {
    /// For a kind without a queue: every waiter may be the next.
    fn from(rest: Rest) -> Self {
        Self {
            rest,
            place: None,
            is_next: true,
            look_in: None,
            head: None,
            is_mixed: false,
            is_shaken: false,
        }
    }
}

/// How long a holder's lease still lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    Left(Duration),
    NoExpiry,
}

/// Which waiter a message wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The first waiter in line.
    Front,
    /// The waiter whose field has that number.
    Named(u64),
    Nobody,
}

/// The reply to a question about a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ours,
    /// Nothing is there.
    Gone,
    /// Another field is there.
    Taken,
}

/// The reply to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// The hold is given back; `heard`: how many clients got the message.
    Free { heard: u64 },
    /// The hold is given back; others have the name too, so no message was sent.
    Shared,
    /// Other holds of the tenure go on.
    Left,
    /// It was not ours: gone, or taken.
    Not(Standing),
}

/// A holder as the server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) field: String,
    pub(crate) count: u32,
    pub(crate) details: Option<Details>,
}

/// What a holder of ours wrote about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Details {
    pub(crate) held_for: Duration,
    pub(crate) pid: Option<u32>,
    pub(crate) host: Option<String>,
    pub(crate) label: Option<String>,
}

/// A reply that is none of those that the script gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BadReply(pub(crate) &'static str, pub(crate) Value);

/// The reply to a re-entry, a renewal or a delayed release: the same for every kind.
pub(crate) fn read_standing(reply: Value) -> Result<Standing, BadReply> {
    match reply {
        Value::Int(1) => Ok(Standing::Ours),
        Value::Int(0) => Ok(Standing::Gone),
        Value::Int(-1) => Ok(Standing::Taken),
        other => Err(BadReply("standing", other)),
    }
}

/// The reply to a release that leaves that many holds: the same for every kind.
pub(crate) fn read_release(reply: Value, left: u32) -> Result<Release, BadReply> {
    match reply {
        Value::Int(-1) => Ok(Release::Not(Standing::Gone)),
        Value::Int(-2) => Ok(Release::Not(Standing::Taken)),
        Value::Int(-3) if left == 0 => Ok(Release::Shared),
        Value::Int(heard @ 0..) if left == 0 => Ok(Release::Free {
            heard: heard.unsigned_abs(),
        }),
        Value::Int(0) => Ok(Release::Left),
        other => Err(BadReply("release", other)),
    }
}

pub(crate) fn read_force_unlock(reply: Value) -> Result<bool, BadReply> {
    match reply {
        Value::Int(freed @ (0 | 1)) => Ok(freed == 1),
        other => Err(BadReply("force unlock", other)),
    }
}
