//! `lazuli table index`.

use crate::harness::{Lazuli, done};
use std::process::Command;

/// The layout of [`staff`], as a program would print it.
pub(crate) const LAYOUT: &str = r#"{"kind":"Person","partition":"{team}","row":"id_{id:05}","indexes":[
{"name":"mail","row":"mail_{Mail}","unique":true},
{"name":"name","table":"StaffByName","row":"{Name:lower}_{team}_{id:05}","project":["Age"]}]}"#;

/// A table of people whose indexes were never filled.
pub(crate) const STAFF: &str = r#"
{"PartitionKey":"a","RowKey":"id_00001","EntityType":"Person","Name":"Don","Mail":"don@x","Age":34}
{"PartitionKey":"a","RowKey":"id_00002","EntityType":"Person","Name":"Jun","Mail":"jun@x","Age":47}
{"PartitionKey":"b","RowKey":"id_00003","EntityType":"Person","Name":"Ken","Mail":"ken@x","Age":23}
{"PartitionKey":"b","RowKey":"Team","EntityType":"Team","Name":"Ken"}
"#;

fn staff() -> Lazuli {
    let lazuli = Lazuli::start();
    lazuli.file("staff.json", LAYOUT);
    lazuli.ok("tables create Staff");
    assert_eq!(lazuli.run_with(&["entities", "put", "Staff", "-"], STAFF).code, 0);
    lazuli
}

#[test]
fn indexes_are_filled_verified_and_mended() {
    let lazuli = staff();
    let line = "table index rebuild Staff name --layout staff.json --dry-run";
    let dry = lazuli.line(line);
    assert_eq!((dry.code, &*dry.stderr), (8, "looked at 4 rows: 3 findings, 0 mended, 3 left\n"));
    assert_eq!(
        dry.stdout,
        "FINDING  INDEX        TABLE        PARTITION KEY  ROW KEY      ENTITY         MENDED\n\
         missing  Person/name  StaffByName  a              don_a_00001  (a, id_00001)  no\n\
         missing  Person/name  StaffByName  a              jun_a_00002  (a, id_00002)  no\n\
         missing  Person/name  StaffByName  b              ken_b_00003  (b, id_00003)  no\n"
    );
    assert_eq!(lazuli.ok("tables list"), "TABLE\nStaff\n", "a dry run creates nothing");
    lazuli.fails("table index repair Staff --layout staff.json", 2, &["confirmed", "--yes"]);
    let repaired = lazuli.line("table index repair Staff --layout staff.json --yes --quiet");
    assert_eq!((repaired.code, &*repaired.stderr), (0, ""));
    assert_eq!(repaired.stdout.lines().filter(|line| line.ends_with("yes")).count(), 6);
    let name = lazuli.ok("entities get StaffByName a don_a_00001 --json");
    assert!(name.contains("\"_ix\":\"Person/name\"") && name.contains("\"Age\":34"), "{name}");
    assert!(!name.contains("Mail") && !name.contains("EntityType"), "{name}");
    let verified = lazuli.line("table index verify Staff --layout staff.json");
    assert_eq!((verified.code, &*verified.stdout), (0, ""));

    // Options are equivalent to the file, and find the same damage.
    lazuli.ok("entities delete Staff a mail_don@x");
    lazuli.ok("entities put Staff --merge PartitionKey=b RowKey=mail_ken@x Age:Int32=99");
    lazuli.ok("entities delete Staff a id_00002");
    let options = [
        "table",
        "index",
        "verify",
        "Staff",
        "--json",
        "--kind",
        "Person",
        "--partition",
        "{team}",
        "--row",
        "id_{id:05}",
        "--index",
        "mail=mail_{Mail}",
        "--unique",
        "mail",
        "--index",
        "name={Name:lower}_{team}_{id:05}",
        "--index-table",
        "name=StaffByName",
        "--project",
        "name=Age",
    ];
    let found = lazuli.run(&options);
    assert_eq!(found.code, 8, "{found:?}");
    let lines: Vec<&str> = found.stdout.lines().collect();
    let shown = |kind: &str, index: &str, at: [&str; 3], entity: [&str; 2]| {
        format!(
            "{{\"kind\":\"{kind}\",\"index\":\"Person/{index}\",\"table\":\"{}\",\"partitionKey\":\"{}\",\
             \"rowKey\":\"{}\",\"entityPartitionKey\":\"{}\",\"entityRowKey\":\"{}\",\"mended\":false}}",
            at[0], at[1], at[2], entity[0], entity[1]
        )
    };
    assert_eq!(
        lines,
        [
            shown("missing", "mail", ["Staff", "a", "mail_don@x"], ["a", "id_00001"]),
            shown("orphan", "mail", ["Staff", "a", "mail_jun@x"], ["a", "id_00002"]),
            shown("stale", "mail", ["Staff", "b", "mail_ken@x"], ["b", "id_00003"]),
            shown("orphan", "name", ["StaffByName", "a", "jun_a_00002"], ["a", "id_00002"]),
            "{\"rows\":8,\"findings\":4,\"mended\":0,\"left\":4,\"unreadable\":0,\"token\":null}"
                .to_owned(),
        ]
    );
    let one = lazuli.line("table index repair Staff --layout staff.json --partition-key b --yes");
    assert_eq!((one.code, one.stdout.lines().count()), (0, 2), "{one:?}");
    assert_eq!(lazuli.line("table index repair Staff --layout staff.json --yes").code, 0);
    assert_eq!(lazuli.line("table index verify Staff --layout staff.json").code, 0);
}

#[test]
fn what_cannot_be_mended_or_told_is_said() {
    let lazuli = staff();
    let twice = r#"{"PartitionKey":"a","RowKey":"id_00009","EntityType":"Person","Name":"Dot","Mail":"don@x"}
{"PartitionKey":"a","RowKey":"id_00010","EntityType":"Person.2","Name":"New","Mail":"new@x"}"#;
    assert_eq!(lazuli.run_with(&["entities", "put", "Staff", "-"], twice).code, 0);
    lazuli.file(
        "staff.toml",
        "kind = 'Person'\npartition = '{team}'\nrow = 'id_{id:05}'\n\
         [[indexes]]\nname = 'mail'\nrow = 'mail_{Mail}'\nunique = true\n",
    );
    let repaired = lazuli.line("table index repair Staff --layout staff.toml --yes");
    assert_eq!(repaired.code, 8, "{repaired:?}");
    assert!(repaired.stderr.contains("(a, id_00010) cannot be told"), "{repaired:?}");
    assert!(repaired.stderr.contains("4 findings, 3 mended, 1 left"), "{repaired:?}");
    let verified = lazuli.line("table index verify Staff --layout staff.toml --json --quiet");
    assert!(verified.stdout.starts_with("{\"kind\":\"duplicate\""), "{verified:?}");
}

#[test]
fn a_wrong_layout_reaches_no_server() {
    let lazuli = staff();
    lazuli.file("bad.json", r#"{"kind":"Person","partition":"{team}","row":"id_{id:05}","indexes":[{"name":"mail","row":"id_{Mail}"}]}"#);
    lazuli.file("bad.toml", "kind = ");
    for (line, words) in [
        ("table index verify Staff --layout bad.json", "begin like"),
        ("table index verify Staff --layout bad.toml", "cannot be read"),
        ("table index verify Staff --kind P --partition {a} --row r_{b} --index x", "NAME=VALUE"),
        (
            "table index verify Staff --kind P --partition {a} --row r_{b} --index x=x_{b} --unique y",
            "--index",
        ),
        ("table index rebuild Staff phone --layout staff.json --yes", "no index phone"),
        ("table index verify Staff --layout staff.json --resume abc", "--resume"),
    ] {
        let failed = lazuli.line(line);
        assert!(failed.code == 2 || failed.code == 1, "{line}: {failed:?}");
        assert!(failed.stderr.contains(words), "{line}: {failed:?}");
    }
    assert_eq!(lazuli.line("table index verify Staff").code, 2);
    let absent = "table index verify Staff --layout none.json";
    lazuli.fails(absent, 2, &["cannot read the layout none.json", "hint: "]);
    lazuli.fails("table index verify Nobody --layout staff.json", 3, &["TableNotFound"]);
}

#[test]
fn a_repair_goes_on_when_nobody_reads_what_it_does() {
    let lazuli = staff();
    let arguments = ["table", "index", "repair", "Staff", "--layout", "staff.json", "--yes"];
    let mut child = lazuli.spawn(&arguments);
    drop(child.stdout.take());
    let repaired = done(child);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    assert!(repaired.stderr.contains("6 findings, 6 mended, 0 left"), "{repaired:?}");
    assert_eq!(lazuli.line("table index verify Staff --layout staff.json").code, 0);
}

#[test]
fn a_search_that_is_stopped_says_how_to_continue() {
    let lazuli = Lazuli::start();
    lazuli.file("staff.json", LAYOUT);
    lazuli.ok("tables create Staff");
    let person = |i| {
        format!(
            "{{\"PartitionKey\":\"a\",\"RowKey\":\"id_{i:05}\",\"EntityType\":\"Person\",\"Mail\":\"{i}@x\"}}\n"
        )
    };
    let text: String = (0..5000).map(person).collect();
    assert_eq!(lazuli.run_with(&["entities", "put", "Staff", "-"], &text).code, 0);
    let arguments =
        ["table", "index", "repair", "Staff", "--layout", "staff.json", "--yes", "--json"];
    let child = lazuli.spawn(&arguments);
    // It writes its first copy before it has read all.
    while lazuli.ok("entities count Staff") == "5000\n" {}
    let sent = Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let stopped = done(child);
    stopped.failed(7, &["stopped after ", "--resume lzi1.Staff."]);
    let (_, token) = stopped.stderr.split_once("--resume ").unwrap();
    let token = token.split(' ').next().unwrap().to_owned();
    let rest = lazuli.run(&[&arguments[..], &["--resume", &token]].concat());
    assert_eq!(rest.code, 0, "{rest:?}");
    assert_eq!(lazuli.line("table index verify Staff --layout staff.json").code, 0);
}
