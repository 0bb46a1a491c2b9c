//! The folders of the server build on each other in one order, and what all services share knows none
//! of them. The compiler holds such boundaries between crates; between folders this test does.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Words that only the folders of the services may say.
const OF_SERVICES: [&str; 10] = [
    "lazuli_table",
    "crate::table",
    "TableName",
    "TableService",
    "TableApi",
    "lazuli_queue",
    "crate::queue",
    "QueueName",
    "QueueService",
    "QueueApi",
];

/// Names of services as text, which what they share must not say either.
const NAMES: [&str; 2] = ["\"table\"", "\"queue\""];

/// What each part must not name: the parts above it, and services.
const FORBIDDEN: [(&str, &[&str]); 7] = [
    ("error.rs", &["crate::auth", "crate::http"]),
    ("headers.rs", &["crate::auth", "crate::http"]),
    ("operation.rs", &["crate::auth", "crate::http"]),
    ("refusal.rs", &["crate::auth", "crate::http"]),
    ("request_id.rs", &["crate::auth", "crate::http"]),
    ("auth", &["crate::http"]),
    ("http", &[]),
];

fn sources(path: PathBuf) -> io::Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        found.extend(sources(entry?.path())?);
    }
    Ok(found)
}

#[test]
fn no_folder_names_one_that_builds_on_it() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    for (part, above) in FORBIDDEN {
        let files = sources(src.join(part)).unwrap();
        assert!(!files.is_empty(), "{part}");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            // Tests of authentication start a TLS server to fetch keys from.
            let is_test = file.ends_with("tests.rs");
            let above = above.iter().filter(|_| !is_test);
            let is_shared = matches!(part, "auth" | "http") && !is_test;
            let names = NAMES.iter().filter(|_| is_shared);
            for word in above.chain(&OF_SERVICES).chain(names) {
                if text.contains(word) {
                    faults.push(format!("{} names {word}", file.display()));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
