//! Every branch of the scripts of the fenced and the spin lock that the plain lock does not have.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::protocol::fenced_lock::FencedScheme;
use crate::protocol::scheme::{
    Ask, AttemptReply, Bearer, Granted, Release, Rest, Scheme, Standing, read_force_unlock,
    read_release,
};
use crate::protocol::spin_lock::SpinScheme;

const LEASE: Duration = Duration::from_secs(30);
const LAST: &str = "redisson_lock_token:{ledger}";

struct Table {
    engine: Arc<MemoryEngine>,
    scheme: Box<dyn Scheme>,
}

fn bearer(field: &str) -> Bearer {
    let field = field.into();
    Bearer { field, who: None }
}

fn fenced() -> Table {
    let scheme = Box::new(FencedScheme::new("ledger".into()));
    let engine = MemoryEngine::open(None);
    Table { engine, scheme }
}

fn spin() -> Table {
    let scheme = Box::new(SpinScheme::new("ledger".into(), SpinScheme::PACE));
    let engine = MemoryEngine::open(None);
    Table { engine, scheme }
}

impl Table {
    fn acquire(&self, field: &str, fence_floor: u64) -> Result<AttemptReply, Failure> {
        let bearer = bearer(field);
        let ask = Ask {
            fence_floor,
            ..Ask::once(&bearer, LEASE)
        };
        let reply = run(&self.engine, self.scheme.acquire(&ask))?;
        Ok(self.scheme.read_acquire(reply).unwrap())
    }

    /// The fence of a grant.
    fn fence(&self, field: &str, fence_floor: u64) -> u64 {
        match self.acquire(field, fence_floor) {
            Ok(AttemptReply::Granted(Granted { fence, .. })) => fence.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn release(&self, field: &str, left: u32) -> Release {
        let call = self.scheme.release(&bearer(field), left, LEASE);
        read_release(run(&self.engine, call).unwrap(), left).unwrap()
    }

    fn eval(&self, source: &str) -> Value {
        eval(&self.engine, source, &[]).unwrap()
    }

    fn set_last(&self, fence: &str) {
        self.eval(&format!("redis.call('SET', '{LAST}', '{fence}')"));
    }

    fn micros(&self) -> u64 {
        let time = self.eval("local t = redis.call('TIME'); return t[1] * 1000000 + t[2]");
        match time {
            Value::Int(micros) => micros.unsigned_abs(),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_at_least_the_time_and_grows_from_grant_to_grant() {
    let table = fenced();

    let first = table.fence("a:1", 0);
    assert_eq!(first, table.micros());
    assert_eq!(table.release("a:1", 0), Release::Free { heard: 0 });

    // No time has passed in between.
    let second = table.fence("b:1", 0);
    assert_eq!(second, first + 1);
    assert_eq!(
        table.eval(&format!("return redis.call('GET', '{LAST}')")),
        bytes(&second.to_string())
    );
    assert_eq!(
        table.eval(&format!("return redis.call('PTTL', '{LAST}')")),
        Value::Int(-1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_repeated_acquire_and_a_busy_one_raise_no_fence() {
    let table = fenced();
    let fence = table.fence("a:1", 0);

    assert_eq!(table.fence("a:1", fence), fence);
    let busy = AttemptReply::Busy(Rest::Left(LEASE).into());
    assert_eq!(table.acquire("b:1", 0), Ok(busy));
    table.release("a:1", 0);
    assert_eq!(table.fence("b:1", 0), fence + 1);
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_larger_than_the_last_one_and_than_what_the_client_has_seen() {
    let table = fenced();
    let later = table.micros() + 1_000_000;

    table.set_last(&later.to_string());
    assert_eq!(table.fence("a:1", 0), later + 1);
    table.release("a:1", 0);

    // The data is lost: only the client knows.
    table.eval(&format!("redis.call('DEL', '{LAST}')"));
    assert_eq!(table.fence("a:2", later + 1), later + 2);
}

#[tokio::test(start_paused = true)]
async fn java_goes_on_from_our_fence_and_we_from_javas() {
    let table = fenced();
    let fence = table.fence("a:1", 0);
    table.release("a:1", 0);

    table.eval(&format!("redis.call('INCR', '{LAST}')"));

    assert_eq!(table.fence("b:1", 0), fence + 2);
}

#[tokio::test(start_paused = true)]
async fn a_last_fence_that_is_none_is_refused_and_nothing_is_taken() {
    for (odd, text) in [
        ("x", "the last fence of the lock is no number"),
        (
            "9007199254740991",
            "the last fence of the lock is too large",
        ),
        ("inf", "the last fence of the lock is too large"),
    ] {
        let table = fenced();
        table.set_last(odd);

        assert_eq!(
            table.acquire("a:1", 0),
            refused("ERR", text).map(|_| unreachable!())
        );
        assert_eq!(
            table.eval("return redis.call('EXISTS', 'ledger')"),
            Value::Int(0)
        );
        assert_eq!(
            table.eval(&format!("return redis.call('GET', '{LAST}')")),
            bytes(odd)
        );
    }
}

/// The reply to the first call was lost, and so was the last fence.
#[tokio::test(start_paused = true)]
async fn a_repeated_acquire_whose_fence_was_deleted_has_a_new_one() {
    let table = fenced();
    let fence = table.fence("a:1", 0);
    table.eval(&format!("redis.call('DEL', '{LAST}')"));

    let again = table.fence("a:1", fence);

    assert_eq!(again, fence + 1);
    assert_eq!(table.fence("a:1", 0), again);
    table.release("a:1", 0);
    assert_eq!(table.fence("b:1", 0), again + 1);
}

#[tokio::test(start_paused = true)]
async fn force_unlock_leaves_the_last_fence() {
    let table = fenced();
    let fence = table.fence("a:1", 0);

    let freed = run(&table.engine, table.scheme.force_unlock()).unwrap();

    assert_eq!(read_force_unlock(freed), Ok(true));
    assert_eq!(table.fence("b:1", 0), fence + 1);
}

#[tokio::test(start_paused = true)]
async fn a_spin_lock_is_released_whole_or_in_part() {
    let table = spin();
    assert_eq!(table.release("a:1", 0), Release::Not(Standing::Gone));
    assert_eq!(
        table.acquire("a:1", 0),
        Ok(AttemptReply::Granted(Granted::default()))
    );
    assert_eq!(table.release("b:1", 0), Release::Not(Standing::Taken));
    let reenter = table.scheme.reenter(&bearer("a:1"), LEASE, 2);
    run(&table.engine, reenter).unwrap();

    assert_eq!(table.release("a:1", 1), Release::Left);
    assert_eq!(
        table.eval("return redis.call('HGET', 'ledger', 'a:1')"),
        bytes("1")
    );
    assert_eq!(table.release("a:1", 0), Release::Free { heard: 0 });
    assert_eq!(
        table.eval("return redis.call('EXISTS', 'ledger')"),
        Value::Int(0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_spin_lock_is_freed_by_force_once() {
    let table = spin();
    table.acquire("a:1", 0).unwrap();

    let force = || {
        let reply = run(&table.engine, table.scheme.force_unlock());
        read_force_unlock(reply.unwrap()).unwrap()
    };

    assert!(force());
    assert!(!force());
}
