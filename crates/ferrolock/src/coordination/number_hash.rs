//! Hash tables whose keys have a number: a hash that was computed before, or a count.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table by number. Not for numbers that other programs choose: they could all fall on one place.
pub(super) type ByNumber<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Spreads a number over all bits, which a table needs of both ends.
#[derive(Debug, Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number near 2^64 divided by the golden ratio: neighbours land far from each other.
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ (product >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn numbers_that_count_up_differ_at_both_ends_of_their_hashes() {
        let hash = |number: u64| BuildHasherDefault::<NumberHasher>::new().hash_one(number);

        let low: HashSet<u64> = (0..128).map(|number| hash(number) % 1024).collect();
        let high: HashSet<u64> = (0..128).map(|number| hash(number) >> 57).collect();

        assert!(low.len() > 96, "{}", low.len());
        assert!(high.len() > 64, "{}", high.len());
    }
}
