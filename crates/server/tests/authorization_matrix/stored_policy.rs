//! Tokens for a table that leave their terms to a stored access policy.

use crate::Verdict;
use crate::credential::{Credential, at, subsets, table_sas, table_token};
use crate::operation::{FAILED, Outcome};
use crate::server::Server;
use crate::table_sas::expected;
use lazuli_model::{AccessPolicies, AccessPolicy};
use lazuli_wire::sas::TableSas;

/// A policy `p` that begins and ends so many seconds from now.
fn policy(start: Option<i64>, expiry: Option<i64>, letters: Option<&str>) -> AccessPolicy {
    AccessPolicy {
        id: "p".to_owned(),
        start: start.map(at),
        expiry: expiry.map(at),
        permissions: letters.map(str::to_owned),
    }
}

/// A token that says no more than the name of its policy.
fn bare() -> TableSas<'static> {
    TableSas { start: "", expiry: "", permissions: "", policy: "p", ..table_sas() }
}

/// The reset after a write drops the tables and with them the policies, so each row sets them again.
struct Trial {
    server: Server,
    verdict: Verdict,
}

impl Trial {
    fn new() -> Self {
        Self { server: Server::start(), verdict: Verdict::default() }
    }

    /// A token under the policies of `Orders`; `Ok` names the letters it has.
    fn row(
        &mut self,
        policies: &[AccessPolicy],
        token: &TableSas<'_>,
        expect: Result<&str, ()>,
        name: &str,
    ) {
        let policies = AccessPolicies::new(policies.to_vec()).unwrap();
        for operation in crate::operation::all() {
            self.server.set_policies("Orders", policies.clone());
            let outcome = expect.map_or(FAILED, |letters| expected(&operation, letters));
            // The policy is read from the store, after the signature was found good.
            let found = match outcome {
                FAILED => self.refused(&operation, token),
                _ => self.server.attempt(&operation, &table_token(token), outcome).map(drop),
            };
            self.verdict.cells += 1;
            if let Err(found) = found {
                self.verdict.wrong.push(format!("{} with {name}: {found}", operation.name));
            }
        }
    }

    fn refused(
        &self,
        operation: &crate::operation::Operation,
        token: &TableSas<'_>,
    ) -> Result<(), String> {
        let outcome = Outcome::Forbidden("AuthenticationFailed");
        let answer = self.server.attempt(operation, &table_token(token), outcome)?;
        // Of the whole request, also when it is a batch.
        if answer.status == 403 { Ok(()) } else { Err(format!("answered {}", answer.status)) }
    }
}

#[test]
fn a_policy_gives_what_the_token_leaves_out() {
    let mut trial = Trial::new();
    let hour = 3600;
    for letters in subsets("raud") {
        let whole = policy(Some(-hour), Some(hour), Some(&letters));
        trial.row(&[whole], &bare(), Ok(&letters), &format!("a policy of {letters}"));
    }
    let open = policy(None, None, None);
    trial.row(&[open], &TableSas { policy: "p", ..table_sas() }, Ok("raud"), "an empty policy");
    let of_time = policy(None, Some(hour), None);
    let letters = TableSas { permissions: "r", ..bare() };
    trial.row(&[of_time], &letters, Ok("r"), "a policy of time and a token of letters");
    let of_letters = policy(None, None, Some("ad"));
    let time = TableSas { expiry: "2026-01-15T12:00:01Z", ..bare() };
    trial.row(&[of_letters], &time, Ok("ad"), "a policy of letters and a token of time");
}

#[test]
fn the_window_of_a_policy_is_kept() {
    let mut trial = Trial::new();
    for (start, expiry, open) in [
        (None, Some(1), true),
        (Some(0), Some(1), true),
        (None, Some(0), false),
        (Some(1), Some(2), false),
        (Some(-2), Some(-1), false),
    ] {
        let policy = policy(start, expiry, Some("raud"));
        let expect = if open { Ok("raud") } else { Err(()) };
        trial.row(&[policy], &bare(), expect, &format!("a policy from {start:?} to {expiry:?}"));
    }
}

#[test]
fn a_field_given_twice_or_nowhere_is_refused() {
    let mut trial = Trial::new();
    let whole = [policy(Some(-1), Some(1), Some("raud"))];
    for (token, name) in [
        (TableSas { permissions: "raud", ..bare() }, "sp"),
        (TableSas { expiry: "2026-01-15T12:00:01Z", ..bare() }, "se"),
        (TableSas { start: "2026-01-15T11:59:59Z", ..bare() }, "st"),
    ] {
        trial.row(&whole, &token, Err(()), &format!("{name} given twice"));
    }
    trial.row(&[policy(None, Some(1), None)], &bare(), Err(()), "no letters");
    trial.row(&[policy(None, None, Some("raud"))], &bare(), Err(()), "no expiry");
}

#[test]
fn a_policy_that_is_not_there_opens_nothing() {
    let mut trial = Trial::new();
    trial.row(&[], &bare(), Err(()), "no policy");
    let other = AccessPolicy { id: "P".to_owned(), ..policy(None, Some(1), Some("raud")) };
    trial.row(&[other], &bare(), Err(()), "a policy of another case");
    let whole = TableSas { policy: "p", ..table_sas() };
    trial.row(&[], &whole, Err(()), "a whole token that names an unknown policy");
    let elsewhere = TableSas { table: "Nowhere", ..bare() };
    trial.row(&[], &elsewhere, Err(()), "a policy of a table that is not there");
}

/// Taking a policy away closes the door at once (A-6.8); so does a policy of another table.
#[test]
fn a_policy_is_its_tables_and_can_be_taken_back() {
    let server = Server::start();
    let read = crate::operation::all().into_iter().find(|o| o.name == "Query Entity").unwrap();
    let policies = AccessPolicies::new(vec![policy(None, Some(1), Some("r"))]).unwrap();
    let token: Credential = table_token(&bare());
    let status = || server.send(&read, &token, crate::server::Style::Path, "2019-02-02").status;
    server.set_policies("Other", policies.clone());
    assert_eq!(status(), 403);
    server.set_policies("Orders", policies);
    assert_eq!(status(), 200);
    server.set_policies("Orders", AccessPolicies::default());
    assert_eq!(status(), 403);
}

#[test]
fn a_changed_byte_is_noticed() {
    let server = Server::start();
    let all = policy(Some(-60), Some(60), Some("raud"));
    server.set_policies("Orders", AccessPolicies::new(vec![all]).unwrap());
    let Credential::Token(token) = table_token(&bare()) else { unreachable!() };
    // As it was issued it is good.
    let query = crate::operation::all().into_iter().find(|o| o.name == "Query Entity").unwrap();
    let good = Credential::Token(token.clone());
    assert!(server.attempt(&query, &good, Outcome::Done).is_ok());
    crate::tampering::check_every_byte(&server, &token, Credential::Token, "a stored policy");
}
