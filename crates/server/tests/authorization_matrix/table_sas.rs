//! Tokens for one table: letters, window, table.

use crate::Verdict;
use crate::credential::{Credential, covers, key, subsets, table_sas, table_token};
use crate::operation::{FAILED, FORBIDDEN, Operation, Outcome, all};
use crate::server::{ACCOUNT, KEYS, STRANGER, STRANGER_KEY, Server, Style, VERSION};
use lazuli_wire::sas::TableSas;

/// What the specification says of an operation and a token for its table with these letters.
pub(crate) fn expected(operation: &Operation, letters: &str) -> Outcome {
    match operation.table_sas {
        None => FORBIDDEN,
        Some(needed) if covers(letters, needed) => Outcome::Done,
        Some(_) => Outcome::Forbidden("AuthorizationPermissionMismatch"),
    }
}

#[test]
fn every_set_of_letters_opens_what_the_specification_says() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    for letters in subsets("raud").into_iter().filter(|letters| !letters.is_empty()) {
        let token = table_token(&TableSas { permissions: &letters, ..table_sas() });
        let name = format!("table SAS {letters}");
        verdict.row(&server, &token, &name, |operation| expected(operation, &letters));
    }
}

#[test]
fn both_keys_and_every_form_sign() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    for version in ["2012-02-12", "2014-02-14", "2015-02-21", "2015-04-05", "2026-06-06"] {
        for (number, text) in KEYS.iter().enumerate() {
            let sas = TableSas { version, ..table_sas() };
            let token = Credential::Token(sas.token(ACCOUNT, &key(text)).unwrap());
            let name = format!("table SAS of {version}, key {}", number + 1);
            verdict.row(&server, &token, &name, |operation| expected(operation, "raud"));
        }
    }
}

#[test]
fn the_case_of_the_table_does_not_count() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    for table in ["orders", "ORDERS"] {
        let token = table_token(&TableSas { table, ..table_sas() });
        let name = format!("table SAS of {table}");
        verdict.row(&server, &token, &name, |operation| expected(operation, "raud"));
    }
}

#[test]
fn another_table_stays_closed() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    for table in ["Other", "Order", "Orders2", "Nowhere", "Tables", "x"] {
        let token = table_token(&TableSas { table, ..table_sas() });
        verdict.row(&server, &token, &format!("table SAS of {table}"), |_| FORBIDDEN);
    }
}

#[test]
fn the_window_is_kept() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    let mut row = |start, expiry, refused: bool| {
        let token = table_token(&TableSas { start, expiry, ..table_sas() });
        let name = format!("table SAS from {start} to {expiry}");
        verdict.row(&server, &token, &name, |operation| match refused {
            true => FAILED,
            false => expected(operation, "raud"),
        });
    };
    row("", "2026-01-15T12:00:01Z", false);
    row("2026-01-15T12:00:00Z", "2026-01-15T12:00:00.0000001Z", false);
    row("2026-01-15T12:00Z", "2026-01-16", false);
    row("", "2026-01-15T12:00:00Z", true);
    row("2026-01-15T12:00:00.0000001Z", "2026-01-16", true);
    row("2026-01-16", "2026-01-15", true);
    row("", "", true);
    row("", "2026-01-15T25:00:00Z", true);
    row("yesterday", "2026-01-16", true);
}

#[test]
fn permissions_must_be_there_known_and_in_order() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    for permissions in ["", "dr", "rr", "rw", "R", "raudl"] {
        let token = table_token(&TableSas { permissions, ..table_sas() });
        verdict.row(&server, &token, &format!("sp={permissions}"), |_| FAILED);
    }
}

#[test]
fn protocol_and_address_are_kept() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    let mut row = |sas: TableSas<'_>, code: Option<&'static str>, name: &str| {
        verdict.row(&server, &table_token(&sas), name, |operation| match code {
            Some(code) => Outcome::Unauthenticated(403, code),
            None => expected(operation, "raud"),
        });
    };
    let sas = table_sas();
    let (https, elsewhere) = ("AuthorizationProtocolMismatch", "AuthorizationSourceIPMismatch");
    row(TableSas { protocol: "https", ..sas }, Some(https), "spr=https");
    row(TableSas { protocol: "https,http", ..sas }, None, "spr=https,http");
    row(TableSas { addresses: "127.0.0.1", ..sas }, None, "sip here");
    row(TableSas { addresses: "192.168.0.1", ..sas }, Some(elsewhere), "sip elsewhere");
    row(TableSas { addresses: "::1", ..sas }, Some(elsewhere), "sip of IPv6");
}

#[test]
fn other_keys_and_other_accounts_are_refused() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    for (account, signer) in
        [(ACCOUNT, STRANGER_KEY), (STRANGER, KEYS[0]), (STRANGER, STRANGER_KEY)]
    {
        let token = table_sas().token(account, &key(signer)).unwrap();
        let name = format!("a token of {account} signed with {signer}");
        verdict.row(&server, &Credential::Token(token), &name, |_| FAILED);
    }
}

#[test]
fn tokens_before_their_time_are_refused() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    let Credential::Token(token) = table_token(&table_sas()) else { unreachable!() };
    for version in ["2011-08-18", "2019", "", "9999-99-99"] {
        let token = token.replace("sv=2019-02-02", &format!("sv={version}"));
        let name = format!("a token of sv={version}");
        verdict.row(&server, &Credential::Token(token), &name, |_| FAILED);
    }
}

#[test]
fn tokens_work_in_host_style() {
    let server = Server::start();
    for operation in all().iter().filter(|operation| !operation.is_batch()) {
        let answer = server.send(operation, &table_token(&table_sas()), Style::Host, VERSION);
        let expected = match expected(operation, "raud") {
            Outcome::Done => operation.status,
            _ => 403,
        };
        assert_eq!(answer.status, expected, "{}", operation.name);
        server.reset();
    }
}
