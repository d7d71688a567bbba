//! The dialogue with programs that are no JVM, and with a JVM that does not start.

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

/// What is told about a command without an answer.
fn complaint(pending: Pending<()>, limit: Duration) -> Option<String> {
    let told = catch_unwind(AssertUnwindSafe(|| pending.answer(limit))).err()?;
    Some(told.downcast_ref::<String>().unwrap().clone())
}

#[test]
fn what_a_jvm_prints_before_it_dies_is_told() {
    if !Redisson::Newest.is_here() {
        return;
    }
    let dialogue = Arc::new(Dialogue::begin(Path::new("/nowhere.jar"), Jvm::Quick));

    let told = complaint(dialogue.ask("hello", json!({})), LIMIT).unwrap();

    assert!(told.contains("it ended with exit status: 1"), "{told}");
    assert!(told.contains("/nowhere.jar"), "{told}");
}

#[test]
fn bytes_that_are_no_text_end_neither_answers_nor_errors() {
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
fn who_commands_a_program_that_does_not_read_is_not_held_up() {
    let dialogue = script("exec sleep 1000");
    // More than a pipe takes.
    let much = json!({"text": "x".repeat(1 << 20)});

    let first = dialogue.ask("x", much.clone());
    let second = dialogue.ask("x", much);

    for pending in [first, second] {
        let told = complaint(pending, Duration::from_millis(1)).unwrap();
        assert!(told.contains("did not answer in time"), "{told}");
    }
}

/// Who gave up asked how the JVM is with the slot locked, and who brought the answer locked them in the other order.
#[test]
fn who_gives_up_does_not_hold_up_the_answer() {
    let dialogue = script("exec sleep 1000");
    let pending = dialogue.ask("x", json!({}));
    let asked = lock(&dialogue.asked);
    let slot = Arc::clone(asked.slots.values().next().unwrap());
    let (brought, is_brought) = channel();

    let gives_up = std::thread::spawn(move || complaint(pending, Duration::ZERO));
    // Time for it to come to where it wants `asked`; if that is not enough, the test shows nothing.
    std::thread::sleep(Duration::from_millis(50));
    std::thread::spawn(move || {
        slot.put(None);
        brought.send(())
    });

    is_brought.recv_timeout(LIMIT).expect("the slot is free");
    drop(asked);
    let told = gives_up.join().unwrap().unwrap();
    assert!(told.contains("did not answer in time"), "{told}");
}
