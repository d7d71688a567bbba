//! The numbers behind `math.random`: the same sequence in every space, as on every server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{Lua, Table};

/// The 48-bit generator of `drand48`.
struct LuaRandom(AtomicU64);

/// Adds `random`, from 0 up to, without, 1, and `randomseed`.
pub(super) fn add_to(functions: &Table, lua: &Lua) -> mlua::Result<()> {
    let generator = Arc::new(LuaRandom::unseeded());
    let seeded = generator.clone();
    let random = lua.create_function(move |_, ()| Ok(generator.next()))?;
    let randomseed = lua.create_function(move |_, seed: f64| {
        // A seed may have any bits.
        seeded.seed(seed as i64 as u32);
        Ok(())
    })?;
    functions.raw_set("random", random)?;
    functions.raw_set("randomseed", randomseed)
}

impl LuaRandom {
    /// Where the C library begins without a seed.
    fn unseeded() -> Self {
        Self(AtomicU64::new(0x1234_ABCD_330E))
    }

    fn seed(&self, seed: u32) {
        self.0
            .store((u64::from(seed) << 16) | 0x330E, Ordering::Relaxed);
    }

    fn next(&self) -> f64 {
        const MASK: u64 = (1 << 48) - 1;
        let state = self.0.load(Ordering::Relaxed);
        let state = state.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & MASK;
        self.0.store(state, Ordering::Relaxed);
        let max = i32::MAX.unsigned_abs();
        let bits = u32::try_from(state >> 17).unwrap_or(0) % max;
        f64::from(bits) / f64::from(max)
    }
}
