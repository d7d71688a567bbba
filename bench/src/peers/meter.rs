//! What a side's work costs: processor time of both ends, and commands.

use super::duel::{Side, Work};
use crate::lock::server_cpu;
use rustix::param::clock_ticks_per_second;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use testkit::Server;

/// The text that ends the counting.
const END: &str = "end of the count";

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

/// The commands that clients send by TCP while the work lasts, without the PINGs that keep connections alive.
///
/// Commands that scripts call do not count, and the benchmark itself uses another kind of socket. `work` returns the number of
/// its operations.
pub(crate) fn count_commands(server: &Server, work: impl FnOnce() -> f64) -> Commands {
    let mut monitor = server.connect();
    assert_eq!(monitor.command(&["MONITOR"]), "OK".into());
    let counting = std::thread::spawn(move || {
        let mut counts = BTreeMap::new();
        loop {
            let line = monitor.receive().unwrap().text();
            match client_command(&line) {
                Some(command) if command != "PING" => *counts.entry(command).or_insert(0) += 1,
                _ if line.contains(END) => return counts,
                _ => {}
            }
        }
    });
    let operations = work();
    server.command(&["ECHO", END]);
    let counts: BTreeMap<String, u64> = counting.join().unwrap();
    let each = counts.into_iter();
    Commands(
        each.map(|(command, count)| (command, count as f64 / operations))
            .collect(),
    )
}

/// The command in a line of `MONITOR`, if a client sent it by TCP.
fn client_command(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("[0 127.0.0.1:")?;
    rest.split('"').nth(1).map(str::to_uppercase)
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
    fn only_commands_that_clients_send_by_tcp_are_counted() {
        let of_client = r#"1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" "abc""#;
        let of_script = r#"1700000000.123456 [0 lua] "EXISTS" "orders""#;
        let of_bench = r#"1700000000.123456 [0 unix:/run/redis.sock] "INFO" "cpu""#;

        assert_eq!(client_command(of_client).as_deref(), Some("EVALSHA"));
        assert_eq!(client_command(of_script), None);
        assert_eq!(client_command(of_bench), None);
    }

    #[test]
    fn a_process_that_works_spends_processor_time() {
        let before = cpu_of(std::process::id());

        while cpu_of(std::process::id()) == before {
            std::hint::black_box(1 + 1);
        }
    }
}
