//! P-16.

use crate::fill;
use lazuli_client::patterns::job::JobReport;
use lazuli_client::{Account, BoxError, Error, ErrorKind, partition};
use lazuli_test::crash::{self, TestClient};
use lazuli_test::{Fault, Match, Seeded, TestServer, When};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// The rows processed, by page number, for every run of the page.
type Consumed = Mutex<Vec<(u64, Vec<String>)>>;

async fn run(account: &Account, page_size: u16, consumed: &Consumed) -> Result<JobReport, Error> {
    let tables = account.tables();
    let (source, state) = (tables.table("Source")?, tables.table("State")?);
    let job = source.query(partition("p")).page_size(page_size).job("export-1", &state);
    job.run(async |page| {
        let rows = page.items().iter().map(|row| row.row_key().to_owned()).collect();
        consumed.lock().unwrap().push((page.number(), rows));
        Ok(())
    })
    .await
}

async fn setup(account: &Account, rows: i32) {
    account.tables().create("State").await.unwrap();
    let source = account.tables().create("Source").await.unwrap();
    fill(&source, "p", rows).await;
}

/// Fails unless all rows were processed, and only repeated pages contain a row twice. Returns how many pages were
/// repeated.
fn check(consumed: &Consumed, rows: usize) -> usize {
    let consumed = consumed.lock().unwrap();
    let all: BTreeSet<_> = consumed.iter().flat_map(|(_, rows)| rows).collect();
    assert_eq!(all.len(), rows);
    let mut pages: BTreeMap<u64, &Vec<String>> = BTreeMap::new();
    let mut repeats = 0;
    for (number, rows) in consumed.iter() {
        if let Some(before) = pages.insert(*number, rows) {
            assert_eq!(before.first(), rows.first(), "page {number} begins as before");
            repeats += 1;
        }
    }
    let distinct: usize = pages.values().map(|rows| rows.len()).sum();
    assert_eq!(distinct, rows, "no row is in two pages");
    repeats
}

#[tokio::test]
async fn a_job_costs_a_query_and_a_write_for_each_page() {
    let server = TestServer::with_faults().await.unwrap();
    setup(&server.direct(), 250).await;
    let consumed = Consumed::default();
    let report = run(&server.account(), 100, &consumed).await.unwrap();
    assert_eq!((report.pages, report.entities, report.pages_before), (3, 250, 0));
    assert_eq!(server.faults().methods(), ["GET", "GET", "POST", "GET", "PUT", "GET", "PUT"]);
    server.faults().take();
    let again = run(&server.account(), 100, &consumed).await.unwrap();
    assert_eq!((again.pages, again.pages_before), (0, 3), "it has ended");
    assert_eq!(server.faults().methods(), ["GET"]);
    assert_eq!(check(&consumed, 250), 0);

    let tables = server.account().tables();
    let (source, state) = (tables.table("Source").unwrap(), tables.table("State").unwrap());
    let job = source.query(partition("p")).job("export-1", &state).restart().await.unwrap();
    assert_eq!(job.run(async |_| Ok(())).await.unwrap().entities, 250);
    let other = source.query(partition("q")).page_size(9).job("export-2", &state);
    assert_eq!(other.run(async |_| Ok(())).await.unwrap().entities, 0);
}

#[tokio::test]
async fn a_consumer_that_fails_gets_its_page_again() {
    let server = TestServer::start().await.unwrap();
    setup(&server.account(), 30).await;
    let tables = server.account().tables();
    let (source, state) = (tables.table("Source").unwrap(), tables.table("State").unwrap());
    let job = || source.query(partition("p")).page_size(10).job("j", &state);
    let seen = Mutex::new(Vec::new());
    let consume = async |number: u64, fails: bool| {
        seen.lock().unwrap().push(number);
        if fails { Err(BoxError::from("disk full")) } else { Ok(()) }
    };
    let error = job().run(async |page| consume(page.number(), page.number() == 1).await).await;
    let error = error.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused);
    assert!(format!("{error:#}").contains("disk full"), "{error:#}");
    job().run(async |page| consume(page.number(), false).await).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [0, 1, 1, 2]);
}

#[tokio::test]
async fn two_runs_at_one_time_do_not_share_a_job() {
    let server = TestServer::start().await.unwrap();
    setup(&server.account(), 100).await;
    let consumed = Consumed::default();
    let account = server.account();
    let runs = (run(&account, 10, &consumed), run(&account, 10, &consumed));
    let (first, second) = tokio::join!(runs.0, runs.1);
    let lost = [first, second].into_iter().filter_map(Result::err);
    let lost: Vec<_> = lost.map(|e| e.is_conflict() || e.is_precondition_failed()).collect();
    assert_eq!(lost, [true]);
    check(&consumed, 100);
}

#[tokio::test]
async fn a_job_goes_on_after_every_crash() {
    // P-0.7.
    let write =
        async |client: &TestClient, consumed: &Consumed| run(client, 10, consumed).await.unwrap();
    let requests = crash::every_point(
        async |client| {
            setup(client, 35).await;
            Consumed::default()
        },
        write,
        async |client, consumed| {
            write(client, consumed).await;
        },
        async |_, consumed, outcome| {
            let repeats = check(consumed, 35);
            assert!(repeats <= usize::from(outcome.is_none()), "{repeats}");
        },
    )
    .await
    .unwrap();
    assert_eq!(requests, 9);
}

#[tokio::test]
async fn a_job_that_is_killed_20_times_consumes_every_row() {
    // PS-16.1, P-16.1.
    let mut random = Seeded::new(7);
    let server = TestServer::start().await.unwrap();
    setup(&server.account(), 10_500).await;
    let consumed = Consumed::default();
    let mut deaths = 0;
    loop {
        let proxy = server.proxy(random.next_u64()).unwrap();
        if deaths < 20 {
            let fault = if random.one_in(2) { Fault::CrashBefore } else { Fault::CrashAfter };
            proxy.add(Match::any(), When::Nth(random.below(12) as u64), fault);
        }
        let account = proxy.account();
        let done = tokio::select! {
            biased;
            done = run(&account, 300, &consumed) => Some(done.unwrap()),
            () = proxy.crashed() => None,
        };
        match done {
            Some(_) => break,
            None => deaths += 1,
        }
    }
    let repeats = check(&consumed, 10_500);
    assert!(repeats <= deaths && deaths > 5, "{repeats} repeats, {deaths} deaths");
}

#[tokio::test]
async fn pages_that_end_early_or_are_empty_hold_the_same_rows() {
    // PS-16.2.
    let server = TestServer::builder().early_pages(3).start().await.unwrap();
    setup(&server.account(), 1500).await;
    let consumed = Consumed::default();
    let report = run(&server.account(), 100, &consumed).await.unwrap();
    assert!(report.pages > 15, "{report:?}");
    assert!(consumed.lock().unwrap().iter().any(|(_, rows)| rows.is_empty()));
    assert_eq!(check(&consumed, 1500), 0);
}
