//! The dialogue with programs that are not a JVM, and with a JVM that does not start.

use super::*;
use crate::Redisson;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Answers commands.
const ECHO: &str = r#"while read -r line; do
    id=${line##*\"id\":}
    echo "{\"id\":${id%\}},\"thread\":1,\"began\":1,\"ended\":2}"
done"#;

fn script(text: &str) -> Arc<Dialogue> {
    let mut sh = Command::new("sh");
    sh.args(["-c", text]);
    Arc::new(Dialogue::with(sh))
}

/// The message of the panic about a command without an answer.
fn complaint(pending: Pending<()>, limit: Duration) -> Option<String> {
    let message = catch_unwind(AssertUnwindSafe(|| pending.answer(limit))).err()?;
    Some(message.downcast_ref::<String>().unwrap().clone())
}

#[test]
fn the_output_of_a_jvm_before_its_end_is_in_the_panic_message() {
    if !Redisson::Newest.is_here() {
        return;
    }
    let dialogue = Arc::new(Dialogue::begin(Path::new("/nowhere.jar"), Jvm::Quick));

    let message = complaint(dialogue.ask("hello", json!({})), LIMIT).unwrap();

    assert!(
        message.contains("it ended with exit status: 1"),
        "{message}"
    );
    assert!(message.contains("/nowhere.jar"), "{message}");
}

#[test]
fn bytes_that_are_not_utf_8_end_neither_answers_nor_error_output() {
    let dialogue = script(&format!(
        r"printf '\377\n'; printf 'a \377\nb\n' >&2; {ECHO}"
    ));

    let answered = dialogue.ask::<()>("x", json!({})).wait();

    assert_eq!(answered, Ok(()));
    eventually(LIMIT, "what comes after them is overheard", || {
        let state = dialogue.state();
        state.contains("a \u{fffd}") && state.lines().any(|line| line == "b")
    });
}

#[test]
fn a_command_to_a_program_that_does_not_read_does_not_block() {
    let dialogue = script("exec sleep 1000");
    // More than a pipe takes.
    let much = json!({"text": "x".repeat(1 << 20)});

    let first = dialogue.ask("x", much.clone());
    let second = dialogue.ask("x", much);

    for pending in [first, second] {
        let message = complaint(pending, Duration::from_millis(1)).unwrap();
        assert!(message.contains("did not answer in time"), "{message}");
    }
}

/// In an earlier version the two could deadlock: the caller that gave up asked for the state of the JVM with its slot locked,
/// and the thread that brought the answer locked the two in the other order.
#[test]
fn a_caller_that_gives_up_does_not_block_the_answer() {
    let dialogue = script("exec sleep 1000");
    let pending = dialogue.ask("x", json!({}));
    let asked = lock(&dialogue.asked);
    let slot = Arc::clone(asked.slots.values().next().unwrap());
    let (brought, is_brought) = channel();

    let gives_up = std::thread::spawn(move || complaint(pending, Duration::ZERO));
    // Time for it to reach the point where it locks `asked`; if that is not enough, the test shows nothing.
    std::thread::sleep(Duration::from_millis(50));
    std::thread::spawn(move || {
        slot.put(None);
        brought.send(())
    });

    is_brought.recv_timeout(LIMIT).expect("the slot is free");
    drop(asked);
    let message = gives_up.join().unwrap().unwrap();
    assert!(message.contains("did not answer in time"), "{message}");
}
