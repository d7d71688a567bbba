//! Replacements for primitives of the standard library and `tokio` in the library's files, made of those of `loom`, which
//! runs them in every order.
//!
//! Each can be made wrong in one way, to show that a model notices it.

use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Condvar;

use crate::fault::{Fault, is_planted};

pub(crate) use std::sync::atomic::Ordering;

fn as_planted(order: Ordering) -> Ordering {
    if is_planted(Fault::Relaxed) {
        Ordering::Relaxed
    } else {
        order
    }
}

/// The order of the write in a read-and-write operation.
fn of_the_write(order: Ordering) -> Ordering {
    match order {
        Ordering::AcqRel => Ordering::Release,
        other => other,
    }
}

pub(crate) fn fence(order: Ordering) {
    // There is no relaxed fence: it is left out instead.
    let faults = [Fault::Relaxed, Fault::NoFence, Fault::Unordered];
    if !faults.into_iter().any(is_planted) {
        loom::sync::atomic::fence(order);
    }
}

macro_rules! atomics {
    ($($name:ident of $value:ty),*) => {$(
        #[derive(Debug)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.0.load(as_planted(order))
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, as_planted(order));
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, as_planted(order))
            }

            pub(crate) fn compare_exchange(
                &self,
                from: $value,
                to: $value,
                done: Ordering,
                not: Ordering,
            ) -> Result<$value, $value> {
                if is_planted(Fault::Torn) {
                    let found = self.0.load(not);
                    if found != from {
                        return Err(found);
                    }
                    self.0.store(to, of_the_write(done));
                    return Ok(found);
                }
                self.0.compare_exchange(from, to, as_planted(done), as_planted(not))
            }
        }
    )*};
}

macro_rules! numbers {
    ($($name:ident of $value:ty),*) => {
        atomics!($($name of $value),*);

        $(impl $name {
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value, as_planted(order))
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_sub(value, as_planted(order))
            }

            pub(crate) fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_max(value, as_planted(order))
            }
        })*
    };
}

atomics!(AtomicBool of bool);
numbers!(AtomicU8 of u8, AtomicU32 of u32, AtomicU64 of u64, AtomicUsize of usize, AtomicI64 of i64);

impl Default for AtomicBool {
    fn default() -> Self {
        Self::new(false)
    }
}

/// `loom`'s mutex. As [`Fault::Unordered`] it is one of which `loom` knows nothing: no other thread runs while a model holds it,
/// as long as it touches nothing of `loom`'s meanwhile, and what the others see afterwards is as old as it may be.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    ordered: loom::sync::Mutex<()>,
    value: std::sync::Mutex<T>,
}

pub(crate) struct MutexGuard<'a, T> {
    // Goes first: the other one lets another thread run.
    value: std::sync::MutexGuard<'a, T>,
    _ordered: Option<loom::sync::MutexGuard<'a, ()>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            ordered: loom::sync::Mutex::new(()),
            value: std::sync::Mutex::new(value),
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

pub(crate) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    let is_ordered = !is_planted(Fault::Unordered);
    MutexGuard {
        _ordered: is_ordered.then(|| unpoisoned_by_loom(&mutex.ordered)),
        value: mutex.value.lock().unwrap_or_else(PoisonError::into_inner),
    }
}

fn unpoisoned_by_loom<T>(mutex: &loom::sync::Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// Has the memory order of the standard one: a value is set with `Release` and read with `Acquire`.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    is_set: AtomicBool,
    value: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) fn new() -> Self {
        Self {
            is_set: AtomicBool::new(false),
            value: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        let is_set = self.is_set.load(Ordering::Acquire);
        self.value
            .get()
            .filter(|_| is_set && !is_planted(Fault::Forgotten))
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let set = self.value.set(value);
        self.is_set.swap(true, Ordering::AcqRel);
        set
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let value = self.value.get_or_init(make);
        self.is_set.swap(true, Ordering::AcqRel);
        value
    }
}

/// Like `tokio`'s as far as the library uses it: wakes all waiters, and a wait begins when its future is made.
#[derive(Debug)]
pub(crate) struct Notify(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    calls: usize,
    wakers: Vec<Waker>,
}

pub(crate) struct Notified<'a> {
    notify: &'a Notify,
    /// How many calls there had been when the wait began.
    since: Option<usize>,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(crate) fn notify_waiters(&self) {
        let wakers = {
            let mut heard = unpoisoned(&self.0);
            heard.calls += 1;
            std::mem::take(&mut heard.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        let since = (!is_planted(Fault::LateEar)).then(|| unpoisoned(&self.0).calls);
        Notified {
            notify: self,
            since,
        }
    }
}

impl Notified<'_> {
    #[expect(
        clippy::unused_self,
        reason = "as in `tokio`; here all are from the start"
    )]
    pub(crate) fn enable(self: Pin<&mut Self>) {}
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut heard = unpoisoned(&self.notify.0);
        let calls = heard.calls;
        if self.since.is_some_and(|since| since != calls) {
            return Poll::Ready(());
        }
        heard.wakers.push(cx.waker().clone());
        drop(heard);
        self.since = Some(calls);
        Poll::Pending
    }
}

/// Runs a future in this thread of the model; one that is never woken is a deadlock, which `loom` reports.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(bell.clone());
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        let mut rang = unpoisoned_by_loom(&bell.rang);
        while !std::mem::take(&mut *rang) {
            rang = match bell.ringing.wait(rang) {
                Ok(rang) => rang,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
    }
}

#[derive(Default)]
struct Bell {
    rang: loom::sync::Mutex<bool>,
    ringing: Condvar,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if is_planted(Fault::LostWake) {
            return;
        }
        *unpoisoned_by_loom(&self.rang) = true;
        self.ringing.notify_all();
    }
}
