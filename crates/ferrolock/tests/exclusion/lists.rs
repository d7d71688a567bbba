//! The lists of stories, and the table of those that are left out for some kind of lock, agree.

use std::collections::BTreeSet;
use std::path::Path;

use crate::stage::LockKind;
use crate::stage::left_out::LEFT_OUT;

/// The suites whose stories run for every kind.
const SUITES: [&str; 4] = ["exclusion", "waiting", "holding", "cancellation"];

#[test]
fn every_row_of_the_table_names_a_story_and_kinds_that_it_would_run_for() {
    let [paused, exact, everywhere] =
        ["stories", "stories_in_paused_time", "stories_of_every_kind"].map(listed);

    for (kinds, stories, reason) in LEFT_OUT {
        assert!(!reason.is_empty() && !stories.is_empty(), "{stories:?}");
        assert!(
            !kinds.is_empty() && !kinds.contains(&LockKind::Plain),
            "{reason}"
        );
        for story in *stories {
            let is_listed = [&paused, &exact, &everywhere].map(|list| list.contains(*story));
            assert!(is_listed.contains(&true), "no such story: {story}");
            for kind in *kinds {
                let rows = LEFT_OUT
                    .iter()
                    .filter(|row| row.0.contains(kind) && row.1.contains(story));
                assert_eq!(rows.count(), 1, "{story}, {kind}: twice");
            }
        }
    }
}

#[test]
fn every_story_of_every_kind_runs_with_the_plain_lock_too() {
    let others = ["stories", "stories_in_real_time", "stories_of_processes"].map(listed);

    for story in listed("stories_of_every_kind") {
        let is_listed = others.iter().any(|list| list.contains(&story));
        assert!(is_listed, "{story} stands in no other list");
    }
}

/// The stories of all suites that stand in lists of that macro.
fn listed(list: &str) -> BTreeSet<String> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let (begin, mut stories) = (format!("\n{list}!("), BTreeSet::new());
    for suite in SUITES {
        for file in std::fs::read_dir(tests.join(suite)).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let lists = text.split(&begin).skip(1);
            for names in lists.map(|rest| rest.split(");").next().unwrap()) {
                let names = names.trim_start_matches("alone:").split(',');
                let names = names.map(|name| name.trim().to_owned());
                stories.extend(names.filter(|name| !name.is_empty()));
            }
        }
    }
    assert!(!stories.is_empty(), "no list of {list}!");
    stories
}
