//! Commands that are stopped, or whose reader goes away.

use crate::harness::{Lazuli, done};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command};

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create Numbers");
    let long = "x".repeat(4000);
    let line = |i| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{i}\",\"Text\":\"{long}\"}}\n");
    let text: String = (0..60).map(line).collect();
    assert_eq!(lazuli.run_with(&["entities", "put", "Numbers"], &text).code, 0);
    for how in ["--json", "--csv", "--all"] {
        let mut child = lazuli.spawn(&["entities", "query", "Numbers", how]);
        let mut first = String::new();
        BufReader::with_capacity(16, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        let ended = done(child);
        assert_eq!((ended.code, &*ended.stderr), (0, ""), "{how}");
    }
}

#[test]
fn a_load_that_is_stopped_says_how_to_go_on() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create People");
    // Nothing was written, so it was just interrupted.
    let mut child = lazuli.spawn(&["entities", "put", "People", "-"]);
    let input = child.stdin.take().unwrap();
    wait_until_reading(&child);
    interrupt(&child);
    assert_eq!(done(child).code, 130);
    drop(input);

    // Inserts are sent one by one: the first one is written while the input continues.
    let mut child = lazuli.spawn(&["entities", "put", "People", "-", "--insert"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}\n").unwrap();
    while lazuli.ok("entities count People") == "0\n" {}
    interrupt(&child);
    let ended = done(child);
    ended.failed(7, &["stopped after 1 entity", "--skip 1"]);
    drop(input);

    // A load in transactions finishes what it has read.
    let mut child = lazuli.spawn(&["entities", "put", "People", "-"]);
    let mut input = child.stdin.take().unwrap();
    let line = |i| format!("{{\"PartitionKey\":\"q\",\"RowKey\":\"{i:04}\"}}\n");
    let text: String = (0..250).map(line).collect();
    input.write_all(text.as_bytes()).unwrap();
    while lazuli.ok("entities count People") == "1\n" {}
    interrupt(&child);
    let ended = done(child);
    ended.failed(7, &["stopped after ", "--skip "]);
    drop(input);
    let (_, count) = ended.stderr.split_once("--skip ").unwrap();
    let count: u64 = count.trim().parse().unwrap();
    assert_eq!(lazuli.ok("entities count People"), format!("{}\n", count + 1));
}

/// The command has set up its signals once its runtime runs: its threads show that.
fn wait_until_reading(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    while std::fs::read_dir(&tasks).unwrap().count() < 2 {}
}

#[test]
fn an_error_goes_to_stderr_and_data_to_stdout() {
    let lazuli = Lazuli::with_people();
    let mut child = lazuli.spawn(&["entities", "query", "Nothing", "--json"]);
    let mut data = String::new();
    child.stdout.take().unwrap().read_to_string(&mut data).unwrap();
    assert_eq!(data, "");
    done(child).failed(3, &["TableNotFound"]);
}

#[test]
fn a_feed_that_is_followed_until_interrupted_says_how_to_go_on() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create People");
    lazuli.ok("feed on People");
    for id in 1..=2 {
        lazuli.ok(&format!("entities put People PartitionKey=p RowKey={id}"));
    }
    // O-9.5: what is needed to go on is no remark, so --quiet does not hide it.
    let mut child = lazuli.spawn(&["changes", "People", "--follow", "--json", "--quiet"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut page = String::new();
    out.read_line(&mut page).unwrap();
    assert!(page.contains("\"RowKey\":\"2\""), "{page}");
    interrupt(&child);
    let ended = done(child);
    assert_eq!(ended.code, 7, "{ended:?}");
    let (_, token) = ended.stderr.split_once("--after ").unwrap();
    let (token, _) = token.split_once(' ').unwrap();
    lazuli.ok("entities put People PartitionKey=p RowKey=3");
    let rest = lazuli.ok(&format!("changes People --after {token}"));
    assert!(rest.contains("p  3") && !rest.contains("p  2"), "{rest}");
}

/// O-9.5: what is needed to go on is printed even if remarks are not.
#[test]
fn a_query_that_is_interrupted_says_how_to_go_on_even_if_quiet() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create Numbers");
    let line = |i| format!("{{\"PartitionKey\":\"p\",\"RowKey\":\"{i:04}\"}}\n");
    let text: String = (0..2100).map(line).collect();
    assert_eq!(lazuli.run_with(&["entities", "put", "Numbers"], &text).code, 0);
    // A page is larger than a pipe: the command cannot go on to the next one before it is read here.
    let mut child = lazuli.spawn(&["entities", "query", "Numbers", "--all", "--json", "--quiet"]);
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut read = String::new();
    out.read_line(&mut read).unwrap();
    interrupt(&child);
    out.read_to_string(&mut read).unwrap();
    let ended = done(child);
    assert_eq!(ended.code, 7, "{ended:?}");
    let (_, token) = ended.stderr.split_once("--resume ").unwrap();
    let (token, _) = token.split_once(' ').unwrap();
    let resume = ["entities", "query", "Numbers", "--all", "--json", "--resume", token];
    let rest = lazuli.run(&resume).stdout;
    assert_eq!(read.lines().count() + rest.lines().count(), 2100);
    assert!(rest.contains("\"2099\"") && !read.contains("\"2099\""), "{ended:?}");
}
