//! The committed corpus, and some thousand generated inputs, through every target.

use lazuli_hostile::TARGETS;
use lazuli_hostile::drive::{Mutator, corpus, try_one};
use lazuli_testkit::seed::Seeded;
use std::path::Path;

/// Inputs generated for each target; `cargo xtask fuzz` generates more.
const MADE_UP: usize = 3_000;

#[test]
fn every_target_holds_on_its_corpus_and_near_it() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for target in &TARGETS {
        let seeds = corpus(&directory, target).unwrap();
        assert!(!seeds.is_empty(), "{} has no corpus", target.name);
        let mut mutator = Mutator::new(target, &seeds, Seeded::new(1));
        let made_up = std::iter::repeat_with(|| mutator.input()).take(MADE_UP);
        for input in seeds.iter().cloned().chain(made_up) {
            if let Err(finding) = try_one(target, &input) {
                let text = String::from_utf8_lossy(&finding.input);
                panic!("{}: {} of {:?} = {text}", target.name, finding.message, finding.input);
            }
        }
    }
}

/// cargo-fuzz finds its targets by files and by a list; both must contain every target.
#[test]
fn every_target_can_be_fuzzed() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for target in &TARGETS {
        let name = target.name;
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in the manifest");
        let file = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(file.contains(&format!("run(\"{name}\"")), "{file}");
    }
}
