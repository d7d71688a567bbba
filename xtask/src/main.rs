//! The project's own commands: `cargo xtask test`, `cargo xtask tidy`, `cargo xtask bench`.
fn main() {}
