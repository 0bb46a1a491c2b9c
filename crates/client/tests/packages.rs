//! The default features stay small (C-1.7).

use std::collections::BTreeSet;
use std::process::Command;

const PACKAGES_MAX: usize = 70;

#[test]
fn the_default_features_need_few_packages_and_no_build_script_of_ours() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "lazuli-client", "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // A package that was printed earlier is marked.
    let packages = text.lines().map(|line| line.trim_end_matches(" (*)"));
    let packages: BTreeSet<&str> = packages.filter(|line| !line.is_empty()).collect();
    assert!(packages.len() > 20 && packages.len() <= PACKAGES_MAX, "{packages:#?}");
    // C-1.1.
    let is_of_the_server = |line: &&&str| {
        ["lazuli-server ", "lazuli-table ", "lazuli-engine "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    assert_eq!(packages.iter().find(is_of_the_server), None);
    let build_script = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    assert!(!std::path::Path::new(build_script).exists());
}
