//! Tokens for one table or queue: letters, window, resource.

use crate::Verdict;
use crate::credential::{Credential, ServiceSas, covers, key, service_sas, subsets};
use crate::operation::{FAILED, FORBIDDEN, LACKING, Operation, Outcome};
use crate::server::{ACCOUNT, KEYS, STRANGER, STRANGER_KEY, Server, Style, VERSION};
use crate::service::{SERVICES, Service};

/// What the specification says about an operation and a token for `Orders` or `orders` with these letters.
pub(crate) fn expected(service: Service, operation: &Operation, letters: &str) -> Outcome {
    match operation.service_sas {
        // The queue of the URL is part of what is signed.
        _ if names_another_queue(service, operation, service.resource()) => FAILED,
        None => FORBIDDEN,
        Some(needed) if covers(letters, needed) => Outcome::Done,
        Some(_) => LACKING,
    }
}

/// The refusal of an invalid token. A token for a queue never opens the service itself, even if valid:
/// at the root nothing shows which queue it was signed for.
pub(crate) fn refused(service: Service, operation: &Operation, refusal: Outcome) -> Outcome {
    match (service, operation.first_segment()) {
        (Service::Queue, "") => FORBIDDEN,
        (Service::Queue, queue) if queue != service.resource() => FAILED,
        _ => refusal,
    }
}

fn names_another_queue(service: Service, operation: &Operation, queue: &str) -> bool {
    service == Service::Queue && !["", queue].contains(&operation.first_segment())
}

#[test]
fn every_set_of_letters_opens_what_the_specification_says() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for letters in subsets(service.letters()).into_iter().filter(|letters| !letters.is_empty())
        {
            let token = ServiceSas { permissions: &letters, ..service_sas(service) }.token();
            let name = format!("service SAS {letters}");
            verdict.row(&server, &token, &name, |operation| expected(service, operation, &letters));
        }
    }
}

#[test]
fn both_keys_and_every_form_sign() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for version in ["2012-02-12", "2014-02-14", "2015-02-21", "2015-04-05", "2026-06-06"] {
            for (number, text) in KEYS.iter().enumerate() {
                let sas = ServiceSas { version, ..service_sas(service) };
                let token = Credential::Token(sas.text(ACCOUNT, &key(text)));
                let name = format!("service SAS of {version}, key {}", number + 1);
                verdict.row(&server, &token, &name, |operation| {
                    expected(service, operation, service.letters())
                });
            }
        }
    }
}

#[test]
fn the_case_of_the_table_does_not_count() {
    let service = Service::Table;
    let server = Server::start(service);
    let mut verdict = Verdict::default();
    for resource in ["orders", "ORDERS"] {
        let token = ServiceSas { resource, ..service_sas(service) }.token();
        let name = format!("service SAS of {resource}");
        verdict.row(&server, &token, &name, |one| expected(service, one, service.letters()));
    }
}

/// A table token names its table; a queue token is signed for the queue of the URL.
#[test]
fn another_table_or_queue_stays_closed() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let of_tables = ["Other", "Order", "Orders2", "Nowhere", "Tables", "x"];
        let of_queues = ["other", "order", "orders2", "nowhere", "orders/messages", "ORDERS"];
        for resource in service.choose(of_tables, of_queues) {
            let token = ServiceSas { resource, ..service_sas(service) }.token();
            verdict.row(&server, &token, &format!("service SAS of {resource}"), |operation| {
                refused(service, operation, service.choose(FORBIDDEN, FAILED))
            });
        }
    }
}

#[test]
fn the_window_is_kept() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let mut row = |start, expiry, refused: bool| {
            let token = ServiceSas { start, expiry, ..service_sas(service) }.token();
            let name = format!("service SAS from {start} to {expiry}");
            verdict.row(&server, &token, &name, |operation| match refused {
                true => self::refused(service, operation, FAILED),
                false => expected(service, operation, service.letters()),
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
}

#[test]
fn permissions_must_be_there_and_known() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        // For tables, they must be in order; for queues, any order is accepted.
        let of_tables = ["", "dr", "rr", "rw", "R", "raudl"];
        let of_queues = ["", "rd", "w", "rw", "R", "raupl"];
        for permissions in service.choose(of_tables, of_queues) {
            let token = ServiceSas { permissions, ..service_sas(service) }.token();
            verdict.row(&server, &token, &format!("sp={permissions}"), |operation| {
                refused(service, operation, FAILED)
            });
        }
    }
    let service = Service::Queue;
    let server = Server::start(service);
    let mut verdict = Verdict::default();
    for permissions in ["puar", "pr", "ua"] {
        let token = ServiceSas { permissions, ..service_sas(service) }.token();
        verdict.row(&server, &token, permissions, |one| expected(service, one, permissions));
    }
}

/// TQ-59.
#[test]
fn protocol_and_address_are_kept() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let mut row = |sas: ServiceSas<'_>, code: Option<&'static str>, name: &str| {
            verdict.row(&server, &sas.token(), name, |operation| match code {
                Some(code) => refused(service, operation, Outcome::Unauthenticated(403, code)),
                None => expected(service, operation, service.letters()),
            });
        };
        let sas = service_sas(service);
        let (https, elsewhere) = ("AuthorizationProtocolMismatch", "AuthorizationSourceIPMismatch");
        row(ServiceSas { protocol: "https", ..sas }, Some(https), "spr=https");
        row(ServiceSas { protocol: "https,http", ..sas }, None, "spr=https,http");
        row(ServiceSas { addresses: "127.0.0.1", ..sas }, None, "sip here");
        row(ServiceSas { addresses: "192.168.0.1", ..sas }, Some(elsewhere), "sip elsewhere");
        row(ServiceSas { addresses: "::1", ..sas }, Some(elsewhere), "sip of IPv6");
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
            let token = service_sas(service).text(account, &key(signer));
            let name = format!("a token of {account} signed with {signer}");
            verdict.row(&server, &Credential::Token(token), &name, |operation| {
                refused(service, operation, FAILED)
            });
        }
    }
}

#[test]
fn tokens_before_their_time_are_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let Credential::Token(token) = service_sas(service).token() else { unreachable!() };
        for version in ["2011-08-18", "2019", "", "9999-99-99"] {
            let token = token.replace("sv=2019-02-02", &format!("sv={version}"));
            let name = format!("a token of sv={version}");
            verdict.row(&server, &Credential::Token(token), &name, |_| FAILED);
        }
    }
}

#[test]
fn tokens_work_in_host_style() {
    for service in SERVICES {
        let server = Server::start(service);
        for operation in service.operations().iter().filter(|one| !one.is_batch()) {
            let answer =
                server.send(operation, &service_sas(service).token(), Style::Host, VERSION);
            let expected = match expected(service, operation, service.letters()) {
                Outcome::Done => operation.status,
                _ => 403,
            };
            assert_eq!(answer.status, expected, "{}", operation.name);
            server.reset();
        }
    }
}
