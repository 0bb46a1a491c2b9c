//! Shared Key and Shared Key Lite: the account's keys open everything, and nothing else does.

use crate::Verdict;
use crate::credential::{Credential, SharedKey, at, key};
use crate::operation::{FAILED, Outcome};
use crate::server::{STRANGER, STRANGER_KEY, Server, Style, VERSION};
use crate::service::SERVICES;
use lazuli_wire::shared_key::Scheme;

const SCHEMES: [Scheme; 2] = [Scheme::SharedKey, Scheme::SharedKeyLite];

/// Each scheme with each of the two keys.
fn owners() -> impl Iterator<Item = (String, SharedKey)> {
    SCHEMES.into_iter().flat_map(|scheme| {
        [0, 1].map(|key| {
            (format!("{} of key {}", scheme.name(), key + 1), SharedKey::new(scheme, key))
        })
    })
}

#[test]
fn both_keys_open_everything_by_both_schemes() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for (name, owner) in owners() {
            verdict.row(&server, &owner.into(), &name, |_| Outcome::Done);
        }
    }
}

#[test]
fn requests_in_host_style_are_signed_without_the_account_in_the_path() {
    for service in SERVICES {
        let server = Server::start(service);
        for (name, owner) in owners() {
            for operation in server.service.operations().iter().filter(|one| !one.is_batch()) {
                let credential = Credential::SharedKey(owner.clone());
                let answer = server.send(operation, &credential, Style::Host, VERSION);
                assert_eq!(answer.status, operation.status, "{} with {name}", operation.name);
                server.reset();
            }
        }
    }
}

#[test]
fn a_date_more_than_fifteen_minutes_off_is_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for (name, owner) in owners() {
            for (seconds, expected) in
                [(-900, Outcome::Done), (-901, FAILED), (900, Outcome::Done), (901, FAILED)]
            {
                let owner = SharedKey { date: at(seconds).rfc1123(), ..owner.clone() };
                verdict
                    .row(&server, &owner.into(), &format!("{name}, {seconds} s off"), |_| expected);
            }
        }
    }
}

#[test]
fn another_key_or_another_account_is_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for scheme in SCHEMES {
            let name = scheme.name();
            let right = SharedKey::new(scheme, 0);
            let wrong_key = SharedKey { key: key(STRANGER_KEY), ..right.clone() };
            verdict.row(&server, &wrong_key.into(), &format!("{name} of another key"), |_| FAILED);
            let stranger = SharedKey { account: STRANGER.to_owned(), ..right.clone() };
            verdict
                .row(&server, &stranger.into(), &format!("{name} of another account"), |_| FAILED);
            let both = SharedKey { key: key(STRANGER_KEY), account: STRANGER.to_owned(), ..right };
            verdict.row(&server, &both.into(), &format!("{name} of a stranger"), |_| FAILED);
        }
    }
}

#[test]
fn a_signature_by_the_other_scheme_is_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for scheme in SCHEMES {
            let tamper = |header: &str| match header.strip_prefix("SharedKeyLite") {
                Some(rest) => format!("SharedKey{rest}"),
                None => header.replacen("SharedKey", "SharedKeyLite", 1),
            };
            let swapped = SharedKey { tamper, ..SharedKey::new(scheme, 0) };
            verdict.row(&server, &swapped.into(), "the other scheme's signature", |_| FAILED);
        }
    }
}

#[test]
fn a_malformed_header_is_told_so() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let malformed = Outcome::Unauthenticated(400, "InvalidAuthenticationInfo");
        for header in ["SharedKey acct1", "SharedKey", "Basic YTpi", "SharedKey :abc", "x y:z", "-"]
        {
            let credential = Credential::Header(header.to_owned());
            verdict.row(&server, &credential, &format!("'{header}'"), |_| malformed);
        }
    }
}
