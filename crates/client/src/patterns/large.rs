//! Values too large for an entity: stored in a blob, whose address is in the entity (P-11).
//!
//! ```no_run
//! # use lazuli_client::prelude::*;
//! # use lazuli_client::{Large, TableEntity};
//! #[derive(TableEntity)]
//! #[table(name = "Employees", partition = "{department}", row = "{id:06}")]
//! struct Employee {
//!     department: String,
//!     id: u32,
//!     #[table(large(container = "employee-photos"))]
//!     photo: Large,
//! }
//!
//! # async fn run(account: Account, photo: Vec<u8>) -> Result<(), Error> {
//! let employees = account.large("photo-notes")?.table::<Employee>()?;
//! let employee = Employee { department: "Sales".into(), id: 223, photo: photo.into() };
//! employees.insert(&employee).await?;
//! let found = employees.get(Employee::key("Sales", 223)?).await?.expect("just written");
//! let photo = employees.read(&found, |employee| &employee.photo).await?;
//! # Ok(())
//! # }
//! ```
//!
//! A blob is written once, before the entity refers to it, and deleted when a worker sees that the entity no longer
//! does. A note in a queue lets the worker clean up after a crash.

pub(in crate::patterns) mod address;
mod garbage;
mod note;
mod protocol;
mod service;
mod table;
mod worker;

pub use garbage::{BlobFinding, Garbage};
pub use table::{LargeTable, LargeValues};
pub use worker::LargeWorker;

#[cfg(test)]
mod model;
