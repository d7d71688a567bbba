//! What a side's work costs: processor time of both ends, and commands.

use super::duel::{Side, Work};
use crate::lock::server_cpu;
use crate::seen::count_calls;
use rustix::param::clock_ticks_per_second;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use testkit::Server;

/// A round and its costs: all its operations together, in microseconds of processor time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    pub(crate) work: Work,
    pub(crate) server_cpu: f64,
    pub(crate) client_cpu: f64,
}

/// Lets the side work, and reads the processor time of both ends before and after.
pub(crate) fn spend(server: &Server, side: &mut dyn Side, time: Duration) -> Spent {
    let (server_before, client_before) = (server_cpu::cpu(server), side.cpu());
    let work = side.work(time);
    let client_cpu = side.cpu().saturating_sub(client_before);
    Spent {
        work,
        server_cpu: (server_cpu::cpu(server) - server_before) * 1e6,
        client_cpu: client_cpu.as_secs_f64() * 1e6,
    }
}

/// Commands per operation, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Commands(pub(crate) BTreeMap<String, f64>);

impl Commands {
    pub(crate) fn total(&self) -> f64 {
        self.0.values().sum()
    }
}

/// Counts commands in a round of its own: `MONITOR` slows the server.
pub(crate) fn commands_per_operation(
    server: &Server,
    side: &mut dyn Side,
    time: Duration,
) -> Commands {
    count_commands(server, || side.work(time).operations)
}

/// The commands that clients send by TCP while the work lasts. `work` returns the number of its operations.
pub(crate) fn count_commands(server: &Server, work: impl FnOnce() -> f64) -> Commands {
    let (calls, operations) = count_calls(server, work);
    let mut commands = BTreeMap::new();
    for (call, count) in calls {
        let command = call.split(' ').next().unwrap().to_owned();
        *commands.entry(command).or_insert(0.0) += count as f64 / operations;
    }
    Commands(commands)
}

/// Processor time of a process so far, with its threads that have ended.
pub(crate) fn cpu_of(pid: u32) -> Duration {
    ticks(&format!("/proc/{pid}/stat"), 0)
}

/// The same of this process's children that have ended.
pub(crate) fn cpu_of_ended_children() -> Duration {
    ticks("/proc/self/stat", 2)
}

/// Two neighbours among the times of a process: `utime`, `stime`, `cutime`, `cstime`.
fn ticks(path: &str, first: usize) -> Duration {
    /// How many fields stand between the name and the times.
    const BEFORE: usize = 11;
    let text = fs::read_to_string(path).unwrap();
    // The name may have spaces in it.
    let (_, fields) = text.rsplit_once(") ").unwrap();
    let times = fields.split(' ').skip(BEFORE + first).take(2);
    let ticks: u64 = times.map(|time| time.parse::<u64>().unwrap()).sum();
    Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_spends_processor_time() {
        let before = cpu_of(std::process::id());

        while cpu_of(std::process::id()) == before {
            std::hint::black_box(1 + 1);
        }
    }
}
