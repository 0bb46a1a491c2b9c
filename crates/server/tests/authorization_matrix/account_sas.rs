//! Tokens for the account: services, types of resources, letters.

use crate::Verdict;
use crate::credential::{Credential, account_sas, account_token, covers, key, subsets};
use crate::operation::{FAILED, FORBIDDEN, LACKING, Operation, Outcome};
use crate::server::{ACCOUNT, KEYS, STRANGER, STRANGER_KEY, Server, Style, VERSION};
use crate::service::SERVICES;
use lazuli_wire::sas::AccountSas;

/// What the specification says about an operation and a token with these types and letters: the type
/// is checked before the letters.
fn expected(operation: &Operation, types: &str, letters: &str) -> Outcome {
    let Some((one_of_types, one_of_letters)) = operation.account_sas else {
        return FORBIDDEN;
    };
    if !one_of_types.chars().any(|needed| types.contains(needed)) {
        return Outcome::Forbidden("AuthorizationResourceTypeMismatch");
    }
    match one_of_letters.iter().any(|needed| covers(letters, needed)) {
        true => Outcome::Done,
        false => LACKING,
    }
}

#[test]
fn every_letter_and_type_opens_what_the_specification_says() {
    for service in SERVICES {
        let every = service.account_letters();
        let mut sets: Vec<String> = every.chars().map(String::from).collect();
        sets.extend(every.chars().map(|without| every.replace(without, "")));
        sets.extend(["au", "ad", "aud", "raud", every, "rwdylacupitfx", "yt"].map(String::from));
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for types in subsets("sco").into_iter().filter(|types| !types.is_empty()) {
            for letters in &sets {
                let sas =
                    AccountSas { resource_types: &types, permissions: letters, ..account_sas() };
                let name = format!("account SAS {types} {letters}");
                let judge = |operation: &Operation| expected(operation, &types, letters);
                verdict.row(&server, &account_token(&sas), &name, judge);
            }
        }
    }
}

#[test]
fn both_keys_and_every_form_sign() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let all_of_it =
            |operation: &Operation| expected(operation, "sco", service.account_letters());
        for version in ["2015-04-05", "2019-02-02", "2020-12-06", "2026-06-06"] {
            for (number, text) in KEYS.iter().enumerate() {
                let sas = AccountSas { version, ..account_sas() };
                let token = Credential::Token(sas.token(ACCOUNT, &key(text)).unwrap());
                let name = format!("account SAS of {version}, key {}", number + 1);
                verdict.row(&server, &token, &name, all_of_it);
            }
        }
        let scoped =
            AccountSas { version: "2020-12-06", encryption_scope: "scope", ..account_sas() };
        verdict.row(&server, &account_token(&scoped), "account SAS with a scope", all_of_it);
    }
}

#[test]
fn the_window_is_kept() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let row = |verdict: &mut Verdict, start, expiry, expected: Option<Outcome>| {
            let sas = AccountSas { start, expiry, ..account_sas() };
            let name = format!("account SAS from {start} to {expiry}");
            verdict.row(&server, &account_token(&sas), &name, |operation| {
                expected
                    .unwrap_or_else(|| self::expected(operation, "sco", service.account_letters()))
            });
        };
        row(&mut verdict, "", "2026-01-15T12:00:01Z", None);
        row(&mut verdict, "2026-01-15T12:00:00Z", "2026-01-15T12:00:00.0000001Z", None);
        row(&mut verdict, "2026-01-15", "2026-01-16", None);
        row(&mut verdict, "", "2026-01-15T12:00:00Z", Some(FAILED));
        row(&mut verdict, "", "2026-01-15", Some(FAILED));
        row(&mut verdict, "2026-01-15T12:01Z", "2026-01-16", Some(FAILED));
        row(&mut verdict, "2026-01-16", "2026-01-15", Some(FAILED));
        row(&mut verdict, "", "soon", Some(FAILED));
    }
}

#[test]
fn service_protocol_and_address_are_kept() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let mut row = |sas: AccountSas<'_>, code: Option<&'static str>, name: &str| {
            verdict.row(&server, &account_token(&sas), name, |operation| match code {
                // The credential fails before the service looks at the operation.
                Some(code) => Outcome::Unauthenticated(403, code),
                None => expected(operation, "sco", service.account_letters()),
            });
        };
        let sas = account_sas();
        let others = ["b", service.choose("q", "t"), "f", service.choose("bqf", "btf")];
        for services in others {
            let sas = AccountSas { services, ..sas };
            row(sas, Some("AuthorizationServiceMismatch"), &format!("a token for {services}"));
        }
        let services = service.letter();
        row(AccountSas { services, ..sas }, None, &format!("a token for {services}"));
        for (protocol, code) in [
            ("https", Some("AuthorizationProtocolMismatch")),
            ("https,http", None),
            ("http", Some("AuthenticationFailed")),
        ] {
            row(AccountSas { protocol, ..sas }, code, &format!("spr={protocol}"));
        }
        for (addresses, code) in [
            ("127.0.0.1", None),
            ("127.0.0.0-127.0.0.255", None),
            ("127.0.0.2", Some("AuthorizationSourceIPMismatch")),
            ("10.0.0.0-10.255.255.255", Some("AuthorizationSourceIPMismatch")),
            ("localhost", Some("AuthenticationFailed")),
        ] {
            row(AccountSas { addresses, ..sas }, code, &format!("sip={addresses}"));
        }
    }
}

#[test]
fn other_keys_and_other_accounts_are_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for (account, signer) in
            [(ACCOUNT, STRANGER_KEY), (STRANGER, KEYS[0]), (STRANGER, STRANGER_KEY)]
        {
            let token = account_sas().token(account, &key(signer)).unwrap();
            let name = format!("a token of {account} signed with {signer}");
            verdict.row(&server, &Credential::Token(token), &name, |_| FAILED);
        }
    }
}

/// A stored policy belongs to a table or queue.
#[test]
fn a_stored_policy_is_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let Credential::Token(token) = account_token(&account_sas()) else { unreachable!() };
        let credential = Credential::Token(format!("{token}&si=any"));
        verdict.row(&server, &credential, "an account SAS with si", |_| FAILED);
    }
}

#[test]
fn tokens_work_in_host_style() {
    for service in SERVICES {
        let server = Server::start(service);
        for operation in service.operations().iter().filter(|one| !one.is_batch()) {
            let token = account_token(&account_sas());
            let answer = server.send(operation, &token, Style::Host, VERSION);
            let expected = match expected(operation, "sco", service.account_letters()) {
                Outcome::Done => operation.status,
                _ => 403,
            };
            assert_eq!(answer.status, expected, "{}", operation.name);
            server.reset();
        }
    }
}
