//! Builds the program in `interop/java` with each version of Redisson, so that tests need no network for it.
#![allow(clippy::print_stdout, reason = "a command speaks by printing")]

use testkit::Redisson;

fn main() -> Result<(), String> {
    for redisson in Redisson::ALL {
        println!("{}", redisson.build()?.display());
    }
    Ok(())
}
