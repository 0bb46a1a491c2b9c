//! Encryption against the real server: the scenarios of `docs/spec/encryption.md`, section 7. Those that need
//! no server are next to the code.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod patterns;
mod rewriting;
mod typed;
mod unions;
mod untyped;

use lazuli_client::Table;
use lazuli_client::encryption::{AesKey, CryptoError, Encryption, Keys};
use lazuli_client::{Error, ErrorKind};
use lazuli_test::TestServer;

fn key(number: u8) -> AesKey {
    AesKey::new(format!("key{number}"), &[number; 32][..]).unwrap()
}

fn keys() -> Keys {
    Keys::new(key(1))
}

/// Version 2 for `Email` and `Notes`.
fn v2() -> Encryption {
    Encryption::v2(keys()).properties(["Email", "Notes"])
}

fn v1() -> Encryption {
    Encryption::v1_for_old_readers(keys()).properties(["Email", "Notes"])
}

/// A server, and a table handle that shows what is stored.
async fn raw_table() -> (TestServer, Table) {
    let server = TestServer::start().await.unwrap();
    let table = server.account().tables().create("People").await.unwrap();
    (server, table)
}

/// The cause of a failed encryption.
#[track_caller]
fn crypto<T: std::fmt::Debug>(result: Result<T, Error>) -> CryptoError {
    match result.unwrap_err().kind() {
        ErrorKind::Crypto(error) => error.clone(),
        other => panic!("{other:?}"),
    }
}
