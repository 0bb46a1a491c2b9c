//! Transactions across partitions and tables (X-4.6).

use super::asking;
use crate::harness::{ACCOUNT, BatchAnswer, Lazuli, Op, Request, well_known_key};
use lazuli_wire::sas::AccountSas;

fn insert(table: &str, partition: &str, row: &str) -> Op {
    let body = format!(r#"{{"PartitionKey":"{partition}","RowKey":"{row}","N":1}}"#);
    Op::new("POST", &format!("/{table}"), &body)
}

fn send(lazuli: &Lazuli, operations: &[Op]) -> BatchAnswer {
    let request = asking("POST", "/$batch").with("x-lazuli-transaction", "any");
    lazuli.send_batch(&request, operations)
}

fn server() -> Lazuli {
    let lazuli = Lazuli::with_orders();
    lazuli.create_table("Other");
    lazuli
}

/// X-4.6.
#[test]
fn partitions_and_tables_change_together() {
    let lazuli = server();
    lazuli.insert("Orders", r#"{"PartitionKey":"x","RowKey":"old"}"#).expect(201);
    let delete =
        Op::new("DELETE", "/Orders(PartitionKey='x',RowKey='old')", "").with("If-Match", "*");
    send(
        &lazuli,
        &[
            insert("Orders", "a", "1"),
            insert("Orders", "b", "1"),
            insert("Other", "a", "1"),
            delete,
        ],
    )
    .expect(&[201, 201, 201, 204]);
    assert_eq!(lazuli.get("/Orders()").expect(200).items("PartitionKey"), "a b");
    assert_eq!(lazuli.get("/Other()").expect(200).items("PartitionKey"), "a");
}

/// X-4.6: all or nothing, and the failing index.
#[test]
fn one_that_fails_undoes_all() {
    let lazuli = server();
    lazuli.insert("Other", r#"{"PartitionKey":"a","RowKey":"1"}"#).expect(201);
    let taken = [insert("Orders", "a", "1"), insert("Orders", "b", "1"), insert("Other", "a", "1")];
    let answer = send(&lazuli, &taken);
    let message = "2:The specified entity already exists.";
    answer.expect_error(409, "EntityAlreadyExists", message);
    let missing = [insert("Orders", "a", "1"), insert("Missing", "a", "1")];
    send(&lazuli, &missing).expect_error(
        404,
        "TableNotFound",
        "1:The table specified does not exist.",
    );
    let twice = [insert("Orders", "a", "1"), insert("Other", "b", "1"), insert("Orders", "a", "1")];
    let text = "2:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.";
    send(&lazuli, &twice).expect_error(400, "InvalidDuplicateRow", text);
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "");
}

/// X-4.6, X-7.2: the failing index, where only some tables judge expiry in the commit.
#[test]
fn the_failing_index_is_right_beside_a_table_whose_entities_expire() {
    let lazuli = server();
    let ttl = asking("PUT", "/Orders?comp=lazuli-ttl").json(r#"{"property":"ExpiresAt"}"#);
    lazuli.send(&ttl).expect(200);
    lazuli.insert("Orders", r#"{"PartitionKey":"a","RowKey":"1"}"#).expect(201);
    lazuli.insert("Other", r#"{"PartitionKey":"a","RowKey":"1"}"#).expect(201);
    let taken = [insert("Orders", "b", "1"), insert("Orders", "c", "1"), insert("Other", "a", "1")];
    let message = "2:The specified entity already exists.";
    send(&lazuli, &taken).expect_error(409, "EntityAlreadyExists", message);
    let taken = [insert("Other", "b", "1"), insert("Orders", "a", "1")];
    let message = "1:The specified entity already exists.";
    send(&lazuli, &taken).expect_error(409, "EntityAlreadyExists", message);
    assert_eq!(lazuli.get("/Other()").expect(200).items("PartitionKey"), "a");
}

/// X-4.6: the same row key in another partition or table is a different entity; at most 100 operations.
#[test]
fn the_other_rules_of_a_transaction_stay() {
    let lazuli = server();
    let all = |count: usize| -> Vec<Op> {
        (0..count).map(|n| insert(["Orders", "Other"][n % 2], &format!("p{n}"), "r")).collect()
    };
    send(&lazuli, &all(100)).expect(&[201; 100]);
    assert_eq!(lazuli.ask("/Orders/$count").expect(200).text(), "50");
    let text = "99:The batch request operation exceeds the maximum 100 changes per change set.";
    send(&lazuli, &all(101)).expect_error(400, "InvalidInput", text);
    let request = asking("POST", "/$batch").with("x-lazuli-transaction", "some");
    let sent = lazuli.send(&request.body("multipart/mixed; boundary=b", "--b--"));
    sent.refused(400, "InvalidHeaderValue", "x-lazuli-transaction");
}

/// X-0.1, X-0.2.
#[test]
fn without_asking_a_transaction_stays_in_its_partition() {
    let lazuli = server();
    let operations = [insert("Orders", "a", "1"), insert("Orders", "b", "1")];
    let text = "1:All commands in a batch must operate on same entity group.";
    let code = "CommandsInBatchActOnDifferentPartitions";
    lazuli.batch(&operations).expect_error(400, code, text);
    let unasked = Request::new("POST", "/$batch").with("x-lazuli-transaction", "any");
    lazuli.send_batch(&unasked, &operations).expect_error(400, code, text);
    lazuli.send_batch(&asking("POST", "/$batch"), &operations).expect_error(400, code, text);
}

/// A part that puts a message into a queue.
fn message(queue: &str, text: &str) -> Op {
    let body = format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>");
    Op::new("POST", &format!("{queue}/messages"), &body).with("Content-Type", "application/xml")
}

fn with_queues() -> Lazuli {
    let lazuli = server();
    lazuli.create_queue("my-jobs");
    lazuli.create_queue("mails");
    lazuli
}

/// X-4.6.
#[test]
fn messages_are_put_with_entities_or_not_at_all() {
    let lazuli = with_queues();
    let all = [
        message("my-jobs", "one"),
        insert("Orders", "a", "1"),
        message("mails", "two"),
        insert("Other", "b", "1"),
        message("my-jobs", "three"),
    ];
    let answer = send(&lazuli, &all).expect(&[201; 5]);
    let text = answer.outer.text();
    assert_eq!(text.matches("<PopReceipt>").count(), 3, "{text}");
    assert_eq!(lazuli.messages("my-jobs"), ["one", "three"]);
    assert_eq!(lazuli.messages("mails"), ["two"]);
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "1");

    // The entity exists: nothing happens, and the index is that of its part.
    let taken = [message("mails", "four"), insert("Orders", "c", "1"), insert("Other", "b", "1")];
    let exists = "2:The specified entity already exists.";
    send(&lazuli, &taken).expect_error(409, "EntityAlreadyExists", exists);
    // The queue does not exist.
    let missing = [insert("Orders", "c", "1"), message("mails", "four"), message("nothing", "x")];
    let queue = "2:The specified queue does not exist.";
    send(&lazuli, &missing).expect_error(404, "QueueNotFound", queue);
    assert_eq!(lazuli.messages("mails"), ["two"]);
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "1");

    // Messages alone are a transaction too.
    send(&lazuli, &[message("mails", "five"), message("my-jobs", "six")]).expect(&[201, 201]);
    assert_eq!(lazuli.messages("mails"), ["two", "five"]);
}

/// X-4.6: parts that are not valid are refused with their index, and nothing happens.
#[test]
fn messages_that_are_not_valid_are_refused() {
    let lazuli = with_queues();
    let refused = |part: Op, status: u16, code: &str| {
        let answer = send(&lazuli, &[insert("Orders", "a", "1"), part]);
        let text = answer.outer.text();
        assert!(text.contains(&format!("HTTP/1.1 {status} ")), "{text}");
        assert!(text.contains(code) && text.contains("1:"), "{text}");
    };
    refused(message("My_Jobs", "x"), 400, "InvalidResourceName");
    refused(message("mails", "<b>"), 400, "InvalidXmlDocument");
    refused(message("mails", &"x".repeat(65 * 1024)), 413, "RequestBodyTooLarge");
    let get = Op::new("GET", "mails/messages", "");
    refused(get, 400, "InvalidInput");
    let body = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    let late = Op::new("POST", "mails/messages?messagettl=0", body);
    refused(late, 400, "OutOfRangeQueryParameterValue");
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "");
    let many: Vec<Op> = (0..101).map(|n| message("mails", &n.to_string())).collect();
    let text = "99:The batch request operation exceeds the maximum 100 changes per change set.";
    send(&lazuli, &many).expect_error(400, "InvalidInput", text);
    assert!(lazuli.messages("mails").is_empty());
}

/// X-4.6: a message needs the account key, or an account SAS with `a` on queues.
#[test]
fn messages_need_a_right_on_queues() {
    let lazuli = with_queues();
    let with = |services, permissions| {
        let sas = AccountSas {
            version: "2019-02-02",
            services,
            resource_types: "o",
            permissions,
            expiry: "2030-01-01T00:00:00Z",
            ..AccountSas::default()
        };
        let token = sas.token(ACCOUNT, &well_known_key()).unwrap();
        let request = asking("POST", "/$batch").with("x-lazuli-transaction", "any").sas(&token);
        let operations = [insert("Orders", "a", services), message("mails", services)];
        lazuli.send_batch(&request, &operations).outer.text().to_owned()
    };
    assert!(with("t", "a").contains("HTTP/1.1 403 "));
    assert!(with("tq", "r").contains("HTTP/1.1 403 "));
    assert!(lazuli.messages("mails").is_empty());
    assert_eq!(lazuli.get("/Orders()").expect(200).row_keys(), "");
    assert!(with("qt", "a").contains("HTTP/1.1 201 "));
    assert_eq!(lazuli.messages("mails"), ["qt"]);
}

/// X-4.6: a table may be named like a queue's resource, in each style of address.
#[test]
fn a_table_called_messages_is_not_a_queue() {
    let lazuli = with_queues();
    lazuli.create_table("messages");
    let path_style = format!("http://127.0.0.1/{ACCOUNT}/messages");
    let host_style = format!("https://{ACCOUNT}.table.core.windows.net/messages");
    let targets = [path_style, host_style, "messages".to_owned(), "/messages".to_owned()];
    for (row, target) in targets.iter().enumerate() {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        let part = Op::at("POST", target, &body);
        send(&lazuli, &[part, message("mails", &row.to_string())]).expect(&[201, 201]);
    }
    assert_eq!(lazuli.get("/messages()").expect(200).row_keys(), "0 1 2 3");
    assert_eq!(lazuli.messages("mails"), ["0", "1", "2", "3"]);
    let body = "<QueueMessage><MessageText>x</MessageText></QueueMessage>";
    for target in [
        format!("http://127.0.0.1:10001/{ACCOUNT}/my-jobs/messages"),
        format!("https://{ACCOUNT}.queue.core.windows.net/my-jobs/messages"),
    ] {
        let part = Op::at("POST", &target, body).with("Content-Type", "application/xml");
        send(&lazuli, &[part]).expect(&[201]);
    }
    assert_eq!(lazuli.messages("my-jobs"), ["x", "x"]);
    let other = Op::at("POST", "http://127.0.0.1:10001/other/my-jobs/messages", body);
    let text = "0:A transaction puts messages into queues of its own account.";
    send(&lazuli, &[other]).expect_error(400, "InvalidInput", text);
}
