//! `lazuli queues`.

use crate::harness::{Done, Lazuli, member};

fn with_queue() -> Lazuli {
    let lazuli = Lazuli::start();
    lazuli.ok("queues create jobs");
    lazuli
}

#[track_caller]
fn ok(done: Done) -> String {
    assert_eq!(done.code, 0, "{done:?}");
    done.stdout
}

#[test]
fn queues_are_created_listed_and_deleted() {
    let lazuli = with_queue();
    assert_eq!(lazuli.ok("queues create letters --json"), "{\"queue\":\"letters\"}\n");
    lazuli.ok("queues create letters");
    assert_eq!(lazuli.ok("queues list"), "QUEUE\njobs\nletters\n");
    let json = lazuli.ok("queues list --prefix le --json");
    assert_eq!(json, "{\"queues\":[{\"name\":\"letters\"}]}\n");
    lazuli.fails("queues delete letters", 2, &["must be confirmed"]);
    let json = lazuli.ok("queues delete letters --yes --json");
    assert_eq!(json, "{\"queue\":\"letters\",\"deleted\":true}\n");
    lazuli.fails("queues delete letters --yes", 3, &["there is no queue letters"]);
    lazuli.ok("queues delete letters --yes --if-present");
    lazuli.fails("queues create Wrong_Name", 2, &["is not the name of a queue"]);
    lazuli.fails("queues send nothing x", 3, &["QueueNotFound"]);
}

#[test]
fn a_message_goes_through_a_queue() {
    let lazuli = with_queue();
    let sent = ok(lazuli.run(&["queues", "send", "jobs", "resize 7.png", "--json"]));
    let id = member(&sent, "id");
    assert!(sent.contains("\"popReceipt\":\""), "{sent}");
    ok(lazuli.run_with(&["queues", "put", "jobs"], "from stdin"));
    assert_eq!(lazuli.ok("queues count jobs"), "2\n");
    assert_eq!(lazuli.ok("queues count jobs --json"), "{\"queue\":\"jobs\",\"messages\":2}\n");

    let peeked = lazuli.ok("queues peek jobs --count 2 --json");
    assert!(
        peeked
            .lines()
            .next()
            .unwrap()
            .ends_with("\"encoding\":\"base64\",\"body\":\"resize 7.png\"}"),
        "{peeked}"
    );
    assert!(!peeked.contains("popReceipt") && peeked.contains("from stdin"), "{peeked}");
    let table = lazuli.ok("queues peek jobs");
    assert!(table.starts_with("ID  ") && table.contains("COUNT  BODY\n"), "{table}");

    let received = lazuli.ok("queues receive jobs --json");
    assert_eq!(member(&received, "id"), id);
    assert!(received.contains("\"dequeueCount\":1,"), "{received}");
    let receipt = member(&received, "popReceipt");
    let update = ["queues", "update", "jobs", &id, &receipt, "resize 8.png", "--json"];
    let updated = ok(lazuli.run(&update));
    let next = member(&updated, "popReceipt");
    lazuli.run(&["queues", "delete-message", "jobs", &id, &receipt]).failed(6, &["hint: receive"]);
    let again = lazuli.ok("queues get jobs --count 32 --json");
    assert!(again.contains("resize 8.png") && again.contains("\"dequeueCount\":2,"), "{again}");
    let newest =
        again.lines().find(|line| line.contains(&id)).map(|line| member(line, "popReceipt"));
    lazuli.run(&["queues", "delete-message", "jobs", &id, &next]).failed(6, &[]);
    let gone =
        ok(lazuli.run(&["queues", "delete-message", "jobs", &id, &newest.unwrap(), "--json"]));
    assert_eq!(gone, format!("{{\"id\":\"{id}\",\"deleted\":true}}\n"));
    assert_eq!(lazuli.ok("queues count jobs"), "1\n");
}

#[test]
fn messages_are_hidden_deleted_and_cleared() {
    let lazuli = with_queue();
    ok(lazuli.run(&["queues", "send", "jobs", "later", "--delay", "600"]));
    assert_eq!(lazuli.ok("queues receive jobs --json"), "");
    assert_eq!(lazuli.ok("queues receive jobs").lines().count(), 1, "a heading alone");
    ok(lazuli.run(&["queues", "send", "jobs", "plain", "--text", "--ttl", "never"]));
    let received = lazuli.ok("queues receive jobs --delete --json");
    assert!(received.contains("\"encoding\":\"text\",\"body\":\"plain\""), "{received}");
    assert_eq!(lazuli.ok("queues count jobs"), "1\n");
    lazuli.fails("queues clear jobs", 2, &["must be confirmed"]);
    assert_eq!(lazuli.ok("queues clear jobs --yes --json"), "{\"queue\":\"jobs\"}\n");
    assert_eq!(lazuli.ok("queues count jobs"), "0\n");
}

#[test]
fn bytes_that_are_no_text_are_shown_in_base64() {
    let lazuli = with_queue();
    let path = lazuli.home().join("bytes");
    std::fs::write(&path, [0, 255, 1]).unwrap();
    let mut send = lazuli.command(&["queues", "send", "jobs", "-"]);
    let sent = send.stdin(std::fs::File::open(&path).unwrap()).output().unwrap();
    assert!(sent.status.success());
    let peeked = lazuli.ok("queues peek jobs --json");
    assert!(peeked.ends_with("\"encoding\":\"base64\",\"bodyBase64\":\"AP8B\"}\n"), "{peeked}");
}

#[test]
fn what_is_not_there_or_cannot_be_has_a_hint() {
    let lazuli = with_queue();
    lazuli.fails("queues count nothing", 3, &["QueueNotFound", "hint: `lazuli queues create"]);
    lazuli.fails("queues create J", 2, &["is not the name of a queue", "hint: a name has 3 to 63"]);
}

#[test]
fn wrong_numbers_are_wrong_usage() {
    let lazuli = with_queue();
    lazuli.fails("queues receive jobs --count 33", 2, &["32"]);
    lazuli.fails("queues peek jobs --count 0", 2, &["32"]);
    for line in
        ["queues send jobs x --ttl soon", "queues send jobs x --ttl 0", "queues update jobs"]
    {
        assert_eq!(lazuli.line(line).code, 2, "{line}");
    }
    let long = "x".repeat(70_000);
    lazuli.run_with(&["queues", "send", "jobs", "-"], &long).failed(2, &[]);
}
