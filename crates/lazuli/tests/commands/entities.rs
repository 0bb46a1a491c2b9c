//! `lazuli entities`.

use crate::harness::{Lazuli, PEOPLE, without_versions};

const DON: &str =
    "{\"PartitionKey\":\"Marketing\",\"RowKey\":\"00001\",\"Age\":34,\"FirstName\":\"Don\"}\n";

/// The members of a line of JSON from which a version is read.
fn etag(line: &str) -> String {
    let (_, rest) = line.split_once("\"odata.etag\":\"").unwrap();
    let (etag, _) = rest.split_once("\",\"Part").unwrap();
    etag.replace("\\\"", "\"")
}

#[test]
fn one_entity_is_shown_with_its_types() {
    let lazuli = Lazuli::with_people();
    let text = lazuli.ok("entities get People Sales 00011");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "PROPERTY      TYPE      VALUE");
    assert_eq!(lines[1], "PartitionKey  String    Sales");
    assert!(lines[3].starts_with("Timestamp     DateTime  20"), "{text}");
    assert!(lines[4].starts_with("ETag                    W/\"datetime'"), "{text}");
    assert!(lines.contains(&"Staff         Int64     9007199254740993"), "{text}");
    let json = lazuli.ok("entities get People Marketing 00001 --json");
    assert!(json.starts_with("{\"odata.etag\":\"W/\\\"datetime'20"), "{json}");
    assert_eq!(without_versions(&json), DON);
}

#[test]
fn what_is_absent_is_exit_3() {
    let lazuli = Lazuli::with_people();
    lazuli.fails("entities get People Marketing nobody", 3, &["get People (Marketing, nobody)"]);
    lazuli.fails("entities get Nothing a b", 3, &["TableNotFound", "hint: `lazuli tables create"]);
    lazuli.fails("entities delete People Marketing nobody", 3, &["(Marketing, nobody)"]);
    lazuli.fails("entities query Nothing", 3, &["TableNotFound"]);
    lazuli.fails("entities count Nothing", 3, &["TableNotFound"]);
}

#[test]
fn a_query_prints_a_table_json_or_csv() {
    let lazuli = Lazuli::with_people();
    let query = ["entities", "query", "People", "--filter", "Age ge 20"];
    let table = lazuli.run(&query);
    assert_eq!((table.code, &*table.stderr), (0, ""));
    let expect = "\
PartitionKey  RowKey  Age  FirstName  Hired
Marketing     00001    34  Don
Marketing     00002    47  Jun
Sales         00010    23  Ken        2026-01-31T00:00:00Z
";
    assert_eq!(table.stdout, expect);
    let json = lazuli.run(&[&query[..], &["--json"]].concat()).stdout;
    let expect: String = PEOPLE.lines().skip(1).take(3).map(|line| format!("{line}\n")).collect();
    let sorted = |text: &str| -> Vec<String> {
        let line = |line: &str| {
            let mut members: Vec<&str> = line.trim_matches(['{', '}']).split(',').collect();
            members.sort_unstable();
            members.join(",")
        };
        text.lines().map(line).collect()
    };
    assert_eq!(sorted(&without_versions(&json)), sorted(&expect));
    let csv = lazuli.run(&[&query[..], &["--csv", "--select", "Age,Hired"]].concat()).stdout;
    let expect = "PartitionKey,RowKey,Age,Hired\r\nMarketing,00001,34,\r\nMarketing,00002,47,\r\n\
                  Sales,00010,23,2026-01-31T00:00:00Z\r\n";
    assert_eq!(csv, expect);
}

#[test]
fn a_query_without_entities_still_has_a_heading() {
    let lazuli = Lazuli::with_people();
    let none = ["entities", "query", "People", "--filter", "Age gt 99"];
    assert_eq!(lazuli.run(&none).stdout, "PartitionKey  RowKey\n");
    assert_eq!(lazuli.run(&[&none[..], &["--json"]].concat()).stdout, "");
    assert_eq!(lazuli.run(&[&none[..], &["--csv"]].concat()).stdout, "PartitionKey,RowKey\r\n");
}

#[test]
fn a_query_is_continued_where_it_ended() {
    let lazuli = Lazuli::with_people();
    let first = lazuli.line("entities query People --top 3 --json");
    assert_eq!(first.stdout.lines().count(), 3, "{first:?}");
    let (_, token) = first.stderr.split_once("--resume ").unwrap();
    let token = token.split(',').next().unwrap();
    let rest = lazuli.run(&["entities", "query", "People", "--resume", token, "--json"]);
    assert_eq!((rest.stdout.lines().count(), &*rest.stderr), (1, ""), "{rest:?}");
    assert!(rest.stdout.contains("\"00011\""), "{rest:?}");
    let other = ["entities", "query", "People", "--filter", "Age ge 1", "--resume", token];
    lazuli.run(&other).failed(2, &["the token belongs to another query"]);
    lazuli.fails("entities query People --resume nonsense", 2, &["token"]);
    let quiet = lazuli.line("entities query People --top 3 --quiet");
    assert_eq!((quiet.stdout.lines().count(), &*quiet.stderr), (4, ""));
    assert_eq!(lazuli.ok("entities query People --all --json").lines().count(), 4);
}

#[test]
fn a_wrong_filter_shows_its_place() {
    let lazuli = Lazuli::with_people();
    for verb in ["query", "count", "delete"] {
        let done = lazuli.run(
            &["entities", verb, "People", "--filter", "Age gtt 3", "--yes"]
                [..if verb == "delete" { 6 } else { 5 }],
        );
        done.failed(2, &["syntax error", "\n  Age gtt 3\n        ^\nhint: "]);
    }
}

#[test]
fn pairs_become_an_entity() {
    let lazuli = Lazuli::with_people();
    let json = lazuli.ok("entities put People PartitionKey=Sales RowKey=7 Name=Mia Age:Int32=42 Id:Guid=c9da6455-213d-42c9-9a79-3e9149a57833 Raw:Binary=AAE= Rate:Double=1 --json");
    assert!(json.starts_with("{\"written\":1,\"dryRun\":false,\"etag\":\"W/"), "{json}");
    let mia = lazuli.ok("entities get People Sales 7 --json");
    assert_eq!(
        without_versions(&mia),
        "{\"PartitionKey\":\"Sales\",\"RowKey\":\"7\",\"Age\":42,\
         \"Id@odata.type\":\"Edm.Guid\",\"Id\":\"c9da6455-213d-42c9-9a79-3e9149a57833\",\
         \"Name\":\"Mia\",\"Rate\":1.0,\"Raw@odata.type\":\"Edm.Binary\",\"Raw\":\"AAE=\"}\n"
    );
    for (pairs, word) in [
        ("Name=Mia", "both keys"),
        ("PartitionKey=a RowKey=b Age:Int32=old", "Edm.Int32"),
        ("PartitionKey=a RowKey=b Age:Int16=1", "Int16"),
        ("PartitionKey=a/b RowKey=b", "hint: a key has"),
        ("nothing.json", "cannot read nothing.json"),
    ] {
        lazuli.fails(&format!("entities put People {pairs}"), 2, &[word, "hint: "]);
    }
}

/// C-5.13: a rehearsal refuses what the write would refuse, in the same words, and sends nothing.
#[test]
fn a_dry_run_refuses_what_the_write_would_refuse() {
    let lazuli = Lazuli::with_people();
    let long = "x".repeat(600);
    let large = "x".repeat(40_000);
    let many: Vec<String> = (0..253).map(|number| format!("P{number}=1")).collect();
    let heavy: Vec<String> = (0..17).map(|n| format!("P{n}={}", &large[..32_000])).collect();
    for (pairs, word) in [
        ("PartitionKey=a/b RowKey=b".to_owned(), "keys may not hold"),
        ("PartitionKey:Int32=1 RowKey=b".to_owned(), "PartitionKey is a text"),
        ("PartitionKey=a PartitionKey=c RowKey=b".to_owned(), "PartitionKey is given twice"),
        (format!("PartitionKey=a RowKey={long}"), "600 UTF-16 code units"),
        (format!("PartitionKey=a RowKey=b P={large}"), "64 KiB"),
        (format!("PartitionKey=a RowKey=b {long}=1"), "255 characters"),
        ("PartitionKey=a RowKey=b a-b=1".to_owned(), "not an identifier"),
        ("PartitionKey=a RowKey=b A=1 A=2".to_owned(), "given twice"),
        ("PartitionKey=a RowKey=b At:DateTime=1500-01-01T00:00:00Z".to_owned(), "1601"),
        (format!("PartitionKey=a RowKey=b {}", many.join(" ")), "252 properties"),
        (format!("PartitionKey=a RowKey=b {}", heavy.join(" ")), "1 MiB"),
    ] {
        let real = lazuli.line(&format!("entities put People {pairs}"));
        real.failed(2, &[word, "hint: "]);
        let dry = lazuli.line(&format!("entities put People {pairs} --dry-run"));
        assert_eq!((dry.code, dry.stderr), (real.code, real.stderr));
    }
    assert_eq!(lazuli.ok("entities count People"), "4\n");
}

#[test]
fn a_missing_table_is_said_to_be_made_by_every_way_to_write() {
    let lazuli = Lazuli::start();
    let entity = r#"{"PartitionKey":"a","RowKey":"b"}"#;
    let put = format!(r#"{{"put":{entity}}}"#);
    for (words, input) in [("put Nobody -", entity), ("transact Nobody -", &put)] {
        let words: Vec<&str> = ["entities"].into_iter().chain(words.split(' ')).collect();
        let hint = "hint: `lazuli tables create NAME` creates a table";
        lazuli.run_with(&words, input).failed(3, &["404 TableNotFound", hint]);
    }
}

#[test]
fn any_version_is_deleted_in_a_dry_run_too() {
    let lazuli = Lazuli::with_people();
    let delete = "entities delete People Marketing 00001 --if-match";
    lazuli.fails(&format!("{delete} x --dry-run"), 6, &["another version"]);
    lazuli.ok(&format!("{delete} * --dry-run"));
    lazuli.ok(&format!("{delete} *"));
}

/// C-19.6: Cosmos DB refuses more, and nothing is sent to find that out.
#[test]
fn a_dry_run_knows_the_limits_of_cosmos() {
    let lazuli = Lazuli::start().without_connection_string();
    let cosmos =
        "--endpoint https://a.table.cosmos.azure.com --account a --sas sv=2019-02-02&sig=a";
    let put = |pairs: &str| lazuli.line(&format!("entities put People {pairs} --dry-run {cosmos}"));
    put(&format!("PartitionKey=a RowKey={}", "x".repeat(256))).failed(2, &["255"]);
    put("PartitionKey=a RowKey=b id=1")
        .failed(2, &["\"id\" is not the name of a property in Cosmos DB"]);
    assert_eq!(put("PartitionKey=a RowKey=b Id=1").code, 0);
}

#[test]
fn the_way_to_write_is_an_option() {
    let lazuli = Lazuli::with_people();
    let don = "entities put People PartitionKey=Marketing RowKey=00001";
    lazuli.fails(&format!("{don} --insert"), 6, &["EntityAlreadyExists"]);
    lazuli.ok(&format!("{don} Age:Int32=35 --merge"));
    let text = lazuli.ok("entities get People Marketing 00001 --json");
    assert_eq!(without_versions(&text), DON.replace("34", "35"));
    let version = etag(&text);
    lazuli.ok(&format!("{don} Age:Int32=36 --replace"));
    let text = lazuli.ok("entities get People Marketing 00001 --json");
    assert!(!text.contains("FirstName"), "{text}");
    for how in ["--replace", "--merge"] {
        let words: Vec<&str> = don.split(' ').chain([how, "--if-match", &version]).collect();
        lazuli.run(&words).failed(6, &["412 UpdateConditionNotSatisfied"]);
    }
    let current = etag(&text);
    let words: Vec<&str> = don.split(' ').chain(["--replace", "--if-match", &current]).collect();
    assert_eq!(lazuli.run(&words).code, 0);
    let nobody = "entities put People PartitionKey=Sales RowKey=x A=1";
    lazuli.fails(&format!("{nobody} --replace"), 3, &["404"]);
    lazuli.fails(&format!("{nobody} --merge"), 3, &["404"]);
    lazuli.ok(&format!("{nobody} --merge --or-insert"));
    lazuli.fails(&format!("{nobody} --insert --merge"), 2, &["cannot be used with"]);
    lazuli.fails(&format!("{nobody} --or-insert"), 2, &["--merge"]);
    lazuli.fails(&format!("{nobody} --if-match x"), 2, &[]);
}

#[test]
fn many_entities_come_from_a_file_or_standard_input() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create People");
    lazuli.file("people.jsonl", PEOPLE);
    let dry = lazuli.ok("entities put People people.jsonl --dry-run --json");
    assert_eq!(dry, "{\"written\":4,\"dryRun\":true}\n");
    assert_eq!(lazuli.ok("entities count People"), "0\n");
    let done = lazuli.line("entities put People people.jsonl");
    assert_eq!((done.code, &*done.stderr), (0, "wrote 4 entities\n"));
    assert_eq!(lazuli.ok("entities count People --json"), "{\"entities\":4}\n");
    // The output of one command is input for another.
    let printed = lazuli.ok("entities query People --all --json");
    lazuli.ok("tables create Copies");
    let copied = lazuli.run_with(&["entities", "put", "Copies"], &printed);
    assert_eq!(copied.code, 0, "{copied:?}");
    let copies = lazuli.ok("entities query Copies --all --json");
    assert_eq!(without_versions(&copies), without_versions(&printed));
}

#[test]
fn a_load_that_fails_in_the_middle_says_how_to_go_on() {
    let lazuli = Lazuli::with_people();
    let new = |row| format!("{{\"PartitionKey\":\"Z\",\"RowKey\":\"{row}\"}}\n");
    let taken = "{\"PartitionKey\":\"Sales\",\"RowKey\":\"00010\"}\n";
    let text = [&new(1), &new(2), taken, &new(3)].concat();
    let put = ["entities", "put", "People", "-", "--insert"];
    let done = lazuli.run_with(&put, &text);
    done.failed(7, &["stopped after 2 entities", "409", "--skip 2"]);
    let rest = lazuli.run_with(&[&put[..], &["--skip", "3"]].concat(), &text);
    assert_eq!((rest.code, &*rest.stderr), (0, "wrote 1 entity\n"));
    assert_eq!(lazuli.ok("entities count People"), "7\n");
    // If the first one fails, it is an ordinary failure.
    lazuli.run_with(&put, taken).failed(6, &["EntityAlreadyExists"]);
    lazuli.run_with(&put, "{\"PartitionKey\":").failed(2, &["not JSON"]);
    lazuli.run_with(&put, "[1]").failed(2, &["entity 1", "jq"]);
}

#[test]
fn entities_are_deleted_by_key_version_and_filter() {
    let lazuli = Lazuli::with_people();
    let don = lazuli.ok("entities get People Marketing 00001 --json");
    lazuli.ok("entities put People PartitionKey=Marketing RowKey=00001 --merge A=1");
    let stale = ["entities", "delete", "People", "Marketing", "00001", "--if-match", &etag(&don)];
    lazuli.run(&stale).failed(6, &["412"]);
    lazuli.run(&[&stale[..], &["--dry-run"]].concat()).failed(6, &["another version"]);
    let dry = lazuli.ok("entities delete People Marketing 00001 --dry-run --json");
    assert_eq!(dry, "{\"deleted\":1,\"skipped\":0,\"dryRun\":true}\n");
    lazuli.fails("entities delete People Marketing nobody --dry-run", 3, &[]);
    let gone = lazuli.ok("entities delete People Marketing 00001 --json");
    assert_eq!(gone, "{\"deleted\":1,\"skipped\":0,\"dryRun\":false}\n");
    let minors = ["entities", "delete", "People", "--filter", "Age lt 30"];
    lazuli.run(&minors).failed(2, &["must be confirmed"]);
    let dry = lazuli.run(&[&minors[..], &["--dry-run"]].concat());
    assert_eq!((dry.code, &*dry.stderr), (0, "would delete 2 entities\n"));
    let done = lazuli.run(&[&minors[..], &["--yes", "--json"]].concat());
    assert_eq!(done.stdout, "{\"deleted\":2,\"skipped\":0,\"dryRun\":false}\n");
    assert_eq!(lazuli.ok("entities count People"), "1\n");
    lazuli.fails("entities delete People", 2, &["what to delete is missing"]);
    assert_eq!(lazuli.line("entities delete People Marketing").code, 2);
}

#[test]
fn thousands_are_counted_and_deleted() {
    let lazuli = Lazuli::start();
    lazuli.ok("tables create Numbers");
    let line = |i| format!("{{\"PartitionKey\":\"p{}\",\"RowKey\":\"{i:05}\",\"N\":{i}}}\n", i % 3);
    let text: String = (0..1205).map(line).collect();
    assert_eq!(lazuli.run_with(&["entities", "put", "Numbers"], &text).code, 0);
    assert_eq!(lazuli.ok("entities count Numbers"), "1,205\n");
    // One page, and then the rest.
    let first = lazuli.line("entities query Numbers --json --select N");
    assert_eq!(first.stdout.lines().count(), 1000);
    assert!(first.stderr.contains("there is more: --resume lzp1."), "{}", first.stderr);
    assert_eq!(lazuli.ok("entities query Numbers --json --all").lines().count(), 1205);
    // A property that is not in the header of a CSV file causes an error, instead of being dropped silently.
    lazuli.ok("entities put Numbers PartitionKey=p2 RowKey=99999 N:Int32=9 Late=yes");
    let csv = lazuli.line("entities query Numbers --csv --all");
    csv.failed(1, &["property Late", "hint: name the columns with --select"]);
    lazuli.ok("entities query Numbers --csv --all --select N,Late");
    lazuli.ok("entities delete Numbers p2 99999");
    let done = lazuli.run(&["entities", "delete", "Numbers", "--filter", "N ge 5", "--yes"]);
    assert_eq!((done.code, &*done.stderr), (0, "deleted 1,200 entities\n"));
    assert_eq!(lazuli.ok("entities count Numbers"), "5\n");
}

#[test]
fn a_table_is_cut_to_the_width_of_the_terminal() {
    let lazuli = Lazuli::with_people();
    for columns in ["40", "80", "120"] {
        let mut command = lazuli.command(&["entities", "query", "People", "--all"]);
        let output = command.env("COLUMNS", columns).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let width: usize = columns.parse().unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
    }
}

#[test]
fn colour_is_for_those_who_ask() {
    let lazuli = Lazuli::with_people();
    assert!(!lazuli.ok("entities query People").contains('\x1b'));
    assert!(lazuli.ok("entities query People --color always").starts_with("\x1b[1mPartitionKey"));
    let never = lazuli.line("entities get People a b --color never");
    assert!(!never.stderr.contains('\x1b'));
}
