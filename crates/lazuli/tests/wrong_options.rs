//! O-6.5: a wrong value of any option of `lazuli serve` ends it with 2, before it opens or creates a
//! store, and the message names the option, the variable if the value comes from there, and what to do.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_lazuli");

/// A wrong value of each option, and a part of the reason that is printed.
const WRONG: &[(&str, &str, &str)] = &[
    ("config", "nowhere", "cannot read nowhere"),
    ("data", "", "a value is required"),
    ("host", "no such host", "neither an address nor a name"),
    ("services", "blob", "expected `table`, `queue` or `table,queue`"),
    ("table-port", "65536", "65536 is not in 0..=65535"),
    ("queue-port", "", "cannot parse integer from empty string"),
    ("admin", "10003", "expected ADDRESS:PORT"),
    ("admin-insecure", "x", "true, false"),
    ("admin-name", "a b", "expected a host name"),
    ("admin-token-file", "empty", "empty holds no token"),
    ("metrics-token-file", "nowhere", "cannot read nowhere"),
    ("host-suffix", "a/b", "expected what follows the account"),
    ("tls", "x", "true, false"),
    ("tls-cert", "empty", "without its private key"),
    ("tls-key", "empty", "without its certificate"),
    ("accounts", "abc", "account 1 of the list is not name:key"),
    ("accounts-file", "empty", "no account is given"),
    ("durability", "interval=0", "1 to 60000 milliseconds"),
    ("in-memory", "x", "true, false"),
    ("strict-versions", "x", "true, false"),
    ("skip-api-version-check", "x", "true, false"),
    ("profile", "x", "azure, lenient"),
    ("extensions", "x", "asked, always, never"),
    ("port-file", "nowhere/ports", "cannot write nowhere/ports"),
    ("log", "verbose", "expected error, warn, info, debug, trace or a filter"),
    ("log-file", "nowhere/log", "cannot open the log file nowhere/log"),
    ("log-format", "x", "human, json"),
    ("access-log", "x", "off, errors, all"),
    ("slow-ms", "-1", "-1 is not in 0.."),
    ("slow-query-ms", "1s", "invalid digit"),
    ("waste-ratio", "x", "invalid digit"),
    ("log-literals", "x", "true, false"),
    ("snapshots-max", "x", "invalid digit"),
    ("snapshot-minutes", "0", "0 is not in 1..=1440"),
    ("auto-index", "17", "17 is not in 0..=16"),
    ("prices", "empty", "empty: "),
    ("log-query", "x", "true, false"),
    ("silent", "x", "true, false"),
    ("engine", "mysql://host/", "not the address of a store"),
    ("engine-password-file", "empty", "without --engine"),
    ("engine-chunks-mib", "0", "number would be zero"),
    ("postgres-connections", "0", "number would be zero"),
    ("tikv-gc", "x", "true, false"),
    ("gateway-id", "", "a value is required"),
    ("unsafe-store", "x", "true, false"),
    ("memory", "63M", "a size of at least 64M"),
    ("connections-max", "0", "number would be zero"),
    ("header-kib-max", "7", "7 is not in 8..=1024"),
    ("headers-max", "15", "15 is not in 16..=10000"),
    ("body-memory-mib", "0", "number would be zero"),
    ("answer-memory-mib", "0", "number would be zero"),
    ("message-memory-mib", "0", "number would be zero"),
    ("ready-messages-max", "31", "31 is not in 32"),
    ("known-tables-max", "0", "number would be zero"),
    ("known-queues-max", "0", "number would be zero"),
    ("active-queues-max", "0", "number would be zero"),
    ("queue-doubts-max", "0", "number would be zero"),
    ("count-changes-max", "0", "number would be zero"),
    ("queries-max", "0", "number would be zero"),
    ("waiters-max", "x", "invalid digit"),
    ("advice-mib", "64M", "invalid digit"),
    ("advice-requests-max", "0", "number would be zero"),
    ("memory-wait-seconds", "1m", "expected whole seconds, 0 to 86400"),
    ("idle-seconds", "0", "expected whole seconds, 1 to 86400"),
    ("stall-seconds", "0", "expected whole seconds, 1 to 86400"),
    ("handshake-seconds", "0", "expected whole seconds, 1 to 86400"),
    ("drain-seconds", "86401", "expected whole seconds, 0 to 86400"),
    ("grace-seconds", "0.5", "expected whole seconds, 0 to 86400"),
    ("cache-mib", "x", "invalid digit"),
    ("memtable-mib", "0", "number would be zero"),
    ("commit-queue-mib", "0", "number would be zero"),
    ("commit-wait-seconds", "x", "expected whole seconds, 0 to 86400"),
    ("commit-group-max", "0", "number would be zero"),
    ("disk-reserve-mib", "4294967296", "is not in 0.."),
    ("log-queue-lines", "0", "number would be zero"),
    ("early-pages", "x", "invalid digit"),
    ("table-deletion-seconds", "0", "number would be zero"),
    ("queue-deletion-seconds", "0", "number would be zero"),
    ("filter-comparisons-max", "0", "number would be zero"),
    ("account-rate-max", "0", "number would be zero"),
    ("partition-rate-max", "0", "number would be zero"),
    ("oidc-issuer", "", "a value is required"),
    ("oidc-jwks", "http://", "'http://' is not a URL"),
    ("oidc-audience", "", "a value is required"),
    ("oidc-role", "a=owner", "without an issuer and its keys"),
    ("oidc-authorization-uri", "login", "expected an http or https URL"),
    ("bearer-over-http", "x", "true, false"),
    ("user-delegation", "x", "true, false"),
    ("explain-auth", "x", "true, false"),
];

/// Each case ends it with 2, says why with all of `parts`, and leaves nothing behind.
#[track_caller]
fn check(arguments: &[&str], variable: Option<(&str, &str)>, parts: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("empty"), "").unwrap();
    let output = Command::new(BINARY)
        .arg("serve")
        .args(arguments)
        .envs([("LAZULI_TABLE_PORT", "0"), ("LAZULI_QUEUE_PORT", "0"), ("LAZULI_ADMIN", "off")])
        .envs(variable)
        .current_dir(directory.path())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?} {variable:?}: {text}");
    for part in parts {
        assert!(text.contains(part), "{arguments:?} {variable:?}: no {part}: {text}");
    }
    assert!(text.contains("\nhint: ") || text.contains("\nFor more information, "), "{text}");
    assert_eq!(files(directory.path()), ["empty"], "{arguments:?} {variable:?}");
}

fn files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The options that `lazuli serve --help` lists.
fn options() -> BTreeSet<String> {
    let output = Command::new(BINARY).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| {
        let line = line.trim_start();
        let line = line.split_once(", --").map_or(line, |(_, long)| long);
        let line = line.strip_prefix("--").unwrap_or(line);
        Some(line.split([' ', '[']).next()?.to_owned())
    };
    let lines = help.lines().filter(|line| line.trim_start().starts_with('-'));
    // A line of a description may begin with the name of an option, and end there with a bracket.
    let is_name = |name: &String| name.bytes().all(|c| c.is_ascii_lowercase() || c == b'-');
    lines.filter_map(name).filter(is_name).filter(|name| name != "help").collect()
}

#[test]
fn every_option_has_a_wrong_value_here() {
    let known: BTreeSet<_> = WRONG.iter().map(|(option, ..)| (*option).to_owned()).collect();
    assert_eq!(known, options());
}

#[test]
fn a_wrong_value_of_a_flag_is_wrong_usage() {
    for (option, value, reason) in WRONG {
        let flag = format!("--{option}");
        check(&[&format!("{flag}={value}")], None, &[&flag, reason]);
    }
}

/// Nobody would look for it in the environment.
#[test]
fn a_wrong_value_of_a_variable_is_wrong_usage_that_names_the_variable() {
    for (option, value, reason) in WRONG {
        let variable = format!("LAZULI_{}", option.replace('-', "_").to_ascii_uppercase());
        check(&[], Some((&variable, value)), &[&format!("--{option}"), reason, &variable]);
        let flag = format!("--{option}={value}");
        let output = Command::new(BINARY).args(["serve", &flag]).env(&variable, value).output();
        let text = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(!text.contains(&variable), "the flag wins: {text}");
    }
}

#[test]
fn options_that_contradict_each_other_are_wrong_usage() {
    check(&["--strict-versions", "--skip-api-version-check"], None, &["contradict each other"]);
    check(&["--accounts=a:AAAA", "--accounts-file=empty"], None, &["given twice"]);
    check(
        &["--tls-cert=nowhere", "--tls-key=nowhere"],
        None,
        &["cannot read nowhere", "--tls-cert"],
    );
    check(&["--tls-cert=empty", "--tls-key=empty"], None, &["no certificate"]);
    check(&["--oidc-issuer=i"], None, &["--oidc-issuer is given without", "--oidc-jwks"]);
    check(&["--user-delegation"], None, &["--user-delegation is given without", "--oidc-issuer"]);
    let issuer = ["--oidc-issuer=i", "--oidc-jwks=empty"];
    check(&issuer, None, &["the keys in empty", "--oidc-jwks"]);
    check(&[&issuer[..], &["--oidc-role=a=owner"]].concat(), None, &["--oidc-role: 'owner'"]);
    check(&["--engine=postgres://db/x", "--data=d"], None, &["--engine and --data exclude"]);
    check(&["--engine=postgres://u:secret@db/x"], None, &["--engine-password-file"]);
    check(&["--admin=0.0.0.0:0"], None, &["--admin-insecure"]);
    check(
        &["--admin=192.0.2.1:0", "--admin-insecure"],
        None,
        &["not an address of this", "--admin"],
    );
    check(&["--host=192.0.2.1"], None, &["not an address of this machine", "--host"]);
    check(&["--tableHost=a", "--queueHost=b"], None, &["differ"]);
    check(&["--data=empty"], None, &["--data empty is not a directory"]);
    check(&["--data=."], None, &["not a lazuli data directory", "--data"]);
    check(&["--no-such-option"], None, &["unexpected argument '--no-such-option'"]);
}

/// The file is written once the server accepts requests: that it cannot be must not be found then.
#[test]
fn a_port_file_that_cannot_be_written_is_found_before_the_store_is_created() {
    for bad in ["nowhere/ports.json", "empty/ports.json", "."] {
        check(&["--port-file", bad], None, &[&format!("cannot write {bad}"), "--port-file"]);
    }
}
