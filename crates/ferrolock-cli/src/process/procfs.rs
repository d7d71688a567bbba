//! The state of processes that are not our children, from `/proc`.

use rustix::process::Pid;

/// A line of `/proc/PID/stat`, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) is_alive: bool,
    pub(crate) parent: i32,
    pub(crate) group: i32,
    pub(crate) session: i32,
}

/// `None`: there is no such process, or no such file system.
pub(crate) fn stat(pid: i32) -> Option<Stat> {
    parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process of this group runs or is stopped. `None`: there is no proc file system to ask.
pub(crate) fn has_living(group: Pid) -> Option<bool> {
    let group = group.as_raw_pid();
    let mut folders = std::fs::read_dir("/proc").ok()?;
    // If even we are not in it, it is no proc file system.
    stat(rustix::process::getpid().as_raw_pid())?;
    Some(folders.any(|entry| {
        let pid = entry
            .ok()
            .and_then(|entry| entry.file_name().to_str()?.parse().ok());
        pid.and_then(stat)
            .is_some_and(|stat| stat.group == group && stat.is_alive)
    }))
}

/// The program's name stands in parentheses and may contain any character, so only what follows the last `)` is read.
fn parse(line: &str) -> Option<Stat> {
    let (_, rest) = line.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    let state = words.next()?;
    let mut number = || words.next()?.parse().ok();
    Some(Stat {
        is_alive: !matches!(state, "Z" | "X" | "x"),
        parent: number()?,
        group: number()?,
        session: number()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_an_odd_name_is_read() {
        let stat = parse("7 (a) Z 1 (x)) S 3 4 5 0 -1 4194560").unwrap();

        assert_eq!(
            stat,
            Stat {
                is_alive: true,
                parent: 3,
                group: 4,
                session: 5
            }
        );
    }

    #[test]
    fn a_zombie_is_not_alive() {
        assert!(!parse("7 (x) Z 3 4 5").unwrap().is_alive);
        assert_eq!(parse("7 (x"), None);
    }
}
