//! Which replies each script has given: success and failure of every script are compared, or the comparison says little.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::calls::{Call, Way};
use super::seen::Seen;
use crate::protocol::scripts;

/// What each script replies, in the order of its header. A list counts by its first element; `part` stands before the reply
/// of a release that leaves holds.
const REPLIES: [(&str, &[&str]); 34] = [
    ("fair_lock/acquire", &["nil", "[more", "[-2"]),
    ("fair_lock/force_unlock", &["1", "0"]),
    ("fair_lock/leave", &["0", "-1", "-2"]),
    ("fair_lock/release", &["0", "part 0", "-1", "-2"]),
    ("fenced_lock/acquire", &["digits", "more"]),
    ("fenced_lock/acquire_on_node", &["digits", "more", "FRESH"]),
    ("fenced_lock/raise", &["1", "0", "-1"]),
    ("key/type", &["hash", "none"]),
    ("lock/acquire", &["nil", "more"]),
    ("lock/delay_release", &["1", "0", "-1"]),
    ("lock/force_unlock", &["1", "0"]),
    ("lock/inspect", &["[more", "[-2"]),
    ("lock/reenter", &["1", "0", "-1"]),
    ("lock/release", &["0", "part 0", "-1", "-2"]),
    ("lock/renew", &["[1", "[0", "[-1", "WRONGTYPE"]),
    ("multi_lock/acquire", &["[0", "[1", "[2"]),
    ("multi_lock/release", &["[0", "[-1", "[-2"]),
    ("quorum_node/initialise", &["1"]),
    ("rw_lock/downgrade", &["0", "-1", "-2"]),
    ("rw_lock/force_unlock", &["1", "0"]),
    ("rw_lock/inspect", &["[more", "[-2"]),
    ("rw_lock/read_acquire", &["nil", "more"]),
    ("rw_lock/read_delay", &["1", "0", "-1"]),
    ("rw_lock/read_reenter", &["1", "0", "-1"]),
    ("rw_lock/read_release", &["0", "-3", "part 0", "-1", "-2"]),
    ("rw_lock/read_renew", &["[1", "[0", "[-1"]),
    ("rw_lock/write_abandon", &["0", "-1"]),
    ("rw_lock/write_acquire", &["nil", "more"]),
    ("rw_lock/write_delay", &["1", "0", "-1"]),
    ("rw_lock/write_reenter", &["1", "0", "-1"]),
    ("rw_lock/write_release", &["0", "part 0", "-1", "-2"]),
    ("rw_lock/write_renew", &["[1", "[0", "[-1"]),
    ("spin_lock/force_unlock", &["1", "0"]),
    ("spin_lock/release", &["0", "part 0", "-1", "-2"]),
];

/// What is seen so rarely may not be seen at all in the next run: such calls should be made more often.
const RARE: u32 = 12;

/// The replies of each script so far, and how often.
#[derive(Debug, Default)]
pub(super) struct Branches(BTreeMap<String, BTreeMap<String, u32>>);

impl Branches {
    pub(super) fn note(&mut self, call: &Call, reply: &Seen) {
        if call.way != Way::Script {
            return;
        }
        let (script, keys) = (&call.words[0], call.words[1].parse::<usize>().unwrap());
        let leaves = call
            .words
            .get(2 + keys + 1)
            .is_some_and(|count| count != "0");
        // These leave nothing, and have no count.
        let is_whole = script.contains("delay") || script == "multi_lock/release";
        let part = match script.ends_with("release") && !is_whole && leaves {
            true => "part ",
            false => "",
        };
        let replies = self.0.entry(script.clone()).or_default();
        *replies
            .entry(format!("{part}{}", shape(reply)))
            .or_default() += 1;
    }

    /// The replies that a script can give and did not.
    pub(super) fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for (script, replies) in REPLIES {
            for reply in replies {
                let seen = self.0.get(script).and_then(|seen| seen.get(*reply));
                match seen {
                    None => missing.push(format!("{script}: {reply}")),
                    Some(times) if *times < RARE => println!("rare: {script}: {reply}: {times}"),
                    Some(_) => {}
                }
            }
        }
        missing
    }
}

fn shape(reply: &Seen) -> String {
    match reply {
        Seen::Plain(inner) => shape(inner),
        Seen::False | Seen::Nothing => "nil".to_owned(),
        Seen::Int(number) => of_number(*number as f64),
        Seen::Number(number) => of_number(*number),
        // Redis 7.0 shows an error that a script makes with a dash before it.
        Seen::Error(text) => {
            let code = text.split(' ').next().unwrap_or_default();
            code.trim_start_matches('-').to_owned()
        }
        Seen::List(list) => format!("[{}", list.first().map_or_else(String::new, shape)),
        Seen::Text(text) | Seen::Status(text) => match text.parse::<u64>() {
            Ok(_) => "digits".to_owned(),
            Err(_) => text.clone(),
        },
    }
}

fn of_number(number: f64) -> String {
    match (-3.0..=2.0).contains(&number) {
        true => format!("{number}"),
        false => "more".to_owned(),
    }
}

#[test]
fn the_table_of_replies_has_every_script() {
    let listed: BTreeSet<&str> = REPLIES.iter().map(|(script, _)| *script).collect();
    let all: BTreeSet<&str> = scripts().iter().map(|script| script.name).collect();

    assert_eq!(listed, all);
    assert_eq!(listed.len(), REPLIES.len());
}

/// A file of Lua that is in no script that is compared would not be compared. `several` is a kind for tests alone.
#[test]
fn every_file_of_lua_is_a_script_or_a_part_of_one() {
    let protocol = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/protocol");
    let mut files = 0;
    for folder in fs::read_dir(protocol).unwrap().map(|entry| entry.unwrap()) {
        if !folder.path().is_dir() || folder.file_name() == "several" {
            continue;
        }
        for file in fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "lua") {
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            let is_in = scripts()
                .iter()
                .any(|script| script.source.contains(&source));
            assert!(is_in, "{} is in no script", path.display());
            files += 1;
        }
    }
    assert!(files > REPLIES.len(), "{files} files");
}
