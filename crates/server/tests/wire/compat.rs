//! `docs/compat.md` names places in code and tests; this test keeps the names correct.

use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = include_str!("../../../../docs/compat.md");

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Marks the end of the page.
const END: &str = "";

/// The cells of the tables below the heading `from`, up to the heading `to`.
fn rows(from: &str, to: &str) -> Vec<Vec<&'static str>> {
    let (_, rest) = PAGE.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    let part = match to {
        END => rest,
        to => rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0,
    };
    let rows = part.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    let cells = rows.map(|row| row.split(" | ").map(str::trim).collect::<Vec<_>>());
    cells.filter(|cells| !cells.iter().all(|cell| cell.starts_with("---"))).collect()
}

/// The words of a cell in backquotes.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// `wire/uri.rs` is `crates/wire/src/uri.rs`.
fn source(place: &str) -> String {
    let (name, file) = place.split_once('/').unwrap_or_else(|| panic!("{place} has no crate"));
    let path = workspace().join("crates").join(name).join("src").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{place}: {error}"))
}

#[test]
fn every_unverified_rule_names_a_place_that_exists() {
    let mut rows = self::rows("## Unverified rules", "## What is missing");
    rows.extend(self::rows("### Unverified rules of queues", END));
    let rules = rows.iter().filter(|cells| cells.last() != Some(&"where"));
    for cells in rules.clone() {
        let [rule, _, place] = cells[..] else { panic!("{cells:?}") };
        let mut text = None;
        for word in quoted(place) {
            if word.contains(".rs") {
                text = Some(source(word));
                continue;
            }
            let name = word.rsplit("::").next().unwrap_or(word);
            let name = name.trim_end_matches("<TableError>").trim_end_matches("()");
            let found = text.as_ref().is_some_and(|text| text.contains(name));
            assert!(found, "{rule}: {word} is not in {place}");
        }
        assert!(text.is_some() || place == "nowhere read", "{rule}: {place}");
    }
    assert!(rules.count() > 100);
}

#[test]
fn every_operation_names_tests_that_exist() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut rows = self::rows("## Operations", "## Where we differ on purpose");
    rows.extend(self::rows("### Queue operations", "### Where queues differ on purpose"));
    for cells in rows.iter().filter(|cells| cells.last() != Some(&"tests")) {
        let named = cells.last().copied().unwrap_or_default();
        assert!(named.contains("golden") || named.contains('`'), "{cells:?}");
        for word in quoted(named) {
            let places = [
                tests.join("wire").join(format!("{word}.rs")),
                tests.join(word).join("main.rs"),
                workspace().join("crates").join(word),
            ];
            assert!(places.iter().any(|place| place.is_file()), "{word} of {cells:?}");
        }
    }
}
