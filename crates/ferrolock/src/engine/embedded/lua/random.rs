//! The numbers behind `math.random`: the same in every run of a script, as on the servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mlua::{Lua, Table, Variadic};

/// The 48-bit generator of `drand48`.
#[derive(Default)]
pub(super) struct Random(AtomicU64);

impl Random {
    /// Starts the sequence of a seed.
    pub(super) fn seed(&self, seed: u32) {
        self.0
            .store((u64::from(seed) << 16) | 0x330E, Ordering::Relaxed);
    }

    /// Adds `random` and `randomseed`.
    pub(super) fn add_to(self: &Arc<Self>, lua: &Lua, functions: &Table) -> mlua::Result<()> {
        let generator = self.clone();
        let random = lua.create_function(move |_, bounds: Variadic<f64>| {
            generator.between(&bounds).map_err(mlua::Error::runtime)
        })?;
        functions.raw_set("random", random)?;
        let generator = self.clone();
        let randomseed = lua.create_function(move |_, seed: f64| {
            // Any bits will do for a seed.
            generator.seed(seed as i64 as u32);
            Ok(())
        })?;
        functions.raw_set("randomseed", randomseed)
    }

    /// No bounds: from 0 up to, without, 1. One: whole, from 1 to it. Two: whole, between them.
    fn between(&self, bounds: &[f64]) -> Result<f64, &'static str> {
        let part = self.next();
        let (low, high) = match *bounds {
            [] => return Ok(part),
            [high] => (1.0, high.trunc()),
            [low, high] => (low.trunc(), high.trunc()),
            _ => return Err("wrong number of arguments"),
        };
        if low > high {
            return Err("bad argument to 'random' (interval is empty)");
        }
        Ok((part * (high - low + 1.0)).floor() + low)
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
