//! User delegation: who is given a key, and what the tokens signed with it open.

use crate::Verdict;
use crate::bearer::Trusting;
use crate::credential::{Credential, SharedKey, key, table_sas};
use crate::operation::{FAILED, FORBIDDEN, Operation, all};
use crate::server::{ACCOUNT, Server, Style};
use crate::table_sas;
use crate::tampering::check_every_byte;
use lazuli_server::AuthOptions;
use lazuli_testkit::issuer::{OBJECT_ID, TENANT_ID};
use lazuli_wire::sas::{TableSas, UserDelegationKey, UserDelegationSas};
use lazuli_wire::shared_key::Scheme;

const VERSION: &str = "2025-07-05";
const READER: &str = "Storage Table Data Reader";
const CONTRIBUTOR: &str = "Storage Table Data Contributor";
const START: &str = "2026-01-15T11:00:00Z";
const EXPIRY: &str = "2026-01-16T00:00:00Z";

fn start() -> Trusting {
    let auth =
        AuthOptions { bearer_over_http: true, user_delegation: true, ..AuthOptions::default() };
    Trusting::with(auth)
}

/// Get User Delegation Key.
fn key_request(start: &str, expiry: &str) -> Operation {
    let like = all().into_iter().find(|like| like.name == "Set Table Service Properties").unwrap();
    Operation {
        name: "Get User Delegation Key",
        method: "POST",
        query: "restype=service&comp=userdelegationkey",
        body: format!("<KeyInfo><Start>{start}</Start><Expiry>{expiry}</Expiry></KeyInfo>"),
        status: 200,
        ..like
    }
}

fn element(body: &str, name: &str) -> String {
    let (_, rest) = body.split_once(&format!("<{name}>")).unwrap();
    rest.split_once(&format!("</{name}>")).unwrap().0.to_owned()
}

/// The value of a key for a user with this role.
fn value_for(trusting: &Trusting, role: &str) -> String {
    let request = key_request(START, EXPIRY);
    let answer = trusting.server.send(&request, &trusting.role(role), Style::Path, VERSION);
    assert_eq!(answer.status, 200, "{}", answer.body);
    for (name, text) in [
        ("SignedOid", OBJECT_ID),
        ("SignedTid", TENANT_ID),
        ("SignedStart", START),
        ("SignedExpiry", EXPIRY),
        ("SignedService", "t"),
        ("SignedVersion", VERSION),
    ] {
        assert_eq!(element(&answer.body, name), text);
    }
    element(&answer.body, "Value")
}

fn delegated() -> UserDelegationSas<'static> {
    UserDelegationSas {
        table: TableSas { version: VERSION, ..table_sas() },
        key: UserDelegationKey {
            object_id: OBJECT_ID,
            tenant_id: TENANT_ID,
            start: START,
            expiry: EXPIRY,
            service: "t",
            version: VERSION,
        },
        ..UserDelegationSas::default()
    }
}

fn token(sas: &UserDelegationSas<'_>, value: &str) -> Credential {
    Credential::Token(sas.token(ACCOUNT, &key(value)).unwrap())
}

#[test]
fn a_token_opens_what_it_and_its_owners_role_permit() {
    let trusting = start();
    let mut verdict = Verdict::default();
    for (role, owner) in [(CONTRIBUTOR, "raud"), (READER, "r")] {
        let value = value_for(&trusting, role);
        for letters in ["raud", "r", "au"] {
            let table = TableSas { permissions: letters, ..delegated().table };
            let sas = UserDelegationSas { table, ..delegated() };
            let both: String = letters.chars().filter(|c| owner.contains(*c)).collect();
            let name = format!("a token of {letters} by a {role}");
            verdict.row(&trusting.server, &token(&sas, &value), &name, |operation| {
                table_sas::expected(operation, &both)
            });
        }
    }
}

#[test]
fn a_token_is_as_good_as_its_key() {
    let trusting = start();
    let value = value_for(&trusting, CONTRIBUTOR);
    let mut verdict = Verdict::default();
    let with_key = |key| UserDelegationSas { key, ..delegated() };
    let table = delegated().table;
    let with_table = |table| UserDelegationSas { table, ..delegated() };
    let good = delegated().key;
    let other = "33333333-3333-3333-3333-333333333333";
    for (name, sas) in [
        ("another's key", with_key(UserDelegationKey { object_id: other, ..good })),
        ("another tenant's key", with_key(UserDelegationKey { tenant_id: other, ..good })),
        ("a longer key", with_key(UserDelegationKey { expiry: "2026-01-17T00:00:00Z", ..good })),
        ("a key for queues", with_key(UserDelegationKey { service: "q", ..good })),
        ("a token bound to a user", UserDelegationSas { delegate: ["", other], ..delegated() }),
        ("an expired token", with_table(TableSas { expiry: "2026-01-15T12:00:00Z", ..table })),
        ("a token of the future", with_table(TableSas { start: "2026-01-15T12:01:00Z", ..table })),
    ] {
        verdict.row(&trusting.server, &token(&sas, &value), name, |_| FAILED);
    }
    // An expired key is invalid, whatever the token's own expiry.
    let request = key_request("2026-01-10T00:00:00Z", "2026-01-15T12:00:01Z");
    let answer = trusting.server.send(&request, &trusting.role(READER), Style::Path, VERSION);
    let short = element(&answer.body, "Value");
    let key =
        UserDelegationKey { start: "2026-01-10T00:00:00Z", expiry: "2026-01-15T12:00:01Z", ..good };
    let name = "a key about to end";
    verdict.row(&trusting.server, &token(&with_key(key), &short), name, |operation| {
        table_sas::expected(operation, "r")
    });
    let elsewhere = with_table(TableSas { table: "Other", ..table });
    verdict.row(&trusting.server, &token(&elsewhere, &value), "another table", |_| FORBIDDEN);
    // The account's own key is not a user's.
    let by_account = token(&delegated(), crate::server::KEYS[0]);
    verdict.row(&trusting.server, &by_account, "a token by the account key", |_| FAILED);
}

#[test]
fn a_token_opens_its_range_of_keys_alone() {
    let trusting = start();
    let value = value_for(&trusting, CONTRIBUTOR);
    let mut verdict = Verdict::default();
    for (from, to, inside) in [("a", "z", true), ("m", "m", true), ("a", "l", false)] {
        let table = TableSas {
            start_partition_key: Some(from),
            end_partition_key: Some(to),
            ..delegated().table
        };
        let sas = UserDelegationSas { table, ..delegated() };
        let name = format!("a token from {from} to {to}");
        verdict.row(&trusting.server, &token(&sas, &value), &name, |operation| {
            match operation.names_entity {
                true if !inside => FORBIDDEN,
                _ => table_sas::expected(operation, "raud"),
            }
        });
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let trusting = start();
    let value = value_for(&trusting, CONTRIBUTOR);
    let Credential::Token(token) = token(&delegated(), &value) else { unreachable!() };
    check_every_byte(&trusting.server, &token, Credential::Token, "a user delegation SAS");
}

#[test]
fn keys_are_given_to_bearers_and_for_a_week_at_most() {
    let trusting = start();
    let server = &trusting.server;
    let ask = |credential: &Credential, start: &str, expiry: &str| {
        let request = key_request(start, expiry);
        let answer = server.send(&request, credential, Style::Path, VERSION);
        (answer.status, answer.verdict(&request).1.to_owned())
    };
    let refused = |status, code: &str| (status, code.to_owned());
    let reader = trusting.role(READER);
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

#[test]
fn without_the_switch_there_are_neither_keys_nor_tokens() {
    let auth = AuthOptions { bearer_over_http: true, ..AuthOptions::default() };
    let trusting = Trusting::with(auth);
    let request = key_request(START, EXPIRY);
    let answer = trusting.server.send(&request, &trusting.role(READER), Style::Path, VERSION);
    assert_eq!(answer.verdict(&request), (400, "InvalidQueryParameterValue"));
    let value = value_for(&start(), CONTRIBUTOR);
    let server = Server::start();
    let mut verdict = Verdict::default();
    let token = token(&delegated(), &value);
    verdict.row(&server, &token, "a token without the switch", |_| FAILED);
}
