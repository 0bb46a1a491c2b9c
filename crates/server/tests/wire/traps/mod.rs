//! One test for each behaviour that emulators get wrong, by section.

mod conditions;
mod entities;
mod headers;
mod keys;
mod queries;
mod recorded;
mod transactions;

/// The doc comment of each test opens with the number of its entry.
#[test]
fn every_trap_has_a_test() {
    let sources = [
        include_str!("queries.rs"),
        include_str!("entities.rs"),
        include_str!("keys.rs"),
        include_str!("conditions.rs"),
        include_str!("transactions.rs"),
        include_str!("headers.rs"),
        include_str!("recorded.rs"),
    ];
    for number in 1..=110 {
        let citation = format!("/// TR-{number}: ");
        let tests: usize = sources.iter().map(|source| source.matches(&citation).count()).sum();
        assert!(tests > 0, "TR-{number} has no test");
    }
}
