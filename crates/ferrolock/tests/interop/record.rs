//! Every command that a server gets while a test runs, in order.

use testkit::java::now;
use testkit::{LIMIT, Monitor, Reply, Server};

/// The commands since the record was created.
pub(crate) struct Record<'a> {
    server: &'a Server,
    monitor: Monitor,
}

impl<'a> Record<'a> {
    pub(crate) fn of(server: &'a Server) -> Self {
        Self {
            server,
            monitor: server.monitor(),
        }
    }

    /// Every command so far, including those of scripts.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mark = format!("mark-{}", now().as_nanos());
        let echo = self.server.command(&["ECHO", &mark]);
        assert_eq!(echo, Reply::Text(mark.clone()));
        self.monitor.wait_for(|line| line.contains(&mark), LIMIT);
        self.monitor.lines()
    }

    /// How many releases of the lock were announced.
    pub(crate) fn messages(&self, name: &str) -> usize {
        let channel = format!("\"{}\"", crate::scene::channel(name));
        let lines = self.lines();
        let published = lines.iter().filter(|line| is_a(line, "PUBLISH"));
        published.filter(|line| line.contains(&channel)).count()
    }

    /// How many steps of scripts named this owner. An attempt takes one step: for Java always, for ours if it is refused.
    pub(crate) fn steps_of(&self, owner: &str) -> usize {
        self.steps_with(&format!("\"{owner}\""))
    }

    /// The same for all owners of a client.
    pub(crate) fn steps_of_client(&self, id: &str) -> usize {
        self.steps_with(&format!("\"{id}:"))
    }

    fn steps_with(&self, word: &str) -> usize {
        let lines = self.lines();
        let steps = lines.iter().filter(|line| line.contains(" lua] "));
        steps.filter(|line| line.contains(word)).count()
    }
}

/// Whether a line is this command.
pub(crate) fn is_a(line: &str, command: &str) -> bool {
    // 1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" …
    let words = line.split_once("] ").map_or("", |(_, words)| words);
    let first = words.split(' ').next().unwrap_or("");
    first.trim_matches('"').eq_ignore_ascii_case(command)
}
