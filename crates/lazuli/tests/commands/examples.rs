//! Every command's help ends with two examples that run (O-9.1).

use crate::harness::{Lazuli, PEOPLE, member};
use std::process::Command;

/// The examples at the end of a help text.
fn examples(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("Examples:\n") else { return Vec::new() };
    list.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The words that select each command of `lazuli`, as its help lists them.
fn leaves(lazuli: &Lazuli, path: &[&str]) -> Vec<Vec<String>> {
    let help = lazuli.run(&[path, &["--help"]].concat());
    assert_eq!(help.code, 0, "{path:?}: {help:?}");
    let Some((_, list)) = help.stdout.split_once("Commands:\n") else {
        return vec![path.iter().map(|word| (*word).to_owned()).collect()];
    };
    let list = list.split("\n\n").next().unwrap();
    let verbs = list.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let verbs = verbs.filter(|verb| !verb.is_empty() && *verb != "help");
    verbs.flat_map(|verb| leaves(lazuli, &[path, &[verb]].concat())).collect()
}

fn prepare(lazuli: &Lazuli) {
    lazuli.file("people.jsonl", PEOPLE);
    lazuli.file("changes.jsonl", r#"{"put":{"PartitionKey":"Sales","RowKey":"00012"}}"#);
    lazuli.file("token.txt", &crate::sas::token("r", "2099-01-01T00:00:00Z"));
    lazuli.ok("tables create People --if-missing");
    lazuli.ok("tables create Old --if-missing");
    lazuli.ok("tables delete Orders --if-present --yes");
    lazuli.ok("entities put People people.jsonl");
    lazuli.ok("index set People byCity City --no-wait");
    lazuli.ok("feed on People");
    lazuli.ok("ttl set Old --seconds 86400");
    lazuli.ok("tables acl set People readers");
    lazuli.ok("tables acl set People writers");
    lazuli.file("staff.json", crate::table_indexes::LAYOUT);
    lazuli.ok("tables create Staff --if-missing");
    lazuli.run_with(&["entities", "put", "Staff", "-"], crate::table_indexes::STAFF);
    lazuli.line("table index repair Staff --layout staff.json --yes");
    lazuli.ok("queues create jobs");
    lazuli.ok("queues create old");
    lazuli.ok("queues send jobs work");
}

#[test]
fn every_command_has_two_examples_that_run() {
    let lazuli = Lazuli::start();
    let bin = lazuli.home().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lazuli"), bin.join("lazuli")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut ran = 0;
    for noun in [
        "tables",
        "table",
        "entities",
        "queues",
        "sas",
        "explain",
        "advise",
        "index",
        "feed",
        "changes",
        "ttl",
        "verify",
        "rebuild",
        "completions",
    ] {
        for leaf in leaves(&lazuli, &[noun]) {
            let words: Vec<&str> = leaf.iter().map(String::as_str).chain(["--help"]).collect();
            let examples = examples(&lazuli.run(&words).stdout);
            assert_eq!(examples.len(), 2, "{leaf:?}");
            for example in examples {
                assert!(example.contains(&format!("lazuli {}", leaf.join(" "))), "{example}");
                prepare(&lazuli);
                let mut shell = Command::new("sh");
                lazuli.prepare(&mut shell);
                if example.contains("$ID") {
                    let line = lazuli.ok("queues receive jobs --json");
                    shell.env("ID", member(&line, "id"));
                    shell.env("POP_RECEIPT", member(&line, "popReceipt"));
                }
                let shell = shell.env("PATH", &path).args(["-c", &example]).output().unwrap();
                assert!(shell.status.success(), "{example}: {shell:?}");
                ran += 1;
            }
        }
    }
    assert!(ran >= 50, "only {ran} examples ran");
}
