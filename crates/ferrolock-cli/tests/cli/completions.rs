//! `ferrolock completions`.

use crate::printed;

#[test]
fn the_completion_script_of_every_shell_has_our_options() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = printed(&["completions", shell]);

        assert!(text.contains("max-hold"), "{shell}");
    }
}

#[test]
fn bash_accepts_the_completion_script() {
    let text = printed(&["completions", "bash"]);

    let read = std::process::Command::new("bash")
        .args(["-n", "-c", &text])
        .output()
        .unwrap();

    assert!(read.status.success(), "{read:?}");
}
