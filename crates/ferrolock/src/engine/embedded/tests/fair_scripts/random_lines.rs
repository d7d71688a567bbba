//! Random lines of waiters of both libraries: Redisson's arithmetic, as its scripts do it, against our scripts.
//!
//! After every step the queue is the model's: no waiter of ours is evicted, and none is overtaken. Redisson's own may be
//! evicted by its rules: those that wait for 5 s, when another gives up. And every deadline of ours is a finite time ahead: an
//! entry without one would stop Redisson for ever, one with zero or infinity would be inherited by its next waiter (F4, F5).

use super::*;
use crate::protocol::fair_lock::RESERVE;

/// Redisson's acquire of a waiter that waits: evicts heads whose time is over; takes the free lock if it is the head, and
/// lowers every deadline that is left by its wait; else joins behind the last one. Its release begins in the same way.
const JAVA_ACQUIRES: &str = "
local lock, queue, deadlines = 'x', 'redisson_lock_queue:{x}', 'redisson_lock_timeout:{x}'
local owner, wait, time = ARGV[1], ARGV[2], redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
while true do
    local first = redis.call('LINDEX', queue, 0)
    if not first then break end
    local ends = redis.call('ZSCORE', deadlines, first)
    if not ends or tonumber(ends) > now then break end
    redis.call('ZREM', deadlines, first)
    redis.call('LPOP', queue)
end
if wait == 'release' then
    return redis.call('DEL', lock)
end
local first = redis.call('LINDEX', queue, 0)
if redis.call('EXISTS', lock) == 0 and (not first or first == owner) then
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    for _, other in ipairs(redis.call('ZRANGE', deadlines, 0, -1)) do
        redis.call('ZINCRBY', deadlines, -wait, other)
    end
    redis.call('HSET', lock, owner, 1)
    redis.call('PEXPIRE', lock, 30000)
    return 1
end
if not redis.call('ZSCORE', deadlines, owner) then
    local last, left = redis.call('LINDEX', queue, -1), redis.call('PTTL', lock)
    if last then left = redis.call('ZSCORE', deadlines, last) - now end
    if redis.call('ZADD', deadlines, left + wait + now, owner) == 1 then
        redis.call('RPUSH', queue, owner)
    end
end
return 0";

/// Redisson's asynchronous give-up: lowers the deadlines of all that wait behind it by 300 s, whatever its wait was.
const JAVA_GIVES_UP: &str = "
local queue, deadlines, owner = 'redisson_lock_queue:{x}', 'redisson_lock_timeout:{x}', ARGV[1]
local behind = false
for _, other in ipairs(redis.call('LRANGE', queue, 0, -1)) do
    if behind then redis.call('ZINCRBY', deadlines, -300000, other) end
    behind = behind or other == owner
end
redis.call('ZREM', deadlines, owner)
redis.call('LREM', queue, 0, owner)";

/// As [`Line::queue`] shows it.
fn short(owner: &str) -> String {
    let (client, number) = owner.split_once(':').unwrap();
    format!("{}{number}", &client[..1])
}

struct Play {
    line: Line,
    /// Who waits, in order, and who holds.
    waiting: Vec<String>,
    holder: Option<String>,
    places: std::collections::BTreeMap<String, u64>,
    number: u64,
    /// Waiters of Redisson that have come so far.
    foreign: i64,
    log: Vec<String>,
}

impl Play {
    fn new() -> Self {
        Self {
            line: Line::new(),
            waiting: Vec::new(),
            holder: None,
            places: Default::default(),
            number: 0,
            foreign: 0,
            log: Vec::new(),
        }
    }

    /// Every other one waits for 5 s at most.
    fn java_acquires(&self, owner: &str) -> bool {
        let wait = if owner.ends_with(['0', '2', '4', '6', '8']) {
            "5000"
        } else {
            "300000"
        };
        let granted = self.line.text(JAVA_ACQUIRES, &[owner, wait]);
        granted.as_deref() == Some("1")
    }

    /// Redisson's waiters that its rules, or ours for its dead ones, have evicted.
    fn forget_evicted(&mut self) {
        let queue = self.line.queue();
        let is_evicted = |owner: &String| owner.starts_with(JAVA) && !queue.contains(&short(owner));
        self.waiting.retain(|owner| !is_evicted(owner));
    }

    /// An attempt of a waiter, for the first time or again.
    fn asks(&mut self, owner: &str) -> bool {
        if owner.starts_with(JAVA) {
            return self.java_acquires(owner);
        }
        let place = self.places.get(owner).copied().unwrap_or_default();
        match self.line.ask(owner, Mode::Waits, place, true) {
            AttemptReply::Granted(_) => true,
            AttemptReply::Busy(busy) => {
                assert!(!busy.is_shaken, "{owner} lost its place: {:#?}", self.log);
                self.places.insert(owner.to_owned(), busy.place.unwrap());
                false
            }
        }
    }

    fn comes(&mut self, client: &str) {
        self.number += 1;
        let owner = owner(client, self.number);
        self.foreign += i64::from(client == JAVA);
        self.log.push(format!("{owner} comes"));
        let is_free = self.holder.is_none() && self.waiting.is_empty();
        assert_eq!(self.asks(&owner), is_free, "{:#?}", self.log);
        match is_free {
            true => self.holder = Some(owner),
            false => self.waiting.push(owner),
        }
    }

    /// The holder releases, and the first waiter takes the lock; another one that tries before it gets nothing.
    fn moves_on(&mut self, other: usize) {
        let Some(holder) = self.holder.take() else {
            return;
        };
        self.log.push(format!("{holder} releases"));
        match holder.starts_with(JAVA) {
            true => self.line.put(JAVA_ACQUIRES, &[&holder, "release"]),
            false => {
                let call = self
                    .line
                    .scheme
                    .release(&bearer(&holder), 0, Duration::ZERO);
                run(&self.line.engine, call).unwrap();
            }
        }
        self.forget_evicted();
        if self.waiting.is_empty() {
            return;
        }
        let other = self.waiting[other % self.waiting.len()].clone();
        let next = self.waiting.remove(0);
        if other != next {
            assert!(!self.asks(&other), "{other} overtakes: {:#?}", self.log);
        }
        assert!(self.asks(&next), "{next} is not served: {:#?}", self.log);
        self.holder = Some(next);
    }

    fn gives_up(&mut self, nth: usize) {
        if self.waiting.is_empty() {
            return;
        }
        let owner = self.waiting.remove(nth % self.waiting.len());
        self.log.push(format!("{owner} gives up"));
        match owner.starts_with(JAVA) {
            true => self.line.put(JAVA_GIVES_UP, &[&owner]),
            false => {
                let call = self.line.scheme.abandon(&bearer(&owner));
                run(&self.line.engine, call).unwrap();
            }
        }
    }

    /// Both clients of ours beat, each by the first of its waiters.
    async fn time_passes(&mut self, time: u64) {
        self.log.push(format!("{time} ms pass"));
        pass(ms(time)).await;
        for client in [A, B] {
            let first = self.waiting.iter().find(|owner| owner.starts_with(client));
            if let Some(first) = first.cloned() {
                let busy = self.line.busy(&first, Mode::Looks, self.places[&first]);
                assert!(!busy.is_shaken, "{first} lost its place: {:#?}", self.log);
            }
        }
        if self.holder.is_some() {
            self.line.put("redis.call('PEXPIRE', 'x', 30000)", &[]);
        }
    }

    fn check(&mut self) {
        self.forget_evicted();
        let expected: Vec<String> = self.waiting.iter().map(|owner| short(owner)).collect();
        assert_eq!(self.line.queue(), expected, "{:#?}", self.log);
        let reserve = i64::try_from(RESERVE.as_millis()).unwrap();
        let most = (self.foreign + 1) * 2 * (300_000 + reserve);
        for owner in self.waiting.iter().filter(|owner| !owner.starts_with(JAVA)) {
            let ends = self.line.ends_in(owner);
            assert!(
                ends.is_some_and(|ends| (1..most).contains(&ends)),
                "{owner} ends in {ends:?}: {:#?}",
                self.log
            );
        }
        let ours = self.waiting.iter().filter(|owner| !owner.starts_with(JAVA));
        assert_eq!(self.line.known(), ours.count(), "{:#?}", self.log);
        let scores = "return redis.call('ZCARD', 'redisson_lock_timeout:{x}')";
        let scores = self.line.text(scores, &[]).unwrap();
        assert_eq!(scores, expected.len().to_string(), "{:#?}", self.log);
    }
}

/// F1, F2, F4, F5.
#[tokio::test(start_paused = true)]
async fn no_waiter_of_ours_is_evicted_or_overtaken_whatever_redisson_subtracts() {
    let seed = testkit::seed("FERROLOCK_FAIR_SEED", || fastrand::u64(..1 << 32));
    for round in 0..u64::from(testkit::count(40, 400)) {
        let mut random = fastrand::Rng::with_seed(seed + round);
        let mut play = Play::new();
        for _ in 0..80 {
            match random.u8(..10) {
                0 => play.comes(A),
                1 => play.comes(B),
                2..=4 => play.comes(JAVA),
                5 => play.moves_on(random.usize(..100)),
                6..=7 => {
                    // Several at once: each of Redisson's lowers all behind it.
                    for _ in 0..random.usize(1..5) {
                        play.gives_up(random.usize(..100));
                    }
                }
                _ => play.time_passes(random.u64(1..2_000)).await,
            }
            play.check();
        }
    }
}
