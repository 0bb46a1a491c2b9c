//! The official clients read what ours wrote, and vice versa: CS-24.

use crate::peer::Peer;
use lazuli_client::{EdmType, Entity, Guid, Table, Timestamp, Value, partition};
use std::process::Command;

crate::scenarios! {
    cs_24_the_python_client_and_ours_agree
    cs_24_the_javascript_client_and_ours_agree
}

/// A value of every Edm type, as both sides write and expect it.
fn everything(partition: &str) -> Entity {
    Entity::new(partition, "everything")
        .with("Text", "it's \u{e9} \u{1f680}")
        .with("Flag", true)
        .with("Small", -7)
        .with("Big", 1_i64 << 40)
        .with("Ratio", 0.25)
        .with("When", Timestamp::parse("2014-08-22T00:50:32.1230000Z").unwrap())
        .with("Id", Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap())
        .with("Data", vec![0_u8, 1, 254, 255])
}

/// Rows of one transaction, which take three pages of 40.
const ROWS: usize = 100;

async fn write_as(table: &Table, partition: &str) {
    table.insert(&everything(partition)).await.unwrap();
    let batch = (0..ROWS).fold(table.batch("rows-of-ours"), |batch, number| {
        batch.insert(&Entity::new("rows-of-ours", format!("{number:03}")).with("N", number as i32))
    });
    batch.commit().await.unwrap();
}

fn sorted(entity: &Entity) -> Vec<(&str, EdmType, &Value)> {
    let typed = |(name, value)| (name, Value::as_ref(value).edm_type(), value);
    let mut properties: Vec<_> = entity.properties().map(typed).collect();
    properties.sort_by_key(|(name, ..)| *name);
    properties
}

/// Runs `program` against the peer; it must succeed.
pub(crate) async fn run(peer: &Peer, mut program: Command) {
    program.env("LAZULI_CONNECTION_STRING", peer.connection_string());
    let output = tokio::task::spawn_blocking(move || program.output()).await.unwrap().unwrap();
    let [stdout, stderr] =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{stdout}\n{stderr}");
}

/// Has `program` read and write, and reads what it wrote.
async fn agree(peer: &Peer, mut program: Command) {
    let table = peer.table("Interop").await;
    write_as(&table, "ours").await;
    program.arg(table.name());
    run(peer, program).await;
    let theirs = table.get(("theirs", "everything")).required().await.unwrap();
    let expected = everything("theirs");
    assert_eq!(sorted(&theirs), sorted(&expected));
    let mut pages = table.query(partition("rows-of-theirs")).page_size(40).pages();
    let (mut sizes, mut rows) = (Vec::new(), Vec::new());
    while let Some(page) = pages.next_page().await.unwrap() {
        sizes.push(page.items().len());
        rows.extend(page.items().iter().map(|row| row.get::<i32>("N").unwrap()));
    }
    assert_eq!((sizes, rows), (vec![40, 40, 20], (0..ROWS as i32).collect()));
}

/// The value of a variable that `cargo xtask test` sets.
#[expect(clippy::print_stderr, reason = "the person who runs the test wants to know")]
pub(crate) fn variable(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        eprintln!("skipped: {name} is not set; `cargo xtask test --only client` sets it");
    }
    value
}

async fn cs_24_the_python_client_and_ours_agree(peer: Peer) {
    let Some(python) = variable("LAZULI_PYTHON") else { return };
    let Some(file) = variable("LAZULI_PYTHON_PROGRAM") else { return };
    let mut program = Command::new(python);
    program.arg(file).env("PYTHONDONTWRITEBYTECODE", "1");
    agree(&peer, program).await;
}

async fn cs_24_the_javascript_client_and_ours_agree(peer: Peer) {
    let Some(file) = variable("LAZULI_NODE_PROGRAM") else { return };
    let mut program = Command::new("node");
    program.arg(file);
    agree(&peer, program).await;
}
