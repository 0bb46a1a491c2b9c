//! Tokens for a table or queue that leave their constraints to a stored access policy.

use crate::Verdict;
use crate::credential::{Credential, ServiceSas, at, service_sas, subsets};
use crate::operation::{FAILED, Operation, Outcome};
use crate::server::Server;
use crate::service::{SERVICES, Service};
use crate::service_sas::{expected, refused};
use lazuli_model::{AccessPolicies, AccessPolicy};

/// A policy `p` that begins and ends this many seconds from now.
fn policy(start: Option<i64>, expiry: Option<i64>, letters: Option<&str>) -> AccessPolicy {
    AccessPolicy {
        id: "p".to_owned(),
        start: start.map(at),
        expiry: expiry.map(at),
        permissions: letters.map(str::to_owned),
    }
}

fn policies(service: Service, policies: Vec<AccessPolicy>) -> AccessPolicies {
    match service {
        Service::Table => AccessPolicies::new(policies).unwrap(),
        Service::Queue => AccessPolicies::of_queue(policies).unwrap(),
    }
}

/// A token that contains only the name of its policy.
fn bare(service: Service) -> ServiceSas<'static> {
    ServiceSas { start: "", expiry: "", permissions: "", policy: "p", ..service_sas(service) }
}

/// The reset after a write drops tables and queues and with them the policies, so each row sets them again.
struct Trial {
    server: Server,
    verdict: Verdict,
}

impl Trial {
    fn new(service: Service) -> Self {
        Self { server: Server::start(service), verdict: Verdict::default() }
    }

    /// A token under the policies of `Orders` or `orders`; `Ok` gives the letters that it has.
    fn row(
        &mut self,
        policies: &[AccessPolicy],
        token: &ServiceSas<'_>,
        expect: Result<&str, ()>,
        name: &str,
    ) {
        let service = self.server.service;
        let policies = self::policies(service, policies.to_vec());
        for operation in service.operations() {
            self.server.set_policies(service.resource(), policies.clone());
            let outcome = match expect {
                Ok(letters) => expected(service, &operation, letters),
                Err(()) => refused(service, &operation, FAILED),
            };
            // The policy is read from the store after the signature was verified.
            let found = match outcome {
                FAILED => self.refused(&operation, token),
                _ => self.server.attempt(&operation, &token.token(), outcome).map(drop),
            };
            self.verdict.cells += 1;
            if let Err(found) = found {
                self.verdict.wrong.push(format!("{} with {name}: {found}", operation.name));
            }
        }
    }

    fn refused(&self, operation: &Operation, token: &ServiceSas<'_>) -> Result<(), String> {
        let outcome = Outcome::Forbidden("AuthenticationFailed");
        let answer = self.server.attempt(operation, &token.token(), outcome)?;
        // For the whole request, even if it is a batch.
        if answer.status == 403 { Ok(()) } else { Err(format!("answered {}", answer.status)) }
    }
}

/// TQ-60.
#[test]
fn a_policy_gives_what_the_token_leaves_out() {
    for service in SERVICES {
        let mut trial = Trial::new(service);
        let hour = 3600;
        for letters in subsets(service.letters()) {
            let whole = policy(Some(-hour), Some(hour), Some(&letters));
            trial.row(&[whole], &bare(service), Ok(&letters), &format!("a policy of {letters}"));
        }
        let open = policy(None, None, None);
        trial.row(
            &[open],
            &ServiceSas { policy: "p", ..service_sas(service) },
            Ok(service.letters()),
            "an empty policy",
        );
        let of_time = policy(None, Some(hour), None);
        let letters = ServiceSas { permissions: "r", ..bare(service) };
        trial.row(&[of_time], &letters, Ok("r"), "a policy of time and a token of letters");
        let of_letters = policy(None, None, Some("ra"));
        let time = ServiceSas { expiry: "2026-01-15T12:00:01Z", ..bare(service) };
        trial.row(&[of_letters], &time, Ok("ra"), "a policy of letters and a token of time");
    }
}

#[test]
fn the_window_of_a_policy_is_kept() {
    for service in SERVICES {
        let mut trial = Trial::new(service);
        for (start, expiry, open) in [
            (None, Some(1), true),
            (Some(0), Some(1), true),
            (None, Some(0), false),
            (Some(1), Some(2), false),
            (Some(-2), Some(-1), false),
        ] {
            let policy = policy(start, expiry, Some(service.letters()));
            let expect = if open { Ok(service.letters()) } else { Err(()) };
            trial.row(
                &[policy],
                &bare(service),
                expect,
                &format!("a policy from {start:?} to {expiry:?}"),
            );
        }
    }
}

#[test]
fn a_field_given_twice_or_nowhere_is_refused() {
    for service in SERVICES {
        let mut trial = Trial::new(service);
        let whole = [policy(Some(-1), Some(1), Some(service.letters()))];
        for (token, name) in [
            (ServiceSas { permissions: service.letters(), ..bare(service) }, "sp"),
            (ServiceSas { expiry: "2026-01-15T12:00:01Z", ..bare(service) }, "se"),
            (ServiceSas { start: "2026-01-15T11:59:59Z", ..bare(service) }, "st"),
        ] {
            trial.row(&whole, &token, Err(()), &format!("{name} given twice"));
        }
        trial.row(&[policy(None, Some(1), None)], &bare(service), Err(()), "no letters");
        trial.row(
            &[policy(None, None, Some(service.letters()))],
            &bare(service),
            Err(()),
            "no expiry",
        );
    }
}

#[test]
fn a_policy_that_is_not_there_opens_nothing() {
    for service in SERVICES {
        let mut trial = Trial::new(service);
        trial.row(&[], &bare(service), Err(()), "no policy");
        let other =
            AccessPolicy { id: "P".to_owned(), ..policy(None, Some(1), Some(service.letters())) };
        trial.row(&[other], &bare(service), Err(()), "a policy of another case");
        let whole = ServiceSas { policy: "p", ..service_sas(service) };
        trial.row(&[], &whole, Err(()), "a whole token that names an unknown policy");
        let elsewhere = ServiceSas { resource: "nowhere", ..bare(service) };
        trial.row(&[], &elsewhere, Err(()), "a policy of what is not there");
    }
}

/// Removing a policy revokes its tokens at once (A-6.8), and a policy of another resource does not help.
#[test]
fn a_policy_is_its_resources_and_can_be_taken_back() {
    for service in SERVICES {
        let server = Server::start(service);
        let read = service.read();
        let policies = self::policies(service, vec![policy(None, Some(1), Some("r"))]);
        let token: Credential = bare(service).token();
        let status = || server.send(&read, &token, crate::server::Style::Path, "2019-02-02").status;
        server.set_policies(service.other_resource(), policies.clone());
        assert_eq!(status(), 403);
        server.set_policies(service.resource(), policies);
        assert_eq!(status(), 200);
        server.set_policies(service.resource(), AccessPolicies::default());
        assert_eq!(status(), 403);
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    for service in SERVICES {
        let server = Server::start(service);
        let all = policy(Some(-60), Some(60), Some(service.letters()));
        server.set_policies(service.resource(), policies(service, vec![all]));
        let Credential::Token(token) = bare(service).token() else { unreachable!() };
        // The token is valid as issued.
        let query = service.read();
        let good = Credential::Token(token.clone());
        assert!(server.attempt(&query, &good, Outcome::Done).is_ok());
        crate::tampering::check_every_byte(&server, &token, Credential::Token, "a stored policy");
    }
}
