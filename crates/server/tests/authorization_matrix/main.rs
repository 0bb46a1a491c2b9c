//! Who may do what: every operation of every service, with every kind of credential, valid and invalid
//! in every way. The tables in `tables.rs` and `queues.rs` say what must happen; they are written from
//! the specification, not from the server's own tables.
//!
//! Every refusal must change nothing, reveal no secret, and, if the credential itself was bad, be
//! returned before the store is accessed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests may"
)]

mod account_sas;
mod anonymous;
mod answer;
mod bearer;
mod credential;
mod explained;
mod key_range;
mod log;
mod operation;
mod queues;
mod secondary;
mod server;
mod service;
mod service_sas;
mod shared_key;
mod store;
mod stored_policy;
mod tables;
mod tampering;
mod user_delegation;

use credential::Credential;
use operation::{Operation, Outcome};
use server::Server;

/// The faults that a cell of the matrix found.
#[derive(Default)]
struct Verdict {
    cells: usize,
    wrong: Vec<String>,
}

impl Verdict {
    /// Tries one operation with one credential.
    fn cell(
        &mut self,
        server: &Server,
        operation: &Operation,
        credential: &Credential,
        expected: Outcome,
        name: &str,
    ) {
        self.cells += 1;
        if let Err(found) = server.attempt(operation, credential, expected) {
            self.wrong.push(format!("{} with {name}: {found}", operation.name));
        }
    }

    /// Tries every operation with a credential; `expected` gives the outcome for each.
    fn row(
        &mut self,
        server: &Server,
        credential: &Credential,
        name: &str,
        expected: impl Fn(&Operation) -> Outcome,
    ) {
        for operation in server.service.operations() {
            let outcome = expected(&operation);
            self.cell(server, &operation, credential, outcome, name);
        }
    }
}

impl Drop for Verdict {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        println!("{} cells", self.cells);
        assert!(self.cells > 0);
        assert!(
            self.wrong.is_empty(),
            "{} of {} cells are wrong:\n{}",
            self.wrong.len(),
            self.cells,
            self.wrong.join("\n")
        );
    }
}
