//! Indexes declared at run time: a type's declarations, without the type (P-0.5).

use crate::{Employee, employee, employees};
use lazuli_client::patterns::eventual::Eventual;
use lazuli_client::patterns::{FindingKind, IndexLayout, IndexPage, IndexPages};
use lazuli_client::prelude::*;
use lazuli_test::TestServer;

/// Every format of a key field whose text depends on its type, and a field with several properties.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Visits", rename_all = "PascalCase")]
#[table(partition = "v_{site:lower}", row = "{at:rev}_{number:pad}")]
#[index(
    guest,
    table = "VisitsByGuest",
    partition = "{guest:bucket(16)}",
    row = "{guest}!{site:lower}!{at:rev}{number:pad}"
)]
#[index(
    day,
    partition = "d_{at:date}",
    row = "{weight:pad}_{site:lower}_{at:ticks}_{number:rev}",
    project(notes)
)]
struct Visit {
    site: String,
    #[table(also_property)]
    at: Timestamp,
    number: u16,
    guest: Option<String>,
    weight: i32,
    #[table(chunked)]
    notes: String,
}

fn visit(number: u16, guest: Option<&str>) -> Visit {
    Visit {
        site: "north_1".into(),
        at: Timestamp::parse("2014-08-22T00:50:32Z").unwrap(),
        number,
        guest: guest.map(str::to_owned),
        weight: -i32::from(number),
        notes: "n".repeat(40_000),
    }
}

async fn all(mut pages: IndexPages) -> Vec<IndexPage> {
    let mut all = Vec::new();
    while let Some(page) = pages.next_page().await.unwrap() {
        all.push(page);
    }
    all
}

fn kinds(pages: &[IndexPage]) -> Vec<(FindingKind, String)> {
    let findings = pages.iter().flat_map(|page| &page.findings);
    let mut kinds: Vec<_> =
        findings.map(|finding| (finding.kind, finding.row.row.as_str().to_owned())).collect();
    kinds.sort_by(|a, b| a.1.cmp(&b.1));
    kinds
}

#[tokio::test]
async fn the_layout_of_a_type_finds_its_copies_as_the_type_does() {
    // P-0.5b.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    for id in 0..20 {
        table.insert(&employee(id, &format!("{id}@x"))).await.unwrap();
    }
    let layout = IndexLayout::of::<Employee>().unwrap();
    // A program prints it, another reads it.
    let text = serde_json::to_string(&layout).unwrap();
    assert_eq!(
        text,
        "{\"kind\":\"Employee\",\"partition\":\"{department}\",\"row\":\"empid_{id:06}\",\
         \"properties\":[\"FirstName\",\"LastName\",\"Age\",\"EmailAddress\"],\"indexes\":[\
         {\"name\":\"email\",\"row\":\"email_{EmailAddress}\",\"unique\":true},\
         {\"name\":\"last_name\",\"row\":\"last_{LastName}_{id:06}\",\
         \"project\":[\"FirstName\",\"LastName\",\"EmailAddress\"]}]}"
    );
    let layout: IndexLayout = serde_json::from_str(&text).unwrap();
    let untyped = table.retyped::<Entity>();
    let pages = all(untyped.indexes(&layout).pages()).await;
    assert_eq!((kinds(&pages), pages.iter().map(|page| page.rows).sum()), (vec![], 60));

    untyped.delete_key(("Sales", "email_3@x")).await.unwrap();
    untyped.merge(("Sales", "email_4@x")).set("Age", 99).await.unwrap();
    let foreign = Entity::new("Sales", "email_stranger@x")
        .with("_ix", "Employee/email")
        .with("_rk", "empid_000777");
    untyped.insert(&foreign).await.unwrap();
    untyped.delete_key(("Sales", "last_Jones_000007")).await.unwrap();
    let damaged = [
        (FindingKind::Missing, "email_3@x".to_owned()),
        (FindingKind::Stale, "email_4@x".to_owned()),
        (FindingKind::Orphan, "email_stranger@x".to_owned()),
        (FindingKind::Missing, "last_Jones_000007".to_owned()),
    ];
    assert_eq!(kinds(&all(untyped.indexes(&layout).pages()).await), damaged);
    // One index alone, then all.
    let only = untyped.indexes(&layout).only("last_name").unwrap().mending();
    assert_eq!(kinds(&all(only.pages()).await), damaged[3..]);
    let mended = all(untyped.indexes(&layout).mending().pages()).await;
    assert_eq!(kinds(&mended), damaged[..3]);
    assert!(mended.iter().all(|page| page.left.is_empty()));
    assert_eq!(table.verify().collect_at_most(10).await.unwrap(), []);
    assert!(untyped.indexes(&layout).only("phone").is_err());
}

#[tokio::test]
async fn the_rows_of_a_move_under_way_are_left_alone() {
    // P-12.6: a staged entity and its copies keep their keys, whether the maintenance uses the type or its layout.
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await;
    table.insert(&employee(3, "3@x")).await.unwrap();
    let untyped = table.retyped::<Entity>();
    let staged = Entity::new("Sales", "empid_000050")
        .with("EmailAddress", "50@x")
        .with("_ix", "!rehome/moving")
        .with("_st", "moving")
        .with("_pk", "Marketing")
        .with("_rk", "empid_000050");
    untyped.insert(&staged).await.unwrap();
    let copy = Entity::new("Sales", "email_50@x")
        .with("EmailAddress", "50@x")
        .with("_ix", "Employee/email")
        .with("_st", "moving")
        .with("_rk", "empid_000050");
    untyped.insert(&copy).await.unwrap();
    let layout = IndexLayout::of::<Employee>().unwrap();
    assert_eq!(kinds(&all(untyped.indexes(&layout).mending().pages()).await), []);
    assert_eq!(table.verify().collect_at_most(10).await.unwrap(), []);

    // A foreign writer gives another entity the value of an entity that is being moved: it does not get the copy.
    untyped.merge(("Sales", "empid_000003")).set("EmailAddress", "50@x").await.unwrap();
    untyped.delete_key(("Sales", "email_3@x")).await.unwrap();
    let taken = (FindingKind::Duplicate, "email_50@x".to_owned());
    let mended = all(untyped.indexes(&layout).only("email").unwrap().mending().pages()).await;
    assert_eq!(kinds(&mended), [taken]);
    let found = untyped.get(("Sales", "email_50@x")).await.unwrap().unwrap();
    assert_eq!(found.str("_rk"), Ok("empid_000050"));
}

#[tokio::test]
async fn copies_in_other_partitions_and_tables_are_filled_and_mended() {
    let server = TestServer::start().await.unwrap();
    let account = server.account();
    account.tables().create("Visits").await.unwrap();
    let rows = account.tables().table("Visits").unwrap();
    for number in 1..=3 {
        // As written by a program without the index.
        let visit = visit(number, (number < 3).then_some("O'Neill"));
        let (mut properties, key) = (lazuli_client::Properties::default(), visit.key().unwrap());
        visit.write(&mut properties).unwrap();
        let mut entity = Entity::new(key.partition.as_str(), key.row.as_str());
        properties.values().for_each(|(name, value)| entity.set(name.to_owned(), value.clone()));
        rows.insert(&entity).await.unwrap();
    }
    let layout = IndexLayout::of::<Visit>().unwrap();
    let text = serde_json::to_string(&layout).unwrap();
    assert!(text.contains("{Guest}!{site:lower}!{At:rev}{number:pad(u16)}"), "{text}");
    let layout: IndexLayout = serde_json::from_str(&text).unwrap();
    let mended = all(rows.indexes(&layout).mending().pages()).await;
    assert_eq!(mended.iter().map(|page| page.mended).sum::<u64>(), 2 + 3);
    // The type finds every copy where, and as, the layout wrote it.
    let eventual = Eventual::none(&account).table::<Visit>().unwrap();
    assert_eq!(eventual.verify().await.unwrap(), []);
    assert_eq!(kinds(&all(rows.indexes(&layout).pages()).await), []);

    // An entity deleted without its copies leaves three orphans, in two tables.
    let gone = visit(1, None).key().unwrap();
    rows.delete_key((gone.partition.as_str(), gone.row.as_str())).await.unwrap();
    let mut pages = rows.indexes(&layout).pages();
    let first = pages.next_page().await.unwrap().unwrap();
    assert_eq!(
        first.left.iter().map(|found| found.kind).collect::<Vec<_>>(),
        [FindingKind::Orphan]
    );
    // The check continues where it stopped.
    let token = first.token.unwrap().to_string();
    assert_eq!(token, "lzi1.VisitsByGuest");
    let rest =
        rows.indexes(&layout).resume(token.parse::<lazuli_client::patterns::IndexToken>().unwrap());
    let rest = all(rest.mending().pages()).await;
    assert_eq!((rest.len(), rest[0].mended), (1, 1));
    assert_eq!(all(rows.indexes(&layout).mending().pages()).await[0].mended, 1);
    assert_eq!(eventual.verify().await.unwrap(), []);
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let server = TestServer::start().await.unwrap();
    let table = employees(&server.account()).await.retyped::<Entity>();
    let layout = IndexLayout::new("Employee", "{department}", "empid_{id:06}").unwrap();
    let layout = layout.unique("email", "email_{Email}").unwrap();
    // Another kind, no such property, a later version, a type that keys cannot represent.
    for entity in [
        Entity::new("Sales", "Department").with("EntityType", "Department").with("Email", "d@x"),
        Entity::new("Sales", "empid_000001"),
        Entity::new("Sales", "empid_000002").with("EntityType", "Employee.2").with("Email", "b@x"),
        Entity::new("Sales", "empid_000003").with("Email", 1.5),
        Entity::new("Sales", "empid_000004").with("Email", "c@x"),
        Entity::new("Sales", "empid_000005").with("Email", "c@x"),
        // A row that is not a copy has the key of one.
        Entity::new("Sales", "empid_000006").with("Email", "note"),
        Entity::new("Sales", "email_note").with("Text", "mine"),
    ] {
        table.insert(&entity).await.unwrap();
    }
    let page = all(table.indexes(&layout).mending().pages()).await.remove(0);
    let unreadable: Vec<_> =
        page.unreadable.iter().map(|(key, error)| (key.row.as_str(), error.to_string())).collect();
    assert_eq!(unreadable.len(), 2, "{unreadable:?}");
    assert!(unreadable[0].1.contains("version 2") && unreadable[1].1.contains("`Email`"));
    // One of two holders has the copy; the other, and the one whose place is taken, are left.
    let [one, taken] = &page.left[..] else { panic!("{:?}", page.left) };
    assert!(["empid_000004", "empid_000005"].contains(&one.primary.row.as_str()), "{one}");
    assert_eq!((taken.kind, taken.primary.row.as_str()), (FindingKind::Missing, "empid_000006"));
    let again = all(table.indexes(&layout).pages()).await.remove(0);
    assert_eq!(again.left[0].kind, FindingKind::Duplicate);
    assert_eq!(table.get(("Sales", "email_note")).await.unwrap().unwrap().str("Text"), Ok("mine"));
}

#[test]
fn layouts_that_mix_rows_up_are_refused() {
    // P-0.4, P-1.2.
    let layout = || IndexLayout::new("Employee", "{department}", "empid_{id:06}").unwrap();
    let refused = |made: Result<IndexLayout, Error>, words: &str| {
        let error = made.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(layout().unique("email", "{Email}"), "begin with a literal");
    refused(layout().unique("email", "empid_x{Email}"), "begin like");
    refused(layout().index("name", "name_{Name}"), "`{id}`");
    refused(layout().unique("email", "email_{Email:up}"), "`up`");
    refused(layout().unique("a", "a_{X}").unwrap().unique("a", "b_{X}"), "its name");
    refused(IndexLayout::new("a/b", "x", "y"), "the kind");
    let read = |text: &str| serde_json::from_str::<IndexLayout>(text).unwrap_err().to_string();
    let text = r#"{"kind":"E","partition":"{p}","row":"r_{id}","indexes":[{"name":"a","row":"a_{id}","table":"x"}]}"#;
    assert!(read(text).contains("the table of the index a"));
    assert!(read(r#"{"kind":"E","partition":"p","row":"r","colour":1}"#).contains("colour"));
}
