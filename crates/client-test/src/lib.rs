//! Tests programs that use [`lazuli_client`]: a server in one line, a proxy that loses requests and answers, a clock
//! that the test controls, and crash tests.
//!
//! # A server
//!
//! [`TestServer::start`] runs the real server, with tables and queues, in memory and in this process, on free ports. It
//! stops when it is dropped.
//!
//! ```
//! use lazuli_client::prelude::*;
//! use lazuli_test::TestServer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::start().await?;
//! let people = server.account().tables().create("People").await?;
//! people.insert(&Entity::new("Marketing", "00001").with("FirstName", "Don")).await?;
//! assert!(people.get(("Marketing", "00001")).await?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Faults
//!
//! [`TestServer::with_faults`] puts a [`FaultProxy`] between client and server: real connections that end before,
//! within or instead of an answer. A script says which exchanges are disturbed ([`Match`]), when ([`When`]) and how
//! ([`Fault`]). The proxy records all exchanges, so that a test can count the cost of an operation. Client and server
//! share a [`TestClock`]: a pause before a retry advances it and takes no real time.
//!
//! ```
//! use lazuli_client::prelude::*;
//! use lazuli_client::Proof;
//! use lazuli_test::{Fault, Match, TestServer, When};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = TestServer::with_faults().await?;
//! let people = server.account().tables().create("People").await?;
//!
//! // The reply to the insert is lost. The client looks, and reports no false conflict.
//! server.faults().next([Fault::DropReply]);
//! let written = people.insert(&Entity::new("Marketing", "00001").with("Age", 34)).await?;
//! assert_eq!(written.proof, Proof::Content);
//! assert_eq!(server.faults().methods(), ["POST", "POST", "GET"]);
//!
//! // Twice the server is busy. The client waits as long as it is told, on the clock of the test.
//! let clock = server.clock().expect("a server with faults has one");
//! clock.take_pauses();
//! let busy = Fault::Busy { retry_after: Some(1) };
//! server.faults().add(Match::any().method(http::Method::GET), When::First(2), busy);
//! assert!(people.get(("Marketing", "00001")).await?.is_some());
//! assert_eq!(clock.take_pauses(), [Duration::from_secs(1); 2]);
//! # Ok(())
//! # }
//! ```
//!
//! # Crashes
//!
//! [`crash::every_point`] crashes a client before and after each request of a write, runs the healing, and checks the
//! invariants; [`crash::seeds`] does the same with three concurrent writers. [`model::compare`] runs random operations
//! against the real implementation and against a plain model.
//!
//! ```
//! use lazuli_client::prelude::*;
//! use lazuli_test::crash::{self, TestClient};
//!
//! /// Two rows that belong together, the second one first: a row `a` without a row `b` must never be seen.
//! async fn write(client: &TestClient, table: &&str) -> Result<(), Error> {
//!     let table = client.tables().table(table)?;
//!     table.upsert(&Entity::new("p", "b")).await?;
//!     table.upsert(&Entity::new("p", "a")).await?;
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! let requests = crash::every_point(
//!     async |client| {
//!         client.tables().create("Pairs").await.unwrap();
//!         "Pairs"
//!     },
//!     write,
//!     async |_, _| {} /* nothing to heal */,
//!     async |client, table, outcome| {
//!         let table = client.tables().table(table).unwrap();
//!         let [a, b] = [table.get(("p", "a")).await.unwrap(), table.get(("p", "b")).await.unwrap()];
//!         assert!(a.is_none() || b.is_some());
//!         if let Some(Ok(())) = outcome {
//!             assert!(a.is_some(), "what was acknowledged is there");
//!         }
//!     },
//! )
//! .await?;
//! assert_eq!(requests, 2);
//! # Ok(())
//! # }
//! ```

//!
//! # Peers
//!
//! [`Azurite::start_if_possible`] starts Azurite on free ports, if Node.js is installed: as a blob service for
//! [`TestServerBuilder::blob_endpoint`], and for comparing its tables and queues with ours.
//! [`FaultProxy::before`] can be put in front of any of them.

#![warn(missing_docs)]

mod clock;
pub mod crash;
pub mod model;
mod proxy;
mod script;
mod server;

pub use clock::TestClock;
pub use lazuli_testkit::azurite::Azurite;
pub use lazuli_testkit::seed::Seeded;
pub use lazuli_wire::connection_string::StorageService;
pub use proxy::FaultProxy;
pub use script::{Exchange, Fault, Match, When};
pub use server::{FaultyServer, TestServer, TestServerBuilder};
