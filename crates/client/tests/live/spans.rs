//! Spans (C-18.1 to C-18.3).

use crate::TestServer;
use lazuli_client::{Entity, Observe, col, partition};
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// The lines since the last call about the end of an operation.
    fn take(&self) -> Vec<String> {
        let text = String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap();
        let is_verb = |line: &&str| line.contains("operation{") && !line.contains("attempt{");
        text.lines().filter(is_verb).map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_span_says_what_was_done_and_shows_no_values() {
    let server = TestServer::start();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let account = server.account();
    let table = account.tables().create("Spans").await.unwrap();
    // Other tests run in this process: callsites that their threads, which have no subscriber, disabled are
    // evaluated again.
    tracing::callsite::rebuild_interest_cache();
    table.insert(&Entity::new("secret", "key").with("Age", 34)).await.unwrap();
    let lines = log.take();
    let insert = lines.iter().find(|line| line.contains("\"insert\"")).unwrap();
    for field in [
        "db.system.name=\"azure.tables\"",
        "db.collection.name=\"Spans\"",
        "server.address=\"127.0.0.1\"",
        "http.response.status_code=204",
        "lazuli.attempts=1",
        "az.client_request_id=",
        "az.service_request_id=",
    ] {
        assert!(insert.contains(field), "{field}: {insert}");
    }
    assert!(!insert.contains("secret") && !insert.contains("error.type"), "{insert}");

    let older = partition("secret").and(col("Age").gt(17));
    table.query(older.clone()).collect_at_most(10).await.unwrap();
    let [query] = &log.take()[..] else { panic!("one verb") };
    assert!(query.contains("PartitionKey eq ? and Age gt ?"), "{query}");
    assert!(query.contains("lazuli.entities=1") && !query.contains("secret"), "{query}");

    // An expected refusal is not an error.
    assert!(table.get(("a", "b")).await.unwrap().is_none());
    account.tables().create_if_missing("Spans").await.unwrap();
    table.delete_key(("a", "b")).await.unwrap();
    account.tables().delete_if_present("Absent").await.unwrap();
    for line in log.take() {
        assert!(!line.contains("error.type"), "{line}");
    }
    assert!(table.insert(&Entity::new("secret", "key")).await.is_err());
    let [insert] = &log.take()[..] else { panic!("one verb") };
    assert!(insert.contains("error.type=\"EntityAlreadyExists\""), "{insert}");
    let absent = account.tables().table("Absent").unwrap();
    assert!(absent.get(("a", "b")).await.is_err());
    let [get] = &log.take()[..] else { panic!("one verb") };
    assert!(get.contains("error.type=\"TableNotFound\""), "{get}");

    let open = server.builder().observe(Observe::default().keys()).build().unwrap();
    open.tables().table("Spans").unwrap().query(older).collect_at_most(10).await.unwrap();
    let [query] = &log.take()[..] else { panic!("one verb") };
    assert!(query.contains("'secret'"), "{query}");
}

/// A type that knows one property and drops the others.
#[derive(lazuli_client::TableEntity, Clone, Debug)]
#[table(partition = "{p}", row = "{r}", rename_all = "PascalCase")]
struct Narrow {
    p: String,
    r: String,
    age: i32,
}

#[tokio::test]
async fn a_type_that_drops_properties_is_warned_of_once() {
    // C-5.5, CS-22.
    let server = TestServer::start();
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let table = server.account().tables().create("Narrow").await.unwrap();
    tracing::callsite::rebuild_interest_cache();
    let narrow = table.retyped::<Narrow>();
    for row in ["1", "2"] {
        let entity = Entity::new("p", row).with("Age", 34).with("Email", "donh@contoso.com");
        table.insert(&entity).await.unwrap();
        let older = |narrow: &mut Narrow| {
            narrow.age += 1;
            Ok(lazuli_client::Change::Write)
        };
        narrow.update_with(Narrow::key("p", row).unwrap(), older).await.unwrap();
        let read = table.get(("p", row)).required().await.unwrap();
        assert_eq!((read.get::<i32>("Age"), read.value("Email")), (Ok(35), None));
    }
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let warnings: Vec<&str> = text.lines().filter(|line| line.contains("does not know")).collect();
    assert_eq!(warnings.len(), 1, "{text}");
    assert!(warnings[0].contains("\"Email\"") && warnings[0].contains("Narrow"), "{text}");
}
