//! What a script may do on the server: writes that can be repeated, an expiry for every key, messages last.

use super::Finding;
use super::lua_code::{Line, Script};
use crate::tree::Tree;

/// Commands that add instead of setting: a repeated call would count twice.
const ADDING: [&str; 9] = [
    "INCR",
    "INCRBY",
    "INCRBYFLOAT",
    "DECR",
    "DECRBY",
    "HINCRBY",
    "HINCRBYFLOAT",
    "ZINCRBY",
    "APPEND",
];

/// Commands that change or scan the whole server.
const SERVER_WIDE: [&str; 9] = [
    "KEYS",
    "SCAN",
    "RANDOMKEY",
    "DBSIZE",
    "FLUSHALL",
    "FLUSHDB",
    "SWAPDB",
    "SELECT",
    "CONFIG",
];

/// Commands that can create a key.
const CREATING: [&str; 13] = [
    "SET", "SETNX", "GETSET", "MSET", "HSET", "HSETNX", "HMSET", "ZADD", "SADD", "RPUSH", "LPUSH",
    "RESTORE", "COPY",
];

const EXPIRING: [&str; 4] = ["PEXPIRE", "PEXPIREAT", "PSETEX", "EXPIRE"];

const PUBLISHING: [&str; 2] = ["PUBLISH", "SPUBLISH"];

/// Commands that change nothing; every command that is not listed counts as a write.
const READING: [&str; 35] = [
    "EXISTS",
    "GET",
    "HEXISTS",
    "HGET",
    "HGETALL",
    "HKEYS",
    "HLEN",
    "HMGET",
    "HRANDFIELD",
    "HSCAN",
    "HVALS",
    "LINDEX",
    "LLEN",
    "LPOS",
    "LRANGE",
    "MGET",
    "PEXPIRETIME",
    "PTTL",
    "PUBLISH",
    "SCARD",
    "SISMEMBER",
    "SMEMBERS",
    "SPUBLISH",
    "STRLEN",
    "TIME",
    "TTL",
    "TYPE",
    "ZCARD",
    "ZCOUNT",
    "ZRANGE",
    "ZRANGEBYSCORE",
    "ZRANK",
    "ZREVRANGE",
    "ZSCORE",
    "ZMSCORE",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    super::scripts(tree)
        .flat_map(|(path, text)| check_file(path, text))
        .collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let script = Script::new(text);
    let mut findings = check_commands(path, &script);
    findings.extend(check_expiry(path, &script));
    for line in writes_after_publish(&script) {
        let what = "a write after a message: whoever hears it would look too early";
        findings.push(Finding::new(path, line, what));
    }
    findings
}

fn check_commands(path: &str, script: &Script<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in &script.code {
        for command in line.commands() {
            let what = match command.as_deref() {
                None => "the command is not written out where it is called".to_owned(),
                Some(name) if ADDING.contains(&name) => {
                    format!("`{name}` counts twice when it is repeated: set, never add")
                }
                Some(name) if SERVER_WIDE.contains(&name) => {
                    format!("`{name}` reaches beyond the keys of the call")
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(path, line.number, what));
        }
    }
    findings
}

/// A script that can create a key makes it expire, or says in a line `-- stays …` which key does not, and why.
fn check_expiry(path: &str, script: &Script<'_>) -> Option<Finding> {
    let expires = |line: &Line<'_>| {
        line.calls(&EXPIRING) || line.text.contains("'PX'") || line.text.contains("'PXAT'")
    };
    if script.has_header("stays") || script.code.iter().any(expires) {
        return None;
    }
    let line = script.code.iter().find(|line| line.calls(&CREATING))?;
    let what = "it can create a key, but never sets an end to one (`-- stays …` tells why not)";
    Some(Finding::new(path, line.number, what))
}

/// The numbers of lines that write on a path on which a message was published before. Judged by indentation.
fn writes_after_publish(script: &Script<'_>) -> Vec<usize> {
    let mut writes = Vec::new();
    for (at, line) in script.code.iter().enumerate() {
        if line.calls(&PUBLISHING) && !line.text.starts_with("return") {
            let after = script.code.get(at + 1..).unwrap_or_default();
            writes.extend(writes_on_path(after, line.indent));
        }
    }
    writes
}

/// Follows the code from a line with this indentation until the path returns for certain.
fn writes_on_path(after: &[Line<'_>], mut indent: usize) -> Vec<usize> {
    let mut writes = Vec::new();
    let mut lines = after.iter();
    while let Some(line) = lines.next() {
        if line.indent < indent {
            indent = line.indent;
            if line.text.starts_with("else") {
                // The other branch is another path.
                let is_end =
                    |line: &&Line<'_>| line.indent == indent && line.text.starts_with("end");
                lines.find(is_end);
                continue;
            }
        }
        if line
            .commands()
            .into_iter()
            .flatten()
            .any(|command| !READING.contains(&command.as_str()))
        {
            writes.push(line.number);
        }
        if line.indent == indent && line.text.starts_with("return") {
            break;
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        check_file("x.lua", text)
            .into_iter()
            .map(|found| found.line)
            .collect()
    }

    #[test]
    fn a_write_after_a_message_is_found_on_any_path_that_does_not_return() {
        let straight = "redis.call('PUBLISH', c, '0')\nredis.call('DEL', k)";
        let after_branch =
            "if a then\n    redis.call('PUBLISH', c, '0')\nend\nredis.call('DEL', k)\nreturn 1";
        let maybe =
            "redis.call('PUBLISH', c, '0')\nif a then\n    return 0\nend\nredis.call('DEL', k)";
        let behind_else = "if a then\n    redis.call('PUBLISH', c, '0')\nelse\n    redis.call('DEL', k)\nend\nredis.call('DEL', k)";

        assert_eq!(lines(straight), [2]);
        assert_eq!(lines(after_branch), [4]);
        assert_eq!(lines(maybe), [5]);
        assert_eq!(lines(behind_else), [6]);
    }

    #[test]
    fn a_message_that_ends_its_path_is_fine() {
        let returned =
            "if a then\n    return redis.call('PUBLISH', c, '0')\nend\nredis.call('DEL', k)";
        let then_return =
            "if a then\n    redis.call('PUBLISH', c, '0')\n    return 1\nend\nredis.call('DEL', k)";
        let other_branch = "if a then\n    redis.call('PUBLISH', c, '0')\nelseif b then\n    redis.call('DEL', k)\nend\nreturn redis.call('PTTL', k)";

        assert_eq!(lines(returned), NONE);
        assert_eq!(lines(then_return), NONE);
        assert_eq!(lines(other_branch), NONE);
    }

    #[test]
    fn commands_that_add_or_scan_the_server_or_are_not_literals_are_found() {
        for bad in [
            "redis.call('HINCRBY', k, f, 1)",
            "redis.call('incr', k)",
            "redis.call('KEYS', '*')",
            "redis.call(\"SCAN\", 0)",
            "redis.call(command, k)",
            "local call = redis.call",
        ] {
            assert_eq!(lines(bad), [1], "{bad}");
        }
        assert_eq!(
            lines("redis.call('HSCAN', k, 0)\nredis.call('HKEYS', k)"),
            NONE
        );
    }

    #[test]
    fn a_key_without_an_expiry_is_found_unless_the_header_says_why() {
        let bare = "redis.call('HSET', k, f, 1)";

        assert_eq!(lines(bare), [1]);
        assert_eq!(lines(&format!("{bare}\nredis.call('PEXPIRE', k, t)")), NONE);
        assert_eq!(lines("redis.call('SET', k, 1, 'PX', t)"), NONE);
        assert_eq!(
            lines(&format!("-- stays the fence: it only grows\n{bare}")),
            NONE
        );
        assert_eq!(
            lines("-- HSET is not called\nredis.call('HDEL', k, f)"),
            NONE
        );
    }
}
