//! Each lie, over a memory engine.

use super::*;
use crate::engine::embedded::MemoryEngine;
use crate::protocol::call::{Form, Script};

/// Counts its runs.
static COUNT: Script = Script::new(
    "count",
    "redis.call('HSET', 'h', #redis.call('HGETALL', 'h'), 1) return redis.call('HLEN', 'h')",
);
/// Returns how often `COUNT` ran.
static RUNS: Script = Script::new("runs", "return redis.call('HLEN', 'h')");
static PUBLISH: Script = Script::new("publish", "return redis.call('PUBLISH', 'c', ARGV[1])");

fn of(script: &'static Script) -> Call {
    Call {
        script,
        keys: smallvec::SmallVec::new(),
        args: smallvec::smallvec![Arg::Bytes(b"m"[..].into())],
        form: Form::default(),
    }
}

fn liar() -> (Arc<Lying>, Arc<MemoryEngine>) {
    let memory = MemoryEngine::open(None);
    (Lying::over_memory(memory.clone()), memory)
}

async fn count(engine: &Lying) -> Result<Value, Failure> {
    engine.call(Lane::Commands, of(&COUNT)).await
}

async fn runs(engine: &dyn Engine) -> i64 {
    match engine.call(Lane::Commands, of(&RUNS)).await {
        Ok(Value::Int(runs)) => runs,
        other => panic!("{other:?}"),
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[tokio::test(start_paused = true)]
async fn without_orders_calls_run_and_are_answered() {
    let (lying, memory) = liar();

    assert_eq!(count(&lying).await, Ok(Value::Int(1)));
    assert_eq!(runs(&*memory).await, 1);
    assert!(lying.log()[0].lie.is_none());
}

#[tokio::test(start_paused = true)]
async fn each_lie_decides_what_runs_and_what_is_replied() {
    for (lie, said, ran) in [
        (Lie::NotSent, Err(not_sent()), 0),
        (Lie::DropCall, Err(unknown()), 0),
        (Lie::DropReply, Err(unknown()), 1),
        (Lie::Repeat, Ok(Value::Int(2)), 2),
        (Lie::Refuse("MISCONF"), Err(refused("MISCONF")), 0),
    ] {
        let (lying, memory) = liar();
        lying.next(lie.clone());

        assert_eq!(count(&lying).await, said, "{lie:?}");
        assert_eq!(runs(&*memory).await, ran, "{lie:?}");
        assert!(count(&lying).await.is_ok(), "{lie:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_call_runs_after_its_caller_got_unknown() {
    let (lying, memory) = liar();
    lying.next(Lie::Late(ms(500)));

    assert_eq!(count(&lying).await, Err(unknown()));
    tokio::time::sleep(ms(499)).await;
    assert_eq!(runs(&*memory).await, 0);
    tokio::time::sleep(ms(2)).await;
    assert_eq!(runs(&*memory).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_runs_after_its_caller_gave_up() {
    let (lying, memory) = liar();
    lying.next(Lie::DelayCall(ms(500)));

    let given_up = tokio::time::timeout(ms(100), count(&lying)).await;
    assert!(given_up.is_err());
    assert_eq!(runs(&*memory).await, 0);
    tokio::time::sleep(ms(500)).await;
    assert_eq!(runs(&*memory).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_delayed_reply_belongs_to_a_call_that_ran() {
    let (lying, memory) = liar();
    let start = lying.clock().now();
    lying.next(Lie::DelayReply(ms(500)));

    let (reply, ran_before) = tokio::join!(count(&lying), async {
        tokio::time::sleep(ms(100)).await;
        runs(&*memory).await
    });

    assert_eq!((reply, ran_before), (Ok(Value::Int(1)), 1));
    assert_eq!(lying.clock().now().since(start), ms(500));
}

#[tokio::test(start_paused = true)]
async fn hanging_calls_wait_for_their_release() {
    for (lie, ran_before) in [(Lie::Hang, 0), (Lie::HangReply, 1)] {
        let (lying, memory) = liar();
        lying.next(lie);

        let (reply, ran) = tokio::join!(count(&lying), async {
            lying.seen("count", 1).await;
            tokio::time::sleep(ms(10_000)).await;
            assert_eq!(lying.hanging(), 1);
            let ran = runs(&*memory).await;
            lying.release();
            ran
        });

        assert_eq!((reply, ran), (Ok(Value::Int(1)), ran_before));
        assert_eq!(lying.hanging(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_calls_can_be_lost() {
    let (lying, memory) = liar();
    lying.next(Lie::Hang);

    let (reply, ()) = tokio::join!(count(&lying), async {
        lying.seen("count", 1).await;
        lying.lose_hanging();
    });

    assert_eq!(reply, Err(unknown()));
    assert_eq!(runs(&*memory).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_server_can_lose_its_data() {
    let (lying, _memory) = liar();
    count(&lying).await.unwrap();
    count(&lying).await.unwrap();

    lying.next(Lie::Forget);

    assert_eq!(count(&lying).await, Ok(Value::Int(1)));
}

#[tokio::test(start_paused = true)]
async fn orders_apply_to_the_calls_that_match() {
    let (lying, _memory) = liar();
    lying.next_of(Match::script("count").on(Lane::Keeper), Lie::DropCall);
    lying.always(Match::script("runs"), Lie::Refuse("BUSY"));
    lying.next_of(Match::script("runs"), Lie::NotSent);
    let keeper = || lying.call(Lane::Keeper, of(&COUNT));
    let asked = || lying.call(Lane::Commands, of(&RUNS));

    assert_eq!(count(&lying).await, Ok(Value::Int(1)));
    assert_eq!(keeper().await, Err(unknown()));
    assert_eq!(keeper().await, Ok(Value::Int(2)));
    assert_eq!(asked().await, Err(not_sent()));
    assert_eq!(asked().await, Err(refused("BUSY")));
    assert_eq!(asked().await, Err(refused("BUSY")));
    lying.honest();
    assert_eq!(asked().await, Ok(Value::Int(2)));
}

#[tokio::test(start_paused = true)]
async fn the_log_has_lane_script_arguments_and_time() {
    let (lying, _memory) = liar();
    let start = lying.clock().now();
    count(&lying).await.unwrap();
    tokio::time::sleep(ms(300)).await;
    lying.next(Lie::DropCall);
    let _ = lying.call(Lane::Keeper, of(&RUNS)).await;

    let log = lying.log();

    assert_eq!(log.len(), 2);
    assert_eq!((log[0].script, log[0].lane), ("count", Lane::Commands));
    assert_eq!((log[1].script, log[1].lane), ("runs", Lane::Keeper));
    assert_eq!(log[1].at.since(start), ms(300));
    assert_eq!(log[1].args, [Arg::Bytes(b"m"[..].into())]);
    assert_eq!(log[1].lie, Some(Lie::DropCall));
    assert_eq!(lying.log_of("count").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_lane_can_be_cut_off_alone() {
    let (lying, _memory) = liar();
    lying.partition(Reach::Lane(Lane::Keeper), Silence::NotSent);

    assert_eq!(lying.call(Lane::Keeper, of(&COUNT)).await, Err(not_sent()));
    assert_eq!(count(&lying).await, Ok(Value::Int(1)));
    assert_eq!(lying.trouble(), Some(not_sent()));
    let (ready, ()) = tokio::join!(lying.ready(Lane::Keeper), async {
        tokio::time::sleep(ms(100)).await;
        lying.heal();
    });
    assert_eq!(ready, ());
    assert_eq!(lying.trouble(), None);
    assert_eq!(
        lying.call(Lane::Keeper, of(&COUNT)).await,
        Ok(Value::Int(2))
    );
}

#[tokio::test(start_paused = true)]
async fn calls_during_a_silent_partition_run_when_it_heals() {
    let (lying, _memory) = liar();
    lying.partition(Reach::All, Silence::Hang);

    let (reply, ()) = tokio::join!(count(&lying), async {
        lying.seen("count", 1).await;
        tokio::time::sleep(ms(60_000)).await;
        lying.heal();
    });

    assert_eq!(reply, Ok(Value::Int(1)));
}

/// Keeps the signals it got.
#[derive(Default)]
struct Notes(Mutex<Vec<Signal>>);

impl Listener for Notes {
    fn hear(&self, signal: Signal) {
        self.0.lock().unwrap().push(signal);
    }
}

#[tokio::test(start_paused = true)]
async fn messages_get_lost_with_a_gap_or_without() {
    let (lying, _memory) = liar();
    let notes = Arc::<Notes>::default();
    let _subscription = lying.listen("c".into(), notes.clone()).await.unwrap();
    let publish = || lying.call(Lane::Commands, of(&PUBLISH));
    let heard = || std::mem::take(&mut *notes.0.lock().unwrap());
    let message = || Signal::Message(b"m".to_vec());

    publish().await.unwrap();
    assert_eq!(heard(), [message()]);

    lying.drop_messages(1);
    publish().await.unwrap();
    assert_eq!(heard(), []);

    lying.cut_subscriptions();
    publish().await.unwrap();
    assert_eq!(heard(), []);
    lying.heal();
    assert_eq!(heard(), [Signal::Gap]);
    publish().await.unwrap();
    assert_eq!(heard(), [message()]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_can_be_refused_or_kept_waiting() {
    let (lying, _memory) = liar();
    let listen = || lying.listen("c".into(), Arc::<Notes>::default());

    lying.refuse_listen("NOPERM");
    assert_eq!(listen().await.map(drop), Err(refused("NOPERM")));
    lying.cut_subscriptions();
    let waits = tokio::time::timeout(ms(1000), listen()).await;
    assert!(waits.is_err());
    lying.heal();
    assert!(listen().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_tells_the_same_lies() {
    let lies_of = |seed| async move {
        let (lying, _memory) = liar();
        lying.random(seed, 300);
        for _ in 0..100 {
            let _ = count(&lying).await;
        }
        let lies: Vec<_> = lying.log().into_iter().map(|seen| seen.lie).collect();
        lies
    };

    let (first, again, other) = (lies_of(7).await, lies_of(7).await, lies_of(8).await);

    assert_eq!(first, again);
    assert_ne!(first, other);
    let told = first.iter().flatten().count();
    assert!((10..60).contains(&told), "{told} lies");
}
