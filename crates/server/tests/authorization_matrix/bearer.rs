//! Bearer tokens: roles, and every way in which a token can be bad.

use crate::Verdict;
use crate::credential::{Credential, subsets};
use crate::operation::{FAILED, FORBIDDEN, LACKING, Operation, Outcome};
use crate::server::{NOW, Server, Style};
use crate::service::{SERVICES, Service};
use crate::tampering::check_every_byte;
use lazuli_model::Timestamp;
use lazuli_server::{
    AuthOptions, FrontOptions, IssuerOptions, KeySource, ROLES, RoleMap, TokenIssuer,
};
use lazuli_testkit::issuer::{self, ISSUER, TestIssuer};
use std::sync::Arc;
use tempfile::TempDir;

/// A server that accepts the tokens of an issuer.
pub(crate) struct Trusting {
    pub(crate) server: Server,
    pub(crate) issuer: TestIssuer,
    _keys: TempDir,
}

impl Trusting {
    pub(crate) fn start(service: Service) -> Self {
        Self::with(service, AuthOptions { bearer_over_http: true, ..AuthOptions::default() })
    }

    pub(crate) fn with(service: Service, auth: AuthOptions) -> Self {
        let issuer = TestIssuer::new("k1");
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("keys.json");
        std::fs::write(&file, issuer.jwks()).unwrap();
        let mut roles = RoleMap::new(ROLES);
        roles.add("delegates=generateUserDelegationKey/action").unwrap();
        for (letter, action) in ACTIONS.iter().copied().flatten() {
            roles.add(&format!("{letter}={action}")).unwrap();
        }
        let trusted = TokenIssuer::new(IssuerOptions {
            issuer: ISSUER.to_owned(),
            audiences: Vec::new(),
            keys: KeySource::File(file),
            roles,
        });
        let auth = AuthOptions { issuer: Some(Arc::new(trusted)), ..auth };
        let server =
            Server::with_options(service, FrontOptions { auth, ..FrontOptions::default() });
        Self { server, issuer, _keys: keys }
    }

    /// A valid token, except for `more`.
    pub(crate) fn token(&self, more: &[(&str, &str)]) -> Credential {
        let now = Timestamp::parse(NOW).unwrap().unix_seconds();
        Credential::Header(format!("Bearer {}", self.issuer.token(&issuer::claims(now, more))))
    }

    pub(crate) fn role(&self, role: &str) -> Credential {
        self.roles(&[role])
    }

    pub(crate) fn roles(&self, roles: &[&str]) -> Credential {
        self.token(&[("roles", &format!("{roles:?}"))])
    }
}

/// The operator's own roles, which give one data action each: for tables and for queues.
const ACTIONS: [&[(&str, &str)]; 2] = [
    &[
        ("r", "tables/entities/read"),
        ("a", "tables/entities/add/action"),
        ("u", "tables/entities/update/action"),
        ("d", "tables/entities/delete"),
        ("w", "tables/entities/write"),
        ("R", "tables/read"),
        ("W", "tables/write"),
        ("D", "tables/delete"),
    ],
    &[
        ("m", "queues/messages/read"),
        ("n", "queues/messages/add/action"),
        ("p", "queues/messages/process/action"),
        ("o", "queues/messages/write"),
        ("x", "queues/messages/delete"),
        ("X", "queues/read"),
        ("Y", "queues/write"),
        ("Z", "queues/delete"),
    ],
];

fn actions_of(service: Service) -> &'static [(&'static str, &'static str)] {
    ACTIONS[service as usize]
}

/// What the specification says about an operation and roles that give these data actions.
fn expected(service: Service, operation: &Operation, given: &[&str]) -> Outcome {
    let gives = |needed: &&[&str]| needed.iter().all(|action| given.contains(action));
    match operation.actions.is_empty() {
        // TR-104: for such a caller, access policies of tables do not exist (A-8.9).
        true => service.choose(Outcome::Unauthenticated(404, "ResourceNotFound"), FORBIDDEN),
        false if operation.actions.iter().any(gives) => Outcome::Done,
        false => LACKING,
    }
}

/// A-8.8 to A-8.10, A-13.32.
#[test]
fn the_roles_of_the_service_open_what_the_specification_says() {
    for service in SERVICES {
        let trusting = Trusting::start(service);
        let mut verdict = Verdict::default();
        let mut row = |role: &str, given: &[&str]| {
            verdict.row(&trusting.server, &trusting.role(role), role, |operation| {
                expected(service, operation, given)
            });
        };
        let all: Vec<_> = actions_of(service).iter().map(|(_, action)| *action).collect();
        let all = [all.as_slice(), &["read", "write"]].concat();
        let reads: Vec<_> = all.iter().copied().filter(|action| action.ends_with("read")).collect();
        let (reader, contributor): (&[&str], &[&str]) = (&reads, &all);
        let of_tables = service.choose((reader, contributor), (&[], &[]));
        let of_queues = service.choose((&[][..], &[][..]), (reader, contributor));
        row("Storage Table Data Reader", of_tables.0);
        row("Storage Table Data Contributor", of_tables.1);
        row("Storage Queue Data Reader", of_queues.0);
        row("Storage Queue Data Contributor", of_queues.1);
        row("Storage Queue Data Message Sender", &["queues/messages/add/action"]);
        let processes = ["queues/messages/read", "queues/messages/process/action"];
        row("Storage Queue Data Message Processor", &processes);
        row("Storage Blob Data Contributor", &[]);
        row("nothing", &[]);
    }
}

#[test]
fn every_set_of_data_actions_opens_its_own_operations() {
    for service in SERVICES {
        let trusting = Trusting::start(service);
        let mut verdict = Verdict::default();
        let mut row = |letters: &str| {
            let given = actions_of(service).iter().filter(|(letter, _)| letters.contains(letter));
            let (roles, given): (Vec<_>, Vec<_>) = given.copied().unzip();
            let token = trusting.roles(&roles);
            let name = format!("the data actions {given:?}");
            verdict.row(&trusting.server, &token, &name, |operation| {
                expected(service, operation, &given)
            });
        };
        subsets(service.choose("raud", "mnpo")).iter().for_each(|letters| row(letters));
        actions_of(service).iter().for_each(|(letter, _)| row(letter));
    }
}

/// The refusal of a bad token: before tables had a challenge, it was just a bad signature (A-8.7);
/// queues have had the challenge as long as tokens (A-13.31).
const fn refused(service: Service) -> Outcome {
    match service {
        Service::Table => FAILED,
        Service::Queue => Outcome::Unauthenticated(401, "InvalidAuthenticationInfo"),
    }
}

#[test]
fn a_bad_token_opens_nothing() {
    for service in SERVICES {
        let trusting = Trusting::start(service);
        let now = Timestamp::parse(NOW).unwrap().unix_seconds();
        let before = (now - 60).to_string();
        let after = (now + 61).to_string();
        let stranger = TestIssuer::new("k1").token(&issuer::claims(now, &[]));
        let unsigned = trusting.issuer.token_with(r#"{"alg":"none"}"#, &issuer::claims(now, &[]));
        let role =
            service.choose("Storage Table Data Contributor", "Storage Queue Data Contributor");
        let role = format!("\"{role}\"");
        let contributor = ("roles", role.as_str());
        let elsewhere = service.choose("queue", "table");
        let elsewhere = format!("\"https://acct1.{elsewhere}.core.windows.net\"");
        let mut verdict = Verdict::default();
        for (name, credential) in [
            ("an expired token", trusting.token(&[("exp", &before), contributor])),
            ("a token of the future", trusting.token(&[("nbf", &after), contributor])),
            ("another issuer's token", trusting.token(&[("iss", "\"https://else\""), contributor])),
            ("a token for others", trusting.token(&[("aud", "\"https://vault.azure.net\"")])),
            ("another service's token", trusting.token(&[("aud", &elsewhere), contributor])),
            ("a forged token", Credential::Header(format!("Bearer {stranger}"))),
            ("an unsigned token", Credential::Header(format!("Bearer {unsigned}"))),
        ] {
            verdict.row(&trusting.server, &credential, name, |_| refused(service));
            for operation in service.operations() {
                let answer =
                    trusting.server.send(&operation, &credential, Style::Path, "2020-12-06");
                assert_eq!(answer.status, 401, "{name}: {}", operation.name);
                assert_eq!(answer.verdict(&operation).1, "InvalidAuthenticationInfo");
            }
        }
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    for service in SERVICES {
        let trusting = Trusting::start(service);
        let role =
            service.choose("Storage Table Data Contributor", "Storage Queue Data Contributor");
        let Credential::Header(header) = trusting.role(role) else { unreachable!() };
        check_every_byte(&trusting.server, &header, Credential::Header, "a bearer token");
    }
}

#[test]
fn a_good_token_is_taken_at_any_version_and_over_https_only() {
    for service in SERVICES {
        let trusting = Trusting::start(service);
        let query = &service.operations()[0];
        let role = service.choose("Storage Table Data Reader", "Storage Queue Data Reader");
        let token = trusting.role(role);
        for version in ["2017-11-09", "2019-02-02", "2020-12-06", "2026-06-06"] {
            assert_eq!(trusting.server.send(query, &token, Style::Path, version).status, 200);
        }
        let careful = Trusting::with(service, AuthOptions::default());
        let malformed = Outcome::Unauthenticated(400, "InvalidAuthenticationInfo");
        let mut verdict = Verdict::default();
        verdict.row(&careful.server, &careful.role(role), "a token over http", |_| {
            service.choose(FAILED, malformed)
        });
    }
}

/// A-13.31.
#[test]
fn queues_take_no_token_of_a_version_before_them() {
    let service = Service::Queue;
    let trusting = Trusting::start(service);
    let token = trusting.role("Storage Queue Data Contributor");
    for operation in service.operations() {
        let answer = trusting.server.send(&operation, &token, Style::Path, "2017-07-29");
        assert_eq!(answer.verdict(&operation), (400, "InvalidAuthenticationInfo"));
    }
}

#[test]
fn the_challenge_names_the_operators_uri() {
    for service in SERVICES {
        let uri = "https://login.test/tenant/oauth2/authorize";
        let auth = AuthOptions { authorization_uri: uri.to_owned(), ..AuthOptions::default() };
        let trusting = Trusting::with(service, auth);
        let first = &service.operations()[0];
        let answer = trusting.server.send(first, &Credential::None, Style::Path, "2020-12-06");
        let challenge = format!(
            "www-authenticate: Bearer authorization_uri={uri} \
             resource_id=https://storage.azure.com\r\n"
        );
        assert!(answer.head.contains(&challenge), "{}", answer.head);
    }
}
