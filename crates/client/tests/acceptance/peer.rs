//! The service that a scenario runs against.

use futures_util::FutureExt;
use lazuli_client::{Account, Entity, Table};
use lazuli_test::{FaultProxy, TestClock, TestServer};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where Azurite 3.37.0 differs from the service (CS-23): the scenario that shows it, and how. A scenario in this
/// list must fail there; one that passes is removed from it.
const AZURITE_FAULTS: &[(&str, &str)] = &[
    (
        "cs_03_a_double_without_a_fraction_stays_a_double",
        "a Double such as 3.0 comes back as 3 without its type, which is an Int32 (T-3.34)",
    ),
    (
        "cs_20_a_token_opens_one_partition",
        "the partition of a shared access signature is not enforced: it opens the others too",
    ),
];

/// A service under test, and the names of the tables that a scenario may use.
pub(crate) struct Peer {
    connection_string: String,
    /// The server in this process, unless another one was configured.
    server: Option<TestServer>,
    number: u64,
}

/// Runs one scenario.
pub(crate) async fn run<F: Future<Output = ()>>(name: &str, scenario: impl FnOnce(Peer) -> F) {
    let is_azurite = std::env::var("LAZULI_PEER").is_ok_and(|peer| peer == "azurite");
    let fault = AZURITE_FAULTS.iter().find(|(fails, _)| is_azurite && *fails == name);
    let peer = Peer::start().await;
    let Some((_, fault)) = fault else { return scenario(peer).await };
    let outcome = AssertUnwindSafe(scenario(peer)).catch_unwind().await;
    assert!(outcome.is_err(), "Azurite passes {name}: the list says that {fault}");
}

impl Peer {
    async fn start() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        match std::env::var("LAZULI_CONNECTION_STRING") {
            Ok(connection_string) => Self { connection_string, server: None, number },
            Err(_) => {
                let server = TestServer::start().await.unwrap();
                let connection_string = server.connection_string().to_owned();
                Self { connection_string, server: Some(server), number }
            }
        }
    }

    /// The server in this process, for features that only it has.
    pub(crate) fn in_process(&self) -> Option<&TestServer> {
        self.server.as_ref()
    }

    /// The number of random histories: fewer if requests take longer.
    pub(crate) fn histories(&self) -> u64 {
        if self.server.is_some() { 300 } else { 30 }
    }

    pub(crate) fn connection_string(&self) -> &str {
        &self.connection_string
    }

    pub(crate) fn account(&self) -> Account {
        Account::from_connection_string(&self.connection_string).unwrap()
    }

    /// A name that no other scenario uses, in this run or an earlier one.
    pub(crate) fn name(&self, base: &str) -> String {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_nanos();
        format!("{base}{now:x}n{}", self.number)
    }

    /// An empty table.
    pub(crate) async fn table(&self, base: &str) -> Table {
        self.account().tables().create(&self.name(base)).await.unwrap()
    }

    /// Another client, behind a proxy and with its own clock.
    pub(crate) fn faulty(&self) -> Faulty {
        let clock = TestClock::default();
        let proxy = FaultProxy::before_with(&self.connection_string, clock.clone(), 0).unwrap();
        Faulty { proxy, clock }
    }

    /// "Table 1" of the guide.
    pub(crate) async fn table_1(&self) -> Table {
        let table = self.table("Staff").await;
        for entity in table_1() {
            table.insert(&entity).await.unwrap();
        }
        table
    }
}

/// A client that loses requests and answers.
pub(crate) struct Faulty {
    pub(crate) proxy: FaultProxy,
    pub(crate) clock: TestClock,
}

impl Faulty {
    /// The same table, behind the proxy.
    pub(crate) fn table(&self, table: &Table) -> Table {
        self.proxy.account().tables().table(table.name()).unwrap()
    }
}

pub(crate) fn person(partition: &str, row: &str, first: &str, last: &str, age: i32) -> Entity {
    let email = format!("{}{}@contoso.com", first.to_lowercase(), &last.to_lowercase()[..1]);
    Entity::new(partition, row)
        .with("FirstName", first)
        .with("LastName", last)
        .with("Age", age)
        .with("Email", email)
}

pub(crate) fn table_1() -> [Entity; 4] {
    [
        person("Marketing", "00001", "Don", "Hall", 34),
        person("Marketing", "00002", "Jun", "Cao", 47),
        Entity::new("Marketing", "Department")
            .with("DepartmentName", "Marketing")
            .with("EmployeeCount", 153),
        person("Sales", "00010", "Ken", "Kwok", 23),
    ]
}
