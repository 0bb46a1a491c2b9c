//! Writers that are suspended between two steps (PS-2.3), and the load that the pattern is meant for (PS-2.7).

use crate::{Employee, copies, create, employee, pair};
use bytes::Bytes;
use lazuli_client::patterns::eventual::EventualTable;
use lazuli_client::prelude::*;
use lazuli_client::{Body, BoxFuture, HttpTransport, Retry, Transport, TransportError};
use lazuli_test::crash::chosen_seeds;
use lazuli_test::{StorageService, TestClock, TestServer};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Lets this many requests pass, and holds the others until it is opened.
#[derive(Clone)]
struct Gate {
    inner: Arc<HttpTransport>,
    passes: Arc<Semaphore>,
}

impl Gate {
    fn letting(requests: usize) -> Self {
        let inner = Arc::new(HttpTransport::new(Duration::from_secs(10)).unwrap());
        Self { inner, passes: Arc::new(Semaphore::new(requests)) }
    }

    fn open(&self) {
        self.passes.add_permits(Semaphore::MAX_PERMITS / 2);
    }
}

impl Transport for Gate {
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
        Box::pin(async move {
            self.passes.acquire().await.unwrap().forget();
            self.inner.send(request).await
        })
    }
}

fn staff(account: &Account) -> EventualTable<Employee> {
    account.eventual("staff-index").unwrap().table().unwrap()
}

fn key() -> Key<Employee> {
    Employee::key("Sales", 1).unwrap()
}

async fn set(staff: &EventualTable<Employee>, email: &str) {
    let change = |e: &mut Employee| e.email_address = email.into();
    staff.update_with(key(), change).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_writer_that_sleeps_anywhere_leaves_no_copy_of_its_value() {
    // PS-2.3, P-2.1: the writer of `a` is suspended after each number of requests (W3 is the third), while another changes
    // the value to `b` and to `c`. The worker runs at the end, when claims are old.
    for requests in 0..=8 {
        let clock = TestClock::default();
        let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
        let account = server.account();
        let others = create(&account).await;
        let gate = Gate::letting(requests);
        let builder = server.account_builder().unwrap().transport(gate.clone());
        let sleeper = staff(&builder.build().unwrap());
        let entity = employee(1, "a@x");
        let is_done = AtomicBool::new(false);
        let sleep = async {
            let outcome = sleeper.insert(&entity).await;
            is_done.store(true, Ordering::Release);
            outcome
        };
        let wake = async {
            // Until the suspended writer has used all its requests: then it waits at the gate, or is done.
            while gate.passes.available_permits() > 0 && !is_done.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
            let is_there = others.get(key()).await.unwrap().is_some();
            if is_there {
                set(&others, "b@x").await;
                set(&others, "c@x").await;
            }
            gate.open();
            is_there
        };
        let (slept, is_there) = tokio::join!(sleep, wake);
        // W3 was done before it was suspended, so the write is acknowledged, whoever has written since.
        assert!(slept.is_ok(), "{requests}: {slept:?}");
        clock.advance(Duration::from_secs(700));
        others.worker().unwrap().run_until_idle().await.unwrap();
        let expected = if is_there { "c@x" } else { "a@x" };
        assert_eq!(copies(&account).await, [pair(expected, "000001")], "{requests}");
        assert_eq!(others.verify().await.unwrap(), [], "{requests}");
    }
}

#[tokio::test]
async fn a_worker_that_sleeps_anywhere_leaves_no_old_copy() {
    // PS-2.3, P-2.1: the worker is suspended inside reconcile.
    for requests in 0..=8 {
        let clock = TestClock::default();
        let server = TestServer::builder().clock(clock.clone()).start().await.unwrap();
        let account = server.account();
        let others = create(&account).await;
        let deferred = account.eventual("staff-index").unwrap().deferred();
        deferred.table::<Employee>().unwrap().insert(&employee(1, "a@x")).await.unwrap();
        clock.advance(Duration::from_secs(700));
        let gate = Gate::letting(requests);
        let builder = server.account_builder().unwrap().transport(gate.clone());
        let worker = staff(&builder.build().unwrap()).worker().unwrap();
        let is_done = AtomicBool::new(false);
        let sleep = async {
            let outcome = worker.run_until_idle().await;
            is_done.store(true, Ordering::Release);
            outcome
        };
        let wake = async {
            while gate.passes.available_permits() > 0 && !is_done.load(Ordering::Acquire) {
                tokio::task::yield_now().await;
            }
            set(&others, "b@x").await;
            set(&others, "c@x").await;
            gate.open();
        };
        let (slept, ()) = tokio::join!(sleep, wake);
        slept.unwrap();
        clock.advance(Duration::from_secs(700));
        others.worker().unwrap().run_until_idle().await.unwrap();
        assert_eq!(copies(&account).await, [pair("c@x", "000001")], "{requests}");
        assert_eq!(others.verify().await.unwrap(), [], "{requests}");
    }
}

#[derive(TableEntity)]
#[table(name = "Beside", partition = "{company}", row = "empid_{department}_{id:06}")]
#[index(email, row = "email_{email}", unique)]
struct Beside {
    company: String,
    department: String,
    id: u32,
    email: String,
}

#[tokio::test]
async fn load_that_one_partition_refuses_is_taken_by_many() {
    // PS-2.7: in one second of the server's clock, which stands still, 200 inserts over 20 departments where a partition takes
    // 80 operations; in the full test 5,000 over 500 and 2,000.
    let is_full = chosen_seeds(1).end >= 1000;
    let (departments, per_department, rate) = if is_full { (500, 10, 2000) } else { (20, 10, 80) };
    let clock = TestClock::default();
    let limit = NonZeroU32::new(rate).unwrap();
    let server = TestServer::builder().clock(clock.clone()).partition_rate_max(limit);
    let server = server.start().await.unwrap();
    let proxy = server.proxy(0).unwrap();
    let direct = server.account_builder().unwrap().retry(Retry::none()).build().unwrap();
    create(&server.account()).await;
    server.account().tables().create("Beside").await.unwrap();

    let spread = staff(&proxy.builder().unwrap().retry(Retry::none()).build().unwrap());
    for department in 0..departments {
        for id in 0..per_department {
            let department = format!("D{department:03}");
            let email = format!("{id}@{department}");
            spread.insert(&Employee { department, ..employee(id, &email) }).await.unwrap();
        }
    }
    let tables = proxy.exchanges();
    let tables: Vec<_> = tables.iter().filter(|e| e.service == StorageService::Table).collect();
    assert!(tables.len() >= (departments * per_department) as usize);
    assert!(tables.iter().all(|exchange| exchange.status != Some(503)));

    // The same load with the copies in the entities' partition (P-1).
    let beside: Table<Beside> = direct.tables().of().unwrap();
    let mut refused = 0;
    for id in 0..departments * per_department {
        let (company, department) = ("Contoso".to_owned(), format!("D{:03}", id % departments));
        let outcome = beside.insert(&Beside { company, department, id, email: id.to_string() });
        match outcome.await {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.code(), Some("ServerBusy"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
}
