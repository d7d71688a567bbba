//! Random tests print a number that plays them again.

/// The number in the environment variable `name`, or `other`, which is printed so that a test can be played again.
///
/// # Panics
/// If the variable is no number.
#[expect(
    clippy::print_stderr,
    reason = "a test that fails is played again by it"
)]
pub fn seed(name: &str, other: impl FnOnce() -> u64) -> u64 {
    let given = std::env::var(name).ok();
    let seed = given.map_or_else(other, |given| given.parse().expect("a number"));
    eprintln!("{name}={seed}");
    seed
}
