//! How much a test does: a tenth of what was promised in the normal form, all of it in the long one.

/// `short`, or `long` where `FERROLOCK_LONG` is set to `1`.
pub fn count(short: u32, long: u32) -> u32 {
    match std::env::var("FERROLOCK_LONG") {
        Ok(form) if form == "1" => long,
        _ => short,
    }
}

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
