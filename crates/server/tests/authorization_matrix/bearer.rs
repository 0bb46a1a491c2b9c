//! Bearer tokens: roles, and every way in which a token can be bad.

use crate::Verdict;
use crate::credential::{Credential, covers, subsets};
use crate::operation::{FAILED, Operation, Outcome, all};
use crate::server::{NOW, Server, Style};
use crate::tampering::check_every_byte;
use lazuli_model::Timestamp;
use lazuli_server::{
    AuthOptions, FrontOptions, IssuerOptions, KeySource, ROLES, RoleMap, TokenIssuer,
};
use lazuli_testkit::issuer::{self, ISSUER, TestIssuer};
use std::sync::Arc;
use tempfile::TempDir;

const LACKING: Outcome = Outcome::Forbidden("AuthorizationPermissionMismatch");

/// A server that takes the tokens of an issuer.
pub(crate) struct Trusting {
    pub(crate) server: Server,
    pub(crate) issuer: TestIssuer,
    _keys: TempDir,
}

impl Trusting {
    pub(crate) fn start() -> Self {
        Self::with(AuthOptions { bearer_over_http: true, ..AuthOptions::default() })
    }

    pub(crate) fn with(auth: AuthOptions) -> Self {
        let issuer = TestIssuer::new("k1");
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("keys.json");
        std::fs::write(&file, issuer.jwks()).unwrap();
        let mut roles = RoleMap::new(ROLES);
        let actions = ["read", "add/action", "update/action", "delete"];
        for (letter, action) in ["r", "a", "u", "d"].iter().zip(actions) {
            roles.add(&format!("{letter}=tables/entities/{action}")).unwrap();
        }
        roles.add("tables=tables/read,tables/write,tables/delete").unwrap();
        let trusted = TokenIssuer::new(IssuerOptions {
            issuer: ISSUER.to_owned(),
            audiences: Vec::new(),
            keys: KeySource::File(file),
            roles,
        });
        let auth = AuthOptions { issuer: Some(Arc::new(trusted)), ..auth };
        let server = Server::with_options(FrontOptions { auth, ..FrontOptions::default() });
        Self { server, issuer, _keys: keys }
    }

    /// A token that is good but for `more`.
    pub(crate) fn token(&self, more: &[(&str, &str)]) -> Credential {
        let now = Timestamp::parse(NOW).unwrap().unix_seconds();
        Credential::Header(format!("Bearer {}", self.issuer.token(&issuer::claims(now, more))))
    }

    pub(crate) fn role(&self, role: &str) -> Credential {
        self.token(&[("roles", &format!("[\"{role}\"]"))])
    }
}

/// What the specification says of an operation and roles that permit this on entities, on tables and
/// on the service (A-8.8 to A-8.10).
fn expected(operation: &Operation, entities: &str, tables: &str, service: &str) -> Outcome {
    let (has, needed) = match (operation.table_sas, operation.account_sas) {
        // TR-104: to such a caller access policies do not exist (A-8.9).
        (None, None) => return Outcome::Unauthenticated(404, "ResourceNotFound"),
        (Some(needed), _) => (entities, needed),
        (None, Some(("c", letters))) => (tables, letters[0]),
        (None, Some((_, letters))) => (service, letters[0]),
    };
    if covers(has, needed) { Outcome::Done } else { LACKING }
}

#[test]
fn the_roles_of_the_service_open_what_the_specification_says() {
    let trusting = Trusting::start();
    let mut verdict = Verdict::default();
    let mut row = |role: &str, entities: &str, tables: &str, service: &str| {
        verdict.row(&trusting.server, &trusting.role(role), role, |operation| {
            expected(operation, entities, tables, service)
        });
    };
    row("Storage Table Data Reader", "r", "l", "r");
    row("Storage Table Data Contributor", "raud", "lcd", "rw");
    row("Storage Blob Data Contributor", "", "", "");
    row("tables", "", "lcd", "");
}

#[test]
fn every_set_of_data_actions_opens_its_own_operations() {
    let trusting = Trusting::start();
    let mut verdict = Verdict::default();
    for letters in subsets("raud") {
        let roles: Vec<_> = letters.chars().map(|letter| format!("\"{letter}\"")).collect();
        let token = trusting.token(&[("roles", &format!("[{}]", roles.join(",")))]);
        let name = format!("the data actions {letters}");
        verdict.row(&trusting.server, &token, &name, |operation| {
            expected(operation, &letters, "", "")
        });
    }
}

#[test]
fn a_bad_token_opens_nothing() {
    let trusting = Trusting::start();
    let now = Timestamp::parse(NOW).unwrap().unix_seconds();
    let before = (now - 60).to_string();
    let after = (now + 61).to_string();
    let stranger = TestIssuer::new("k1").token(&issuer::claims(now, &[]));
    let unsigned = trusting.issuer.token_with(r#"{"alg":"none"}"#, &issuer::claims(now, &[]));
    let contributor = ("roles", r#""Storage Table Data Contributor""#);
    let mut verdict = Verdict::default();
    for (name, credential) in [
        ("an expired token", trusting.token(&[("exp", &before), contributor])),
        ("a token of the future", trusting.token(&[("nbf", &after), contributor])),
        ("another issuer's token", trusting.token(&[("iss", "\"https://else\""), contributor])),
        ("a token for others", trusting.token(&[("aud", "\"https://vault.azure.net\"")])),
        ("a forged token", Credential::Header(format!("Bearer {stranger}"))),
        ("an unsigned token", Credential::Header(format!("Bearer {unsigned}"))),
    ] {
        // Before there was a challenge it was a bad signature like any other (A-8.7).
        verdict.row(&trusting.server, &credential, name, |_| FAILED);
        for operation in all() {
            let answer = trusting.server.send(&operation, &credential, Style::Path, "2020-12-06");
            assert_eq!(answer.status, 401, "{name}: {}", operation.name);
            assert_eq!(answer.verdict(&operation).1, "InvalidAuthenticationInfo");
        }
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let trusting = Trusting::start();
    let Credential::Header(header) = trusting.role("Storage Table Data Contributor") else {
        unreachable!()
    };
    check_every_byte(&trusting.server, &header, Credential::Header, "a bearer token");
}

#[test]
fn a_good_token_is_taken_at_any_version_and_over_https_only() {
    let trusting = Trusting::start();
    let query = &all()[0];
    let token = trusting.token(&[]);
    for version in ["2017-11-09", "2019-02-02", "2020-12-06", "2026-06-06"] {
        assert_eq!(trusting.server.send(query, &token, Style::Path, version).status, 200);
    }
    let careful = Trusting::with(AuthOptions::default());
    let mut verdict = Verdict::default();
    verdict.row(&careful.server, &careful.token(&[]), "a token over http", |_| FAILED);
}

#[test]
fn the_challenge_names_the_operators_uri() {
    let uri = "https://login.test/tenant/oauth2/authorize";
    let auth = AuthOptions { authorization_uri: uri.to_owned(), ..AuthOptions::default() };
    let trusting = Trusting::with(auth);
    let answer = trusting.server.send(&all()[0], &Credential::None, Style::Path, "2020-12-06");
    let challenge = format!(
        "www-authenticate: Bearer authorization_uri={uri} resource_id=https://storage.azure.com\r\n"
    );
    assert!(answer.head.contains(&challenge), "{}", answer.head);
}
