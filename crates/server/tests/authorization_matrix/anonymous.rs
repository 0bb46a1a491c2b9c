//! Requests with no credential, with two, or with one of a kind that is not accepted.

use crate::Verdict;
use crate::credential::{Credential, SharedKey, service_sas};
use crate::operation::{FAILED, Operation, Outcome};
use crate::server::{Server, Style, VERSION};
use crate::service::{SERVICES, Service};
use crate::service_sas::refused;
use lazuli_wire::shared_key::Scheme;

/// The one request that needs no credential: a browser cannot send one.
pub(crate) fn preflight(service: Service) -> Operation {
    const ASKED: &[(&str, &str)] =
        &[("Origin", "http://site"), ("Access-Control-Request-Method", "GET")];
    let path = service.choose("/Orders", "/orders");
    Operation { headers: ASKED, ..Operation::new("Preflight", "OPTIONS", path) }
}

#[test]
fn nobody_gets_in_without_a_credential() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        verdict.row(&server, &Credential::None, "nothing", |operation| {
            // Recorded: without a credential, the batch resource seems not to exist.
            match operation.is_batch() {
                true => Outcome::Unauthenticated(404, "ResourceNotFound"),
                false => FAILED,
            }
        });
    }
}

#[test]
fn newer_versions_are_sent_for_a_token() {
    for service in SERVICES {
        let server = Server::start(service);
        for version in [service.challenged_since(), "2026-06-06"] {
            for operation in service.operations() {
                let answer = server.send(&operation, &Credential::None, Style::Path, version);
                assert_eq!(answer.status, 401, "{} at {version}", operation.name);
                assert_eq!(answer.verdict(&operation).1, "NoAuthenticationInformation");
                let head = answer.head.to_ascii_lowercase();
                assert!(head.contains("www-authenticate: bearer authorization_uri="), "{head}");
            }
        }
    }
}

#[test]
fn two_credentials_are_none() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let Credential::Token(token) = service_sas(service).token() else { unreachable!() };
        let both = Credential::Both(SharedKey::new(Scheme::SharedKey, 0), token);
        verdict.row(&server, &both, "a key and a token", |_| FAILED);
    }
}

/// A token that names a user delegation key; we issue none that could sign it.
#[test]
fn user_delegation_tokens_are_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let Credential::Token(token) = service_sas(service).token() else { unreachable!() };
        let ids =
            "skoid=00000000-0000-0000-0000-000000000001&sktid=00000000-0000-0000-0000-000000000002";
        let window =
            "skt=2026-01-15T11%3A00%3A00Z&ske=2026-01-15T13%3A00%3A00Z&sks=t&skv=2025-07-05";
        let credential = Credential::Token(format!("{token}&{ids}&{window}"));
        verdict.row(&server, &credential, "a user delegation token", |operation| {
            refused(service, operation, FAILED)
        });
    }
}

/// Bearer tokens from issuers that the server does not trust. Trusted tokens have their own rows,
/// by role.
#[test]
fn bearer_tokens_of_strangers_are_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let header = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2lnbmF0dXJlIG9mIG5vYm9keQ";
        let bearer = Credential::Header(format!("Bearer {header}"));
        // Queues accept no token over http, whoever issued it.
        let not_taken = Outcome::Unauthenticated(400, "InvalidAuthenticationInfo");
        verdict.row(&server, &bearer, "a bearer token", |_| service.choose(FAILED, not_taken));
        for operation in service.operations() {
            let answer = server.send(&operation, &bearer, Style::Path, "2020-12-06");
            assert_eq!(answer.status, service.choose(401, 400), "{}", operation.name);
            assert_eq!(answer.verdict(&operation).1, "InvalidAuthenticationInfo");
        }
    }
}

#[test]
fn a_preflight_needs_no_credential_and_minds_none() {
    for service in SERVICES {
        let server = Server::start(service);
        let wrong = Credential::Header("SharedKey acct1:AAAA".to_owned());
        for credential in [Credential::None, wrong, service_sas(service).token()] {
            let answer = server.send(&preflight(service), &credential, Style::Path, VERSION);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
}
