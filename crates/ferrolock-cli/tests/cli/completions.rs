//! `ferrolock completions`.

use crate::printed;

#[test]
fn every_shell_learns_our_words() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = printed(&["completions", shell]);

        assert!(text.contains("max-hold"), "{shell}");
    }
}

#[test]
fn bash_can_read_them() {
    let text = printed(&["completions", "bash"]);

    let read = std::process::Command::new("bash")
        .args(["-n", "-c", &text])
        .output()
        .unwrap();

    assert!(read.status.success(), "{read:?}");
}
