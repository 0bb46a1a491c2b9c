//! Wide entities (P-10): their cost, what readers see, what a crash leaves.

#![expect(clippy::unwrap_used, reason = "tests may")]

use lazuli_client::patterns::FindingKind;
use lazuli_client::patterns::wide::WideTable;
use lazuli_client::prelude::*;
use lazuli_client::{Change, Series};
use lazuli_test::crash::{self, TestClient, chosen_seeds};
use lazuli_test::{FaultyServer, Seeded, TestServer, model};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 20;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Years", kind = "Year", partition = "{department}")]
#[table(row = "{employee:06}_{year:04}", wide(parts = 2))]
struct Year {
    department: String,
    employee: u32,
    year: u16,
    #[table(series(prefix = "D", points = 365))]
    days: Series<i32, 365>,
}

/// Three parts, by name.
#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Years", partition = "p", row = "{id}", wide(parts = 3))]
struct Thirds {
    id: String,
    #[table(part = 1)]
    first: i32,
    #[table(part = 2)]
    second: i32,
    #[table(part = 3)]
    third: i32,
}

#[derive(Projection, Debug, PartialEq)]
#[table(of = Thirds)]
struct Last {
    third: i32,
}

fn year(value: Option<i32>) -> Year {
    let days = std::array::from_fn(|_| value).into();
    Year { department: "Sales".into(), employee: 123, year: 2014, days }
}

fn key() -> Key<Year> {
    Year::key("Sales", 123, 2014).unwrap()
}

fn years(account: &Account) -> WideTable<Year> {
    account.tables().wide().unwrap()
}

async fn counted() -> (FaultyServer, WideTable<Year>) {
    let server = TestServer::with_faults().await.unwrap();
    server.direct().tables().create("Years").await.unwrap();
    let years = years(&server.account());
    (server, years)
}

/// Method and path of the requests since the last call; the number of operations of a transaction.
fn requests(server: &FaultyServer) -> Vec<(String, usize)> {
    let exchanges = server.faults().take();
    exchanges.iter().map(|e| (e.method.to_string(), e.operations())).collect()
}

fn one(method: &str) -> (String, usize) {
    (method.to_owned(), 1)
}

#[tokio::test]
async fn a_year_is_two_rows_in_one_transaction() {
    // PS-10.1, and its cost.
    let (server, years) = counted().await;
    let mut year = year(None);
    for (day, value) in year.days.iter_mut().enumerate() {
        *value = Some(i32::try_from(day).unwrap());
    }
    years.insert(&year).await.unwrap();
    assert_eq!(requests(&server), [("POST".to_owned(), Year::COST.insert().egt_ops)]);
    assert_eq!(*years.get(key()).await.unwrap().unwrap(), year);
    assert_eq!(requests(&server), [one("GET"), one("GET")]);
    let rows = years.rows().query(partition("Sales")).collect_at_most(9).await.unwrap();
    let keys: Vec<_> = rows.iter().map(|row| row.row_key()).collect();
    assert_eq!(keys, ["000123_2014_01", "000123_2014_02"]);
    assert!(rows[0].value("D248").is_some() && rows[0].value("D249").is_none());
    assert!(rows[1].value("D249").is_some() && rows[1].value("D365").is_some());
    assert_eq!(rows[0].get::<i32>("_parts").unwrap(), 2);
    assert_eq!(rows[0].value("_gen"), rows[1].value("_gen"));
    assert_eq!(rows[0].len(), 252, "all that a row may have");
    assert!(years.insert(&year).await.unwrap_err().is_conflict());
}

#[tokio::test]
async fn four_hundred_properties_are_two_rows() {
    // PS-10.4; `compile_fail/wide.rs` has the 30,000. P-10.1: 248 a part.
    #[derive(TableEntity, Clone, Debug, PartialEq)]
    #[table(name = "Years", partition = "p", row = "{id}", wide(parts = 2))]
    struct Many {
        id: String,
        #[table(series(prefix = "D", points = 400))]
        days: Series<i32, 400>,
    }
    let (server, _) = counted().await;
    let table: WideTable<Many> = server.account().tables().wide().unwrap();
    let days = std::array::from_fn(|day| i32::try_from(day).ok()).into();
    let many = Many { id: "x".into(), days };
    table.insert(&many).await.unwrap();
    assert_eq!(requests(&server), [("POST".to_owned(), 2)]);
    assert_eq!(*table.get(Many::key("x").unwrap()).await.unwrap().unwrap(), many);
    let rows = table.rows().query(partition("p")).collect_at_most(9).await.unwrap();
    // The second has `_gen`, the first also `_parts` and `_WriteIds`.
    assert_eq!(rows.iter().map(|row| row.len()).collect::<Vec<_>>(), [248 + 3, 152 + 1]);
}

#[tokio::test]
async fn a_day_is_one_merge_of_its_row() {
    // PS-10.2, P-10.3.
    let (server, years) = counted().await;
    years.insert(&year(Some(1))).await.unwrap();
    let before = years.get(key()).await.unwrap().unwrap();
    requests(&server);
    years.merge(key()).set(Year::DAYS.point(299), 7).await.unwrap();
    assert_eq!(requests(&server), [one("PATCH")]);
    let after = years.get(key()).await.unwrap().unwrap();
    assert_eq!((after.days[299], after.days[298]), (Some(7), Some(1)));
    assert_eq!(after.etag(1), before.etag(1));
    assert_ne!(after.etag(2), before.etag(2));
    // In both rows: one transaction, and both come from one write.
    requests(&server);
    let merge = years.merge(key()).set(Year::DAYS.point(0), 8).set(Year::DAYS.point(364), 9);
    merge.await.unwrap();
    assert_eq!(requests(&server), [("POST".to_owned(), 2)]);
    let after = years.get(key()).await.unwrap().unwrap();
    assert_eq!((after.days[0], after.days[1], after.days[364]), (Some(8), Some(1), Some(9)));
    let absent = Year::key("Sales", 124, 2014).unwrap();
    let merge = years.merge(absent).set(Year::DAYS.point(1), 1).await;
    assert!(merge.unwrap_err().is_not_found());
    assert!(
        years.merge(key()).set(Year::DAYS.point(365), 1).await.is_err(),
        "there is no such day"
    );
}

#[tokio::test]
async fn a_replace_does_not_lose_a_merge_of_another_row() {
    // PS-10.6, P-10.2: the versions of all rows count. A merge into the second row does not change that of the first.
    let (_server, years) = counted().await;
    years.insert(&year(Some(1))).await.unwrap();
    let mut old = years.get(key()).await.unwrap().unwrap();
    years.merge(key()).set(Year::DAYS.point(299), 7).await.unwrap();
    old.days[0] = Some(2);
    assert!(years.replace(&old).await.unwrap_err().is_precondition_failed());
    let updated = years.update_with(key(), |year| {
        year.days[0] = Some(2);
        Ok(Change::Write)
    });
    updated.await.unwrap();
    let now = years.get(key()).await.unwrap().unwrap();
    assert_eq!((now.days[0], now.days[299]), (Some(2), Some(7)));
    assert!(years.delete(&old).await.unwrap_err().is_precondition_failed());
    years.delete(&now).await.unwrap();
    assert!(years.get(key()).await.unwrap().is_none());
    assert!(!years.delete_key(key()).await.unwrap());
}

#[tokio::test]
async fn three_parts_are_one_query_and_a_projection_reads_its_own() {
    // P-10.4.
    let (server, _) = counted().await;
    let thirds: WideTable<Thirds> = server.account().tables().wide().unwrap();
    let value = Thirds { id: "x".into(), first: 1, second: 2, third: 3 };
    thirds.upsert(&value).await.unwrap();
    // A row between the parts that is not a part.
    thirds.rows().insert(&Entity::new("p", "x_02x")).await.unwrap();
    requests(&server);
    let key = || Thirds::key("x").unwrap();
    assert_eq!(*thirds.get(key()).await.unwrap().unwrap(), value);
    assert_eq!(requests(&server), [one("GET")]);
    assert_eq!(thirds.get_as::<Last>(key()).await.unwrap(), Some(Last { third: 3 }));
    let exchanges = server.faults().take();
    assert_eq!(exchanges.len(), 1);
    assert!(exchanges[0].path.contains("x_03"), "{}", exchanges[0].path);
    assert!(thirds.get_as::<Last>(Thirds::key("y").unwrap()).await.unwrap().is_none());
    thirds.merge(key()).set(Thirds::FIRST, 4).set(Thirds::THIRD, 5).await.unwrap();
    assert_eq!(thirds.get(key()).await.unwrap().unwrap().third, 5);
}

#[tokio::test]
async fn more_or_fewer_parts_in_a_later_version_are_read_and_replaced() {
    #[derive(TableEntity, Clone, Debug, PartialEq)]
    #[table(name = "Years", partition = "p", row = "{id}", wide(parts = 1))]
    struct Less {
        id: String,
        first: i32,
    }
    #[derive(TableEntity, Clone, Debug, PartialEq)]
    #[table(name = "Years", partition = "p", row = "{id}", wide(parts = 2))]
    struct More {
        id: String,
        first: i32,
        #[table(part = 2)]
        second: Option<i32>,
    }
    let (server, _) = counted().await;
    let tables = server.account().tables();
    let (less, more) = (tables.wide::<Less>().unwrap(), tables.wide::<More>().unwrap());
    less.insert(&Less { id: "x".into(), first: 1 }).await.unwrap();
    let mut loaded = more.get(More::key("x").unwrap()).await.unwrap().unwrap();
    assert_eq!((loaded.first, loaded.second), (1, None));
    loaded.second = Some(2);
    more.replace(&loaded).await.unwrap();
    let loaded = less.get(Less::key("x").unwrap()).await.unwrap().unwrap();
    assert!(loaded.etag(2).is_some());
    less.replace(&loaded).await.unwrap();
    let rows = less.rows().query(partition("p")).collect_at_most(9).await.unwrap();
    assert_eq!(rows.len(), 1, "the surplus row is gone");
    // A blind write leaves it; it is never read.
    more.upsert(&More { id: "x".into(), first: 3, second: Some(4) }).await.unwrap();
    less.upsert(&Less { id: "x".into(), first: 5 }).await.unwrap();
    assert_eq!(more.get(More::key("x").unwrap()).await.unwrap().unwrap().second, None);
    let findings = less.verify("p", 9).await.unwrap();
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].kind, findings[0].row.row.as_str()), (FindingKind::Orphan, "x_02"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_never_sees_two_writes_at_once() {
    // PS-10.3.
    let (server, years) = counted().await;
    years.insert(&year(Some(0))).await.unwrap();
    let is_over = AtomicBool::new(false);
    let write = async {
        let rival = self::years(&server.direct());
        for round in 1..=1000 {
            rival.upsert(&year(Some(round))).await.unwrap();
        }
        is_over.store(true, Ordering::Release);
    };
    let read = async {
        let mut reads = 0;
        while !is_over.load(Ordering::Acquire) {
            let found = years.get(key()).await.unwrap().unwrap();
            let first = found.days[0];
            assert!(first.is_some() && found.days.iter().all(|day| *day == first), "{found:?}");
            reads += 1;
        }
        reads
    };
    let ((), reads) = tokio::join!(write, read);
    assert!(reads > 20, "{reads}");
}

#[tokio::test]
async fn an_entity_has_up_to_four_megabytes() {
    // PS-10.5, P-10.5.
    #[derive(TableEntity, Clone, Debug, PartialEq)]
    #[table(name = "Years", partition = "p", row = "{id}", wide(parts = 11))]
    struct Texts {
        id: String,
        #[table(chunked, part = 1)]
        a: String,
        #[table(chunked, part = 2)]
        b: String,
        #[table(chunked, part = 3)]
        c: String,
        #[table(chunked, part = 4)]
        d: String,
        #[table(chunked, part = 5)]
        e: String,
        #[table(chunked, part = 6)]
        f: String,
        #[table(chunked, part = 7)]
        g: String,
        #[table(chunked, part = 8)]
        h: String,
        #[table(chunked, part = 9)]
        i: String,
        #[table(chunked, part = 10)]
        j: String,
        #[table(chunked, part = 11)]
        k: String,
    }
    let (server, _) = counted().await;
    let texts: WideTable<Texts> = server.account().tables().wide().unwrap();
    // One byte per character in the request, two in the row.
    let texts_of = |bytes: usize| {
        let text = "x".repeat(bytes / 11);
        let [a, b, c, d, e, f, g, h, i, j, k] = std::array::from_fn(|_| text.clone());
        Texts { id: "x".into(), a, b, c, d, e, f, g, h, i, j, k }
    };
    let large = texts_of(3_500 * 1024);
    texts.insert(&large).await.unwrap();
    assert_eq!(*texts.get(Texts::key("x").unwrap()).await.unwrap().unwrap(), large);
    requests(&server);
    let error = texts.insert(&texts_of(5 * 1024 * 1024)).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitExceeded(_)), "{error}");
    assert_eq!(requests(&server), [], "nothing was sent");
}

#[tokio::test]
async fn a_search_that_ends_goes_on_where_it_was() {
    // P-0.5, P-0.5a: pages end early, even between the rows of an entity.
    let server = TestServer::builder().early_pages(3).start().await.unwrap();
    server.account().tables().create("Years").await.unwrap();
    let years = years(&server.account());
    for employee in 1..=30 {
        years.insert(&Year { employee, ..year(Some(1)) }).await.unwrap();
    }
    for employee in [1, 17, 30] {
        let row = format!("{employee:06}_2014_02");
        years.rows().merge(("Sales", &*row)).set("_gen", 1_i64).await.unwrap();
    }
    let (mut pages, mut findings, mut token) = (0, Vec::new(), None::<String>);
    loop {
        let resume = token.map(|text| text.parse().unwrap());
        let page = years.verify_page("Sales", resume.as_ref()).await.unwrap();
        pages += 1;
        findings.extend(page.findings);
        let Some(next) = page.next else { break };
        token = Some(next.to_string());
    }
    assert!(pages > 1, "{pages}");
    assert_eq!(findings.len(), 3);
    assert_eq!(findings, years.verify("Sales", 9).await.unwrap());
}

#[tokio::test]
async fn rows_of_different_writes_are_found() {
    // P-10.6.
    let (_server, years) = counted().await;
    years.insert(&year(Some(1))).await.unwrap();
    assert_eq!(years.verify("Sales", 9).await.unwrap(), []);
    let foreign = years.rows().merge(("Sales", "000123_2014_02")).set("_gen", 1_i64);
    foreign.await.unwrap();
    let findings = years.verify("Sales", 9).await.unwrap();
    assert_eq!(findings.iter().map(|f| f.kind).collect::<Vec<_>>(), [FindingKind::Torn]);
    let torn = years.get(key()).await.unwrap_err();
    assert_eq!(*torn.kind(), ErrorKind::Torn);
    years.upsert(&year(Some(2))).await.unwrap();
    assert_eq!(years.verify("Sales", 9).await.unwrap(), []);
}

async fn setup(client: &TestClient) {
    client.tables().create("Years").await.unwrap();
    years(client).insert(&year(Some(0))).await.unwrap();
}

#[tokio::test]
async fn a_client_that_dies_leaves_a_whole_entity() {
    // PS-10.7, P-0.7: every point of an update.
    let requests = crash::every_point(
        setup,
        async |client, ()| {
            let add = |year: &mut Year| {
                year.days.iter_mut().flatten().for_each(|day| *day += 1);
                Ok(Change::Write)
            };
            years(client).update_with(key(), add).await.unwrap();
        },
        async |_, ()| {},
        async |client, (), outcome| {
            let found = years(client).get(key()).await.unwrap().unwrap();
            let first = found.days[0];
            assert!(found.days.iter().all(|day| *day == first));
            assert!(first == Some(1) || (first == Some(0) && outcome.is_none()));
            assert_eq!(years(client).verify("Sales", 9).await.unwrap(), []);
        },
    );
    assert_eq!(requests.await.unwrap(), 3, "two rows, one transaction");
}

#[tokio::test]
async fn three_writers_with_faults_keep_what_they_acknowledged() {
    // Day n counts everybody's updates, day 300 + n those of writer n by merge: no write may undo another's.
    #[derive(Default)]
    struct Tally {
        acknowledged: i32,
        possible: i32,
        merged: BTreeMap<usize, (i32, i32)>,
    }
    crash::seeds(
        chosen_seeds(SEEDS),
        async |client| {
            setup(client).await;
            Mutex::new(Tally::default())
        },
        async |client, tally: &Mutex<Tally>, writer| {
            let point = 300 + writer.number;
            for round in 1..=4 {
                tally.lock().unwrap().merged.entry(point).or_default().1 = round;
                let merge = years(client).merge(key()).set(Year::DAYS.point(point), round).await;
                if merge.is_ok() {
                    tally.lock().unwrap().merged.entry(point).or_default().0 = round;
                }
                tally.lock().unwrap().possible += 1;
                let add = |year: &mut Year| {
                    year.days[0] = year.days[0].map(|day| day + 1);
                    year.days[364] = year.days[364].map(|day| day + 1);
                    Ok(Change::Write)
                };
                match years(client).update_with(key(), add).await {
                    Ok(_) => tally.lock().unwrap().acknowledged += 1,
                    Err(error) if *error.kind() == ErrorKind::OutcomeUnknown => {}
                    Err(_) => tally.lock().unwrap().possible -= 1,
                }
            }
        },
        async |_, _| {},
        async |client, tally, _| {
            let found = years(client).get(key()).await.unwrap().unwrap();
            let tally = tally.lock().unwrap();
            let count = found.days[0].unwrap();
            assert_eq!(found.days[364], Some(count));
            assert!((tally.acknowledged..=tally.possible).contains(&count), "{count}");
            for (point, (least, most)) in &tally.merged {
                let value = found.days[*point].unwrap();
                assert!((*least..=*most).contains(&value), "day {point} is {value}");
            }
        },
    )
    .await
    .unwrap();
}

#[derive(Clone, Debug)]
enum Operation {
    Insert(i32),
    Upsert(i32),
    Update(usize, i32),
    Merge(usize, usize, i32),
    Delete,
}

#[tokio::test]
async fn random_operations_do_what_a_plain_map_does() {
    // PS-10.7, P-0.8.
    type Days = Option<Vec<Option<i32>>>;
    let choose = |random: &mut Seeded| {
        let value = random.below(100) as i32;
        match random.below(6) {
            0 => Operation::Insert(value),
            1 => Operation::Upsert(value),
            2 | 3 => Operation::Update(random.below(365), value),
            4 => Operation::Merge(random.below(365), random.below(365), value),
            _ => Operation::Delete,
        }
    };
    let real = async |years: &WideTable<Year>, operation: &Operation| -> (bool, Days) {
        let is_done = match operation {
            Operation::Insert(value) => years.insert(&year(Some(*value))).await.is_ok(),
            Operation::Upsert(value) => years.upsert(&year(Some(*value))).await.is_ok(),
            Operation::Update(day, value) => {
                let (day, value) = (*day, *value);
                let update = years.update_with(key(), move |year| {
                    year.days[day] = (value % 2 == 0).then_some(value);
                    Ok(Change::Write)
                });
                update.await.is_ok()
            }
            Operation::Merge(a, b, value) => {
                let merge = years.merge(key()).set(Year::DAYS.point(*a), *value);
                merge
                    .set(Year::DAYS.point(if a == b { (b + 1) % 365 } else { *b }), *value)
                    .await
                    .is_ok()
            }
            Operation::Delete => years.delete_key(key()).await.unwrap(),
        };
        let found = years.get(key()).await.unwrap();
        (is_done, found.map(|found| found.days.to_vec()))
    };
    let plain = |days: &mut Days, operation: &Operation| {
        let is_done = match (operation, &mut *days) {
            (Operation::Insert(_), Some(_)) => false,
            (Operation::Insert(value) | Operation::Upsert(value), days) => {
                *days = Some(vec![Some(*value); 365]);
                true
            }
            (_, None) => false,
            (Operation::Update(day, value), Some(days)) => {
                days[*day] = (value % 2 == 0).then_some(*value);
                true
            }
            (Operation::Merge(a, b, value), Some(days)) => {
                days[*a] = Some(*value);
                days[if a == b { (b + 1) % 365 } else { *b }] = Some(*value);
                true
            }
            (Operation::Delete, days) => days.take().is_some(),
        };
        (is_done, days.clone())
    };
    let setup = async |client: &TestClient| {
        client.tables().create("Years").await.unwrap();
        years(client)
    };
    let seeds = chosen_seeds(SEEDS);
    model::compare(seeds, 30, choose, setup, real, plain).await.unwrap();
}
