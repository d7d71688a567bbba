//! What a server saw while some work was done: which commands, and what its scripts cost it.

use std::collections::BTreeMap;
use testkit::Server;

/// The text that ends the counting.
const END: &str = "end of the count";

/// Counts what clients send by TCP while the work lasts, without the PINGs that keep connections alive: by command, a script call
/// by its command and the script's hash.
///
/// Commands that scripts call do not count, and the benchmark itself uses another kind of socket.
pub(crate) fn count_calls<T>(
    server: &Server,
    work: impl FnOnce() -> T,
) -> (BTreeMap<String, u64>, T) {
    let mut monitor = server.connect();
    assert_eq!(monitor.command(&["MONITOR"]), "OK".into());
    let counting = std::thread::spawn(move || {
        let mut counts = BTreeMap::new();
        loop {
            let line = monitor.receive().unwrap().text();
            match client_call(&line) {
                Some(call) if call != "PING" => *counts.entry(call).or_insert(0) += 1,
                _ if line.contains(END) => return counts,
                _ => {}
            }
        }
    });
    let done = work();
    server.command(&["ECHO", END]);
    (counting.join().unwrap(), done)
}

/// What a line of `MONITOR` shows, if a client sent it by TCP.
fn client_call(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("[0 127.0.0.1:")?;
    let mut words = rest.split('"').skip(1).step_by(2);
    let command = words.next()?.to_uppercase();
    match (command.as_str(), words.next()) {
        ("EVALSHA", Some(hash)) => Some(format!("{command} {hash}")),
        _ => Some(command),
    }
}

/// Calls of scripts so far, and the time that the server spent in them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scripts {
    pub(crate) calls: u64,
    pub(crate) micros: f64,
}

impl Scripts {
    /// Since the server was started.
    pub(crate) fn so_far(server: &Server) -> Self {
        let stats = server.info("commandstats");
        let of = |field: &str, name: &str| {
            let parts = stats.get(field)?.split(',');
            let (_, value) = parts
                .filter_map(|part| part.split_once('='))
                .find(|(part, _)| *part == name)?;
            value.trim().parse::<f64>().ok()
        };
        let sum = |name| {
            let both = ["cmdstat_evalsha", "cmdstat_eval"];
            both.iter().filter_map(|field| of(field, name)).sum::<f64>()
        };
        Self {
            calls: sum("calls") as u64,
            micros: sum("usec"),
        }
    }

    /// Those from `before` to this.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            calls: self.calls - before.calls,
            micros: self.micros - before.micros,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_commands_that_clients_send_by_tcp_are_counted() {
        let of_client = r#"1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" "abc" "1" "x""#;
        let other = r#"1700000000.123456 [0 127.0.0.1:50000] "subscribe" "x""#;
        let of_script = r#"1700000000.123456 [0 lua] "EXISTS" "orders""#;
        let of_bench = r#"1700000000.123456 [0 unix:/run/redis.sock] "INFO" "cpu""#;

        assert_eq!(client_call(of_client).as_deref(), Some("EVALSHA abc"));
        assert_eq!(client_call(other).as_deref(), Some("SUBSCRIBE"));
        assert_eq!(client_call(of_script), None);
        assert_eq!(client_call(of_bench), None);
    }

    #[test]
    fn the_calls_of_a_span_are_those_at_its_end_without_those_at_its_beginning() {
        let [before, after] =
            [(3, 40.5), (5, 100.0)].map(|(calls, micros)| Scripts { calls, micros });

        let spent = after.since(before);

        assert_eq!((spent.calls, spent.micros), (2, 59.5));
    }
}
