//! Replays recorded traffic of the live service and compares the responses.
//!
//! `golden/README.md` says where the recordings come from and how they are written. Each recorded
//! test runs against its own server. Values that cannot repeat are mapped: etags, Timestamps and
//! continuation tokens are bound to what the server returned and inserted into later requests; host
//! and account are translated; shared access signatures are signed again. Everything else is
//! compared, down to the order of properties and the spelling of numbers.

mod bindings;
mod compare;
mod corpus;
mod multipart;
mod replay;
mod sas;
mod xml;

/// Recorded tests that cannot match, each with the reason. `docs/compat.md` repeats them.
const KNOWN_DIFFERENCES: &[(&str, &str)] = &[];

/// Replays a directory of recordings, which must contain `tests` tests.
fn check(suite: &str, tests: usize) {
    let only = std::env::var("LAZULI_GOLDEN").unwrap_or_default();
    let recordings = corpus::load(suite);
    assert_eq!(recordings.len(), tests, "{suite}");
    let mut failures = Vec::new();
    for recording in recordings.iter().filter(|recording| recording.name.contains(&only)) {
        let differences = replay::run(recording);
        let is_known = KNOWN_DIFFERENCES.iter().any(|(name, _)| *name == recording.name);
        match differences.is_empty() {
            true => assert!(!is_known, "{} matches now: take it off the list", recording.name),
            false if is_known => {}
            false => failures.push(format!("{}\n{}", recording.name, differences.join("\n"))),
        }
    }
    let count = failures.len();
    assert!(failures.is_empty(), "{count} of {suite} differ:\n\n{}", failures.join("\n\n"));
}

#[test]
fn recordings_of_the_python_client() {
    check("python", 298);
}

#[test]
fn recordings_of_the_storage_client_of_python() {
    check("storage-python", 101);
}

#[test]
fn recordings_of_the_cosmosdb_client_of_python() {
    check("cosmosdb-table-python", 28);
}

#[test]
fn recordings_of_the_java_client() {
    check("java", 51);
}

#[test]
fn recordings_of_the_javascript_client() {
    check("js", 29);
}

#[test]
fn recordings_of_the_go_client() {
    check("go", 43);
}

#[test]
fn recordings_of_the_storage_client_of_node() {
    check("storage-node", 38);
}

/// The comparison must be able to fail: it detects every change to a recording.
#[test]
fn what_differs_is_noticed() {
    type Change = fn(&mut corpus::Step);
    let changes: [(&str, Change); 8] = [
        ("status", |step| step.status += 1),
        ("a header less", |step| step.answer.headers.retain(|(name, _)| name != "cache-control")),
        ("a header more", |step| step.answer.headers.push(("allow".into(), "GET".into()))),
        ("a value", |step| change(step, "\"age\":39", "\"age\":40")),
        ("a type", |step| change(step, "\"age\":39", "\"age\":39.0")),
        ("an order", |step| {
            change(step, "\"age\":39,\"sex\":\"male\"", "\"sex\":\"male\",\"age\":39")
        }),
        ("a message", |step| change(step, "does not exist", "is not there")),
        ("an etag", |step| change(step, "{etag 2}", "{etag 1}")),
    ];
    let names = ["test_update_entity", "test_get_entity_not_existing"];
    let names = names.map(|name| format!("python/test_table_entity.{name}"));
    for (what, change) in changes {
        let mut recordings = corpus::load("python");
        recordings.retain(|recording| names.contains(&recording.name));
        for recording in &mut recordings {
            assert_eq!(replay::run(recording), [""; 0]);
            recording.steps.iter_mut().for_each(change);
        }
        let noticed = |recording: &corpus::Recording| !replay::run(recording).is_empty();
        assert!(recordings.iter().any(noticed), "{what}");
    }
}

fn change(step: &mut corpus::Step, from: &str, to: &str) {
    step.answer.body = step.answer.body.take().map(|body| body.replace(from, to));
}
