//! User delegation: who gets a key, and what the tokens signed with it permit.

use crate::Verdict;
use crate::bearer::Trusting;
use crate::credential::{Credential, ServiceSas, SharedKey, key, service_sas};
use crate::operation::{FAILED, FORBIDDEN, Operation};
use crate::server::{ACCOUNT, Server, Style};
use crate::service::{SERVICES, Service};
use crate::service_sas::{expected, refused};
use crate::tampering::check_every_byte;
use lazuli_server::AuthOptions;
use lazuli_testkit::issuer::{OBJECT_ID, TENANT_ID};
use lazuli_wire::sas::{QueueDelegationSas, TableSas, UserDelegationKey, UserDelegationSas};
use lazuli_wire::shared_key::Scheme;

const VERSION: &str = "2025-07-05";
const START: &str = "2026-01-15T11:00:00Z";
const EXPIRY: &str = "2026-01-16T00:00:00Z";

fn start(service: Service) -> Trusting {
    let auth =
        AuthOptions { bearer_over_http: true, user_delegation: true, ..AuthOptions::default() };
    Trusting::with(service, auth)
}

fn reader(service: Service) -> &'static str {
    service.choose("Storage Table Data Reader", "Storage Queue Data Reader")
}

fn contributor(service: Service) -> &'static str {
    service.choose("Storage Table Data Contributor", "Storage Queue Data Contributor")
}

/// Get User Delegation Key.
fn key_request(start: &str, expiry: &str) -> Operation {
    let body = format!("<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>");
    let request = Operation {
        query: "restype=service&comp=userdelegationkey",
        ..Operation::new("Get User Delegation Key", "POST", "/")
    };
    request.xml(200, &body)
}

fn element(body: &str, name: &str) -> String {
    let (_, rest) = body.split_once(&format!("<{name}>")).unwrap();
    rest.split_once(&format!("</{name}>")).unwrap().0.to_owned()
}

/// The value of a key for a user with this role.
fn value_for(trusting: &Trusting, role: &str) -> String {
    let request = key_request(START, EXPIRY);
    let asked = trusting.roles(&[role, "delegates"]);
    let answer = trusting.server.send(&request, &asked, Style::Path, VERSION);
    assert_eq!(answer.status, 200, "{}", answer.body);
    for (name, text) in [
        ("SignedOid", OBJECT_ID),
        ("SignedTid", TENANT_ID),
        ("SignedStart", START),
        ("SignedExpiry", EXPIRY),
        ("SignedService", trusting.server.service.letter()),
        ("SignedVersion", VERSION),
    ] {
        assert_eq!(element(&answer.body, name), text);
    }
    element(&answer.body, "Value")
}

/// A token signed with a user delegation key.
#[derive(Clone, Copy)]
struct Delegated<'a> {
    sas: ServiceSas<'a>,
    key: UserDelegationKey<'a>,
    delegate: [&'a str; 2],
}

fn delegated(service: Service) -> Delegated<'static> {
    Delegated {
        sas: ServiceSas { version: VERSION, ..service_sas(service) },
        key: UserDelegationKey {
            object_id: OBJECT_ID,
            tenant_id: TENANT_ID,
            start: START,
            expiry: EXPIRY,
            service: service.letter(),
            version: VERSION,
        },
        delegate: [""; 2],
    }
}

impl Delegated<'_> {
    fn token(&self, value: &str) -> Credential {
        let Self { sas, key: signer, delegate } = *self;
        let value = key(value);
        let text = match sas.service {
            Service::Table => {
                let table = sas.of_table();
                UserDelegationSas { table, key: signer, delegate }.token(ACCOUNT, &value)
            }
            Service::Queue => {
                let queue = sas.of_queue();
                let sas = QueueDelegationSas { queue, key: signer, delegate };
                sas.token(ACCOUNT, self.sas.resource, &value)
            }
        };
        Credential::Token(text.unwrap())
    }
}

/// A-7.7. The roles `o` and `p` are defined by the operator: each gives one data action, to write
/// and to process messages.
#[test]
fn a_token_opens_what_it_and_its_owners_role_permit() {
    for service in SERVICES {
        let trusting = start(service);
        let mut verdict = Verdict::default();
        let mut roles = vec![(contributor(service), service.letters()), (reader(service), "r")];
        if service == Service::Queue {
            roles.extend([("Storage Queue Data Message Sender", "a"), ("o", "au"), ("p", "p")]);
            roles.push(("Storage Queue Data Message Processor", "rp"));
        }
        for (role, owner) in roles {
            let value = value_for(&trusting, role);
            for permissions in [service.letters(), "r", "au"] {
                let sas = ServiceSas { permissions, ..delegated(service).sas };
                let token = Delegated { sas, ..delegated(service) }.token(&value);
                let both: String = permissions.chars().filter(|c| owner.contains(*c)).collect();
                let name = format!("a token of {permissions} by a {role}");
                verdict.row(&trusting.server, &token, &name, |operation| {
                    expected(service, operation, &both)
                });
            }
        }
    }
}

#[test]
fn a_token_is_as_good_as_its_key() {
    for service in SERVICES {
        let trusting = start(service);
        let value = value_for(&trusting, contributor(service));
        let mut verdict = Verdict::default();
        let Delegated { sas, key: good, .. } = delegated(service);
        let with_key = |key| Delegated { key, ..delegated(service) };
        let with_sas = |sas| Delegated { sas, ..delegated(service) };
        let other = "33333333-3333-3333-3333-333333333333";
        let elsewhere = service.choose("q", "t");
        let long = "2026-01-17T00:00:00Z";
        for (name, token) in [
            ("another's key", with_key(UserDelegationKey { object_id: other, ..good })),
            ("another tenant's key", with_key(UserDelegationKey { tenant_id: other, ..good })),
            ("a longer key", with_key(UserDelegationKey { expiry: long, ..good })),
            ("another service's key", with_key(UserDelegationKey { service: elsewhere, ..good })),
            ("a token bound to a user", Delegated { delegate: ["", other], ..delegated(service) }),
            ("an expired token", with_sas(ServiceSas { expiry: "2026-01-15T12:00:00Z", ..sas })),
            ("a token to come", with_sas(ServiceSas { start: "2026-01-15T12:01:00Z", ..sas })),
        ] {
            verdict.row(&trusting.server, &token.token(&value), name, |operation| {
                refused(service, operation, FAILED)
            });
        }
        // An expired key is invalid, whatever lifetime the token claims.
        let (start, expiry) = ("2026-01-10T00:00:00Z", "2026-01-15T12:00:01Z");
        let request = key_request(start, expiry);
        let asked = trusting.role(reader(service));
        let answer = trusting.server.send(&request, &asked, Style::Path, VERSION);
        let short = element(&answer.body, "Value");
        let token = with_key(UserDelegationKey { start, expiry, ..good }).token(&short);
        verdict.row(&trusting.server, &token, "a key about to end", |operation| {
            expected(service, operation, "r")
        });
        let resource = service.other_resource();
        let token = with_sas(ServiceSas { resource, ..sas }).token(&value);
        verdict.row(&trusting.server, &token, "another resource", |operation| {
            refused(service, operation, service.choose(FORBIDDEN, FAILED))
        });
        // The account's own key is not a user's.
        let by_account = delegated(service).token(crate::server::KEYS[0]);
        verdict.row(&trusting.server, &by_account, "a token by the account key", |operation| {
            refused(service, operation, FAILED)
        });
    }
}

#[test]
fn a_token_opens_its_range_of_keys_alone() {
    let service = Service::Table;
    let trusting = start(service);
    let value = key(&value_for(&trusting, contributor(service)));
    let mut verdict = Verdict::default();
    for (from, to, inside) in [("a", "z", true), ("m", "m", true), ("a", "l", false)] {
        let Delegated { sas, key, delegate } = delegated(service);
        let table = TableSas {
            start_partition_key: Some(from),
            end_partition_key: Some(to),
            ..sas.of_table()
        };
        let token = UserDelegationSas { table, key, delegate }.token(ACCOUNT, &value).unwrap();
        let name = format!("a token from {from} to {to}");
        verdict.row(
            &trusting.server,
            &Credential::Token(token),
            &name,
            |operation| match operation {
                Operation { of_whole_table: true, .. } => FORBIDDEN,
                Operation { names_entity: true, .. } if !inside => FORBIDDEN,
                operation => expected(service, operation, "raud"),
            },
        );
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    for service in SERVICES {
        let trusting = start(service);
        let value = value_for(&trusting, contributor(service));
        let Credential::Token(token) = delegated(service).token(&value) else { unreachable!() };
        check_every_byte(&trusting.server, &token, Credential::Token, "a user delegation SAS");
    }
}

#[test]
fn keys_are_given_to_bearers_and_for_a_week_at_most() {
    for service in SERVICES {
        let trusting = start(service);
        let server = &trusting.server;
        let ask = |credential: &Credential, start: &str, expiry: &str| {
            let request = key_request(start, expiry);
            let answer = server.send(&request, credential, Style::Path, VERSION);
            (answer.status, answer.verdict(&request).1.to_owned())
        };
        let refused = |status, code: &str| (status, code.to_owned());
        let reader = trusting.role(reader(service));
        assert_eq!(ask(&reader, START, "2026-01-22T11:00:00Z").0, 200);
        let range = refused(400, "InvalidXmlDocument");
        assert_eq!(ask(&reader, START, "2026-01-22T11:00:01Z"), range);
        assert_eq!(ask(&reader, START, "2026-01-15T12:00:00Z"), range);
        assert_eq!(ask(&reader, START, "soon"), range);
        let owner = Credential::SharedKey(SharedKey::new(Scheme::SharedKey, 0));
        assert_eq!(ask(&owner, START, EXPIRY), refused(403, "AuthenticationFailed"));
        let nobody = trusting.role("none");
        assert_eq!(ask(&nobody, START, EXPIRY), refused(403, "AuthorizationPermissionMismatch"));
    }
}

#[test]
fn without_the_switch_there_are_neither_keys_nor_tokens() {
    for service in SERVICES {
        let auth = AuthOptions { bearer_over_http: true, ..AuthOptions::default() };
        let trusting = Trusting::with(service, auth);
        let request = key_request(START, EXPIRY);
        let asked = trusting.role(reader(service));
        let answer = trusting.server.send(&request, &asked, Style::Path, VERSION);
        assert_eq!(answer.verdict(&request), (400, "InvalidQueryParameterValue"));
        let value = value_for(&start(service), contributor(service));
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let token = delegated(service).token(&value);
        verdict.row(&server, &token, "a token without the switch", |operation| {
            refused(service, operation, FAILED)
        });
    }
}
