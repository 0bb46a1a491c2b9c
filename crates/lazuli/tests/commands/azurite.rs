//! The main commands against Azurite, another implementation of the services; the only test of blobs.

use crate::harness::{Lazuli, PEOPLE, without_versions};
use lazuli_testkit::azurite::Azurite;

#[test]
fn tables_and_entities_of_another_server() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let lazuli = Lazuli::of(&azurite.connection_string());
    lazuli.ok("tables create People");
    lazuli.fails("tables create People", 6, &["409 TableAlreadyExists"]);
    assert_eq!(lazuli.ok("tables list"), "TABLE\nPeople\n");
    assert_eq!(lazuli.run_with(&["entities", "put", "People"], PEOPLE).code, 0);
    let ken = lazuli.ok("entities get People Sales 00010 --json");
    assert!(without_versions(&ken).contains("\"Hired@odata.type\":\"Edm.DateTime\""), "{ken}");
    let query = ["entities", "query", "People", "--filter", "Age ge 20", "--select", "Age"];
    let expect = "\
PartitionKey  RowKey  Age
Marketing     00001    34
Marketing     00002    47
Sales         00010    23
";
    assert_eq!(lazuli.run(&query).stdout, expect);
    let page = lazuli.line("entities query People --top 2 --json");
    let (_, token) = page.stderr.split_once("--resume ").unwrap();
    let token = token.split(',').next().unwrap();
    let rest = lazuli.run(&["entities", "query", "People", "--resume", token, "--json"]);
    assert_eq!(rest.stdout.lines().count(), 2, "{rest:?}");
    lazuli.fails("entities get People Sales nobody", 3, &[]);
    lazuli.ok("entities put People PartitionKey=Sales RowKey=00010 Age:Int32=24 --merge");
    let done = lazuli.run(&["entities", "delete", "People", "--filter", "Age lt 30", "--yes"]);
    assert_eq!((done.code, &*done.stderr), (0, "deleted 2 entities\n"));
    let count = lazuli.line("entities count People");
    assert_eq!(count.stdout, "2\n", "{count:?}");
    assert!(count.stderr.contains("this server does not count"), "{count:?}");
    // It has transactions of one partition alone.
    let [one, other] = ["Sales", "Other"]
        .map(|key| format!("{{\"insert\":{{\"PartitionKey\":\"{key}\",\"RowKey\":\"1\"}}}}"));
    let transact = ["entities", "transact", "People"];
    lazuli.run_with(&transact, &format!("{one}{other}")).failed(2, &["over partitions and tables"]);
    assert_eq!(lazuli.run_with(&transact, &one).code, 0);
    lazuli.ok("entities delete People Sales 1");
    let token = lazuli.ok("sas table People --permissions r --expiry 1h --json");
    let url = crate::harness::member(&token, "url");
    let (address, token) = url.split_once('?').unwrap();
    let root = address.strip_suffix("/People").unwrap();
    let get =
        ["entities", "get", "People", "Marketing", "00001", "--endpoint", root, "--sas", token];
    assert_eq!(lazuli.run(&get).code, 0);
    lazuli.ok("tables delete People --yes");
    lazuli.fails("entities count People", 3, &["TableNotFound"]);
}

#[test]
fn queues_of_another_server() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let lazuli = Lazuli::of(&azurite.connection_string());
    lazuli.ok("queues create jobs");
    assert_eq!(lazuli.ok("queues list"), "QUEUE\njobs\n");
    lazuli.ok("queues send jobs work");
    assert!(lazuli.ok("queues peek jobs --json").contains("\"body\":\"work\""));
    assert!(lazuli.ok("queues receive jobs --delete --json").contains("\"body\":\"work\""));
    assert_eq!(lazuli.ok("queues count jobs"), "0\n");
    lazuli.ok("queues delete jobs --yes");
    lazuli.fails("queues count jobs", 3, &["QueueNotFound"]);
}

#[test]
fn blobs_are_stored_listed_printed_and_deleted() {
    let Some(azurite) = Azurite::start_if_possible().unwrap() else { return };
    let lazuli = Lazuli::of(&azurite.connection_string());
    let made = lazuli.ok("blobs containers create photos --json");
    assert_eq!(made, "{\"container\":\"photos\"}\n");
    assert_eq!(lazuli.ok("blobs containers list"), "CONTAINER\nphotos\n");
    let put = ["blobs", "put", "photos", "2026/a b.txt", "--content-type", "text/plain", "--json"];
    let stored = lazuli.run_with(&put, "hello\n");
    let expect = "{\"container\":\"photos\",\"blob\":\"2026/a b.txt\",\"bytes\":6,\"etag\":\"";
    assert!(stored.stdout.starts_with(expect), "{stored:?}");
    lazuli.file("people.jsonl", PEOPLE);
    lazuli.ok("blobs put photos people people.jsonl");
    lazuli.run_with(&["blobs", "put", "photos", "people", "--if-absent"], "x").failed(6, &["409"]);

    let list = lazuli.ok("blobs list photos");
    assert!(list.starts_with("BLOB          BYTES  LAST MODIFIED"), "{list}");
    let json = lazuli.ok("blobs list photos --delimiter / --json");
    assert!(json.starts_with("{\"prefix\":\"2026/\"}\n{\"name\":\"people\",\"bytes\":"), "{json}");
    assert_eq!(lazuli.ok("blobs get photos people"), PEOPLE);
    let get = ["blobs", "get", "photos", "2026/a b.txt", "--output", "copy.txt", "--json"];
    assert_eq!(
        lazuli.run(&get).stdout,
        "{\"container\":\"photos\",\"blob\":\"2026/a b.txt\",\"bytes\":6}\n"
    );
    assert_eq!(std::fs::read(lazuli.home().join("copy.txt")).unwrap(), b"hello\n");
    lazuli.fails("blobs get photos nothing", 3, &["404 BlobNotFound"]);
    assert!(!lazuli.home().join("nothing").exists());
    lazuli.fails("blobs get photos people --json", 2, &["--output"]);
    lazuli.fails("blobs put photos x nothing.txt", 2, &["cannot read nothing.txt"]);
    let made = lazuli.ok("sas blob photos people --permissions r --expiry 1h --json");
    let url = crate::harness::member(&made, "url");
    let explained = lazuli.run(&["sas", "explain", &url]);
    assert!(explained.stdout.ends_with("valid      yes\n"), "{explained:?}");
    let (address, token) = url.split_once('?').unwrap();
    let root = address.strip_suffix("/photos/people").unwrap();
    let by_sas = ["--endpoint", root, "--sas", token];
    let get = [&["blobs", "get", "photos", "people"][..], &by_sas].concat();
    assert_eq!(lazuli.run(&get).stdout, PEOPLE);
    let delete = [&["blobs", "delete", "photos", "people"][..], &by_sas].concat();
    lazuli.run(&delete).failed(4, &[]);
    lazuli.ok("blobs delete photos people");
    lazuli.fails("blobs delete photos people", 3, &["there is no blob people"]);
    lazuli.fails("blobs containers delete photos", 2, &["must be confirmed"]);
    lazuli.ok("blobs containers delete photos --yes");
    lazuli.fails("blobs containers delete photos --yes", 3, &[]);
    lazuli.fails("blobs list photos", 3, &["ContainerNotFound"]);
}
