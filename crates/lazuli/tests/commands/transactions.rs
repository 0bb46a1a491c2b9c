//! `lazuli entities transact` and `lazuli entities count` (X-0.5, X-4.3, X-4.6).

use crate::harness::{Done, Lazuli, without_versions};

fn transact(lazuli: &Lazuli, operations: &str) -> Done {
    lazuli.run_with(&["entities", "transact", "People", "--json"], operations)
}

/// X-4.6: any partitions, tables and queues; the report is in the order of the input.
#[test]
fn a_transaction_spans_partitions_tables_and_queues() {
    let lazuli = Lazuli::with_people();
    lazuli.ok("tables create Audit");
    lazuli.ok("queues create jobs");
    let done = transact(
        &lazuli,
        r#"{"send":"Zoë","queue":"jobs"}
           {"insert":{"PartitionKey":"Sales","RowKey":"99","Big@odata.type":"Edm.Int64","Big":"7"}}
           {"delete":{"PartitionKey":"Marketing","RowKey":"00002"}}
           {"merge":{"PartitionKey":"Marketing","RowKey":"00001","Age":35}}
           {"put":{"PartitionKey":"2026","RowKey":"1"},"table":"Audit"}
           {"mergeOrInsert":{"PartitionKey":"2026","RowKey":"2"},"table":"Audit"}
           {"replace":{"PartitionKey":"Sales","RowKey":"00010","Age":24}}"#,
    );
    assert_eq!(done.code, 0, "{done:?}");
    let report = r#"{"operations":7,"dryRun":false,"etags":[null,"W/"#;
    assert!(done.stdout.starts_with(report), "{done:?}");
    assert_eq!(done.stdout.matches("W/").count(), 5, "{done:?}");
    assert_eq!(lazuli.ok("entities count People --json"), "{\"entities\":4}\n");
    let don = lazuli.ok("entities get People Marketing 00001 --json");
    assert!(don.contains(r#""Age":35,"FirstName":"Don""#), "{don}");
    let ken = lazuli.ok("entities get People Sales 00010 --json");
    assert_eq!(
        without_versions(&ken),
        "{\"PartitionKey\":\"Sales\",\"RowKey\":\"00010\",\"Age\":24}\n"
    );
    assert_eq!(lazuli.ok("entities count Audit"), "2\n");
    // C-11.7: the id of a transaction with messages is in one entity.
    let all = lazuli.ok("entities query People --all --json")
        + &lazuli.ok("entities query Audit --all --json");
    assert_eq!(all.matches("\"_WriteIds\":").count(), 1, "{all}");
    assert!(lazuli.ok("queues peek jobs --json").contains(r#""body":"Zoë""#));
}

/// X-0.5: the operation to blame is named by its place in the input, and nothing is written.
#[test]
fn a_transaction_that_fails_names_the_operation_and_writes_nothing() {
    let lazuli = Lazuli::with_people();
    lazuli.ok("queues create jobs");
    let new = r#"{"insert":{"PartitionKey":"Sales","RowKey":"99"}}"#;
    let taken = r#"{"insert":{"PartitionKey":"Sales","RowKey":"00010"}}"#;
    let other = r#"{"insert":{"PartitionKey":"Other","RowKey":"1"}}"#;
    let message = r#"{"send":"x","queue":"jobs"}"#;
    let nothing = r#"{"send":"x","queue":"nothing"}"#;
    let absent = r#"{"delete":{"PartitionKey":"Sales","RowKey":"nobody"}}"#;
    let stale = r#"{"replace":{"PartitionKey":"Sales","RowKey":"00011"},"ifMatch":"W/\"x\""}"#;
    for (operations, code, words) in [
        (vec![new, taken], 6, ["operation 2 of the input: ", "409 EntityAlreadyExists"]),
        (vec![other, new, taken], 6, ["operation 3 of the input: ", "409 EntityAlreadyExists"]),
        (vec![message, new, taken], 6, ["operation 3 of the input: ", "409 EntityAlreadyExists"]),
        (vec![nothing, new], 3, ["operation 1 of the input: ", "404 QueueNotFound"]),
        (vec![new, absent], 3, ["operation 2 of the input: ", "404 ResourceNotFound"]),
        (vec![new, other, stale], 6, ["operation 3 of the input: ", "412 "]),
        (vec![new, new], 2, ["operation 2 of the input: ", "names an entity once"]),
        (vec![message], 2, ["messages alone has no write", "hint: "]),
    ] {
        let done = transact(&lazuli, &operations.concat());
        done.failed(code, &words);
        assert!(done.stderr.matches("operation ").count() <= 1, "one number: {done:?}");
    }
    let many: String = (0..101)
        .map(|row| format!("{{\"insert\":{{\"PartitionKey\":\"p\",\"RowKey\":\"{row}\"}}}}"))
        .collect();
    transact(&lazuli, &many).failed(2, &["operation 101 of the input: ", "at most 100 operations"]);
    assert_eq!(lazuli.ok("entities count People"), "4\n");
    assert_eq!(lazuli.ok("queues count jobs"), "0\n");
}

/// O-9.7: a dry run finds what a transaction checks before it is sent, and needs no server.
#[test]
fn a_dry_run_of_a_transaction_checks_it_and_sends_nothing() {
    let lazuli = Lazuli::of(crate::harness::NOBODY);
    let dry = |operations: &[&str], options: &[&str]| {
        let arguments = [&["entities", "transact", "People", "--dry-run"], options].concat();
        lazuli.run_with(&arguments, &operations.concat())
    };
    let new = r#"{"insert":{"PartitionKey":"Sales","RowKey":"1"}}"#;
    let near = r#"{"delete":{"PartitionKey":"Sales","RowKey":"2"}}"#;
    let far = r#"{"put":{"PartitionKey":"Other","RowKey":"1"},"table":"Audit"}"#;
    let message = r#"{"send":"x","queue":"jobs"}"#;
    for (operations, number) in [(vec![new, near], 2), (vec![message, new, far], 3)] {
        let done = dry(&operations, &[]);
        let remark = format!("would carry out {number} operations in one transaction\n");
        assert_eq!((done.code, &*done.stdout, &*done.stderr), (0, "", &*remark));
        let etags = vec!["null"; number].join(",");
        let json = format!(r#"{{"operations":{number},"dryRun":true,"etags":[{etags}]}}"#);
        assert_eq!(dry(&operations, &["--json"]).stdout, json + "\n");
    }
    let wide =
        format!(r#"{{"put":{{"PartitionKey":"p","RowKey":"1","T":"{}"}}}}"#, "x".repeat(40_000));
    let huge = r#"{"send":"x","queue":"jobs"}"#.replace('x', &"x".repeat(70_000));
    for (operations, words) in [
        (vec![new, new], ["operation 2 of the input: ", "names an entity once"]),
        (vec![message, far, new, new], ["operation 4 of the input: ", "names an entity once"]),
        (vec![new, &*wide], ["operation 2 of the input: ", "hint: "]),
        (vec![&*huge, new], ["operation 1 of the input: ", "hint: "]),
        (vec![message], ["messages alone has no write", "hint: "]),
        (vec!["{}"], ["operation 1 of the input: ", "hint: "]),
    ] {
        let done = dry(&operations, &[]);
        done.failed(2, &words);
        assert_eq!(done.stdout, "", "{done:?}");
    }
    let row = |row| format!(r#"{{"put":{{"PartitionKey":"p","RowKey":"{row}"}}}}"#);
    let many: String = (0..101).map(row).collect();
    dry(&[&many], &[]).failed(2, &["operation 101 of the input: ", "at most 100 operations"]);
}

#[test]
fn what_is_no_operation_is_refused_before_anything_is_sent() {
    let lazuli = Lazuli::with_people();
    let entity = r#"{"PartitionKey":"a","RowKey":"b"}"#;
    let neither = "it is not one write, and not a message with its queue";
    for (operation, word) in [
        (entity.to_owned(), "unknown field `PartitionKey`"),
        ("[1]".to_owned(), "expected an operation"),
        ("{\"put\":".to_owned(), "operation 1 of the input"),
        ("{}".to_owned(), neither),
        (format!("{{\"put\":{entity},\"delete\":{entity}}}"), neither),
        (format!("{{\"put\":{entity},\"ifMatch\":\"*\"}}"), "ifMatch is for replace"),
        (format!("{{\"put\":{entity},\"queue\":\"jobs\"}}"), neither),
        (format!("{{\"put\":{entity},\"table\":\"a_b\"}}"), "not the name of a table"),
        (r#"{"put":{"PartitionKey":"a"}}"#.to_owned(), "lacks PartitionKey or RowKey"),
        (r#"{"put":{"PartitionKey":"a/b","RowKey":""}}"#.to_owned(), "keys may not hold"),
        (r#"{"send":"x"}"#.to_owned(), neither),
        (r#"{"send":"x","queue":"jobs","table":"People"}"#.to_owned(), neither),
        (r#"{"send":"x","queue":"J"}"#.to_owned(), "not the name of a queue"),
        (String::new(), "there is nothing to write"),
    ] {
        transact(&lazuli, &operation).failed(2, &[word, "hint: "]);
    }
    lazuli.fails("entities transact People nothing.jsonl", 2, &["cannot read nothing.jsonl"]);
    assert_eq!(lazuli.ok("entities count People"), "4\n");
}

/// X-4.3: the server counts, unless it has no extensions; then the keys are read, and that is said.
#[test]
fn entities_are_counted_by_the_server_if_it_can() {
    let lazuli = Lazuli::with_people();
    let counted = |lazuli: &Lazuli, filter: &str| {
        let done = lazuli.run(&["entities", "count", "People", "--filter", filter]);
        assert_eq!(done.code, 0, "{done:?}");
        (done.stdout, done.stderr)
    };
    let plain = counted(&lazuli, "Age ge 30");
    assert_eq!(plain, ("2\n".to_owned(), String::new()));
    assert_eq!(counted(&lazuli, "startswith(FirstName,'D')"), ("1\n".to_owned(), String::new()));
    let lazuli = Lazuli::start_with(&["--extensions", "never"]);
    lazuli.ok("tables create People");
    lazuli.run_with(&["entities", "put", "People"], crate::harness::PEOPLE);
    let (number, said) = counted(&lazuli, "Age ge 30");
    assert_eq!(number, "2\n");
    assert!(said.contains("this server does not count"), "{said}");
    lazuli.fails("entities count Nothing", 3, &["TableNotFound"]);
}
