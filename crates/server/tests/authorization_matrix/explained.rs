//! With `--explain-auth` a refusal says why, and still reveals no secret: every request of this suite
//! is checked for that.

use crate::bearer::Trusting;
use crate::credential::{
    Credential, SharedKey, account_sas, account_token, key, table_sas, table_token,
};
use crate::operation::{Operation, all};
use crate::server::{ACCOUNT, Answer, STRANGER_KEY, Server, Style, VERSION};
use lazuli_server::{AuthOptions, FrontOptions};
use lazuli_wire::sas::{AccountSas, TableSas};
use lazuli_wire::shared_key::Scheme;
use lazuli_wire::uri::percent_decode;

fn start() -> Server {
    let auth = AuthOptions { explain: true, ..AuthOptions::default() };
    Server::with_options(FrontOptions { auth, ..FrontOptions::default() })
}

fn operation(name: &str) -> Operation {
    all().into_iter().find(|operation| operation.name == name).unwrap()
}

/// The explanation in the header of an answer; its body must have the same.
#[track_caller]
fn told(server: &Server, name: &str, credential: &Credential) -> String {
    told_with(server, name, credential, &[])
}

#[track_caller]
fn told_with(
    server: &Server,
    name: &str,
    credential: &Credential,
    headers: &[(&str, &str)],
) -> String {
    let answer = server.send_with(&operation(name), credential, headers);
    assert!((400..404).contains(&answer.status), "{answer:?}");
    let (_, rest) = answer.head.split_once("x-lazuli-auth-detail: ").unwrap();
    let detail = rest.split("\r\n").next().unwrap().to_owned();
    let first = detail.split(" | ").next().unwrap();
    assert!(answer.body.contains("AuthenticationErrorDetail"), "{}", answer.body);
    assert!(answer.body.contains(first), "{first} is not in {}", answer.body);
    detail
}

fn shared_key() -> SharedKey {
    SharedKey::new(Scheme::SharedKey, 0)
}

#[test]
fn a_signature_is_explained_by_the_clients_mistake() {
    let server = start();
    let by = shared_key();
    let once = Credential::Header(by.authorization(&operation("Query Tables"), "/Tables"));
    let detail = told_with(&server, "Query Tables", &once, &[("x-ms-date", &by.date)]);
    assert!(detail.contains(r#"The server's string to sign is "GET\n\n\n"#), "{detail}");
    assert!(detail.contains("with the account once, where path style has"), "{detail}");
    assert!(detail.contains(r#"the server has "acct1/Tables", the client "Tables""#), "{detail}");
    let late = SharedKey { date: "Thu, 15 Jan 2026 13:00:00 GMT".to_owned(), ..shared_key() };
    let detail = told(&server, "Query Tables", &Credential::SharedKey(late));
    assert!(detail.contains("3600 seconds apart, but only 900 are allowed"), "{detail}");
    // In XML too.
    let wrong = SharedKey { key: key("bm9ib2R5J3Mga2V5"), ..shared_key() };
    let detail = told(&server, "Get Table ACL", &Credential::SharedKey(wrong));
    assert!(detail.contains("No known mistake matches"), "{detail}");
    let other = SharedKey { key: key(STRANGER_KEY), ..shared_key() };
    let detail = told(&server, "Get Table ACL", &Credential::SharedKey(other));
    assert!(
        detail.ends_with("signed the same string with a key of the account 'acct2'."),
        "{detail}"
    );
}

#[test]
fn tokens_are_explained_by_what_they_lack() {
    let server = start();
    let token = |permissions| table_token(&TableSas { permissions, ..table_sas() });
    assert_eq!(
        told(&server, "Insert Entity", &token("r")),
        "The token permits 'r' on the table 'orders'; InsertEntity on 'orders' needs 'a'."
    );
    let expired = table_token(&TableSas { expiry: "2026-01-15", ..table_sas() });
    assert_eq!(
        told(&server, "Query Entities", &expired),
        "The token expired at 2026-01-15T00:00:00Z; the time is 2026-01-15T12:00:00Z."
    );
    let account = |permissions, resource_types| {
        account_token(&AccountSas { permissions, resource_types, ..account_sas() })
    };
    assert_eq!(
        told(&server, "Create Table", &account("r", "sco")),
        "The token permits 'r' on resource types 'sco'; CreateTable needs 'c' or 'w' on 'c'."
    );
    assert_eq!(
        told(&server, "Create Table", &account("c", "o")),
        "The token permits 'c' on resource types 'o'; CreateTable needs 'c' or 'w' on 'c'."
    );
    let Credential::Token(good) = token("r") else { unreachable!() };
    let forged = Credential::Token(good.replace("sp=r", "sp=ra"));
    let detail = told(&server, "Insert Entity", &forged);
    assert!(detail.contains(r#"The server's string to sign is "ra\n"#), "{detail}");
}

#[test]
fn bearer_tokens_are_explained() {
    let auth = AuthOptions { explain: true, bearer_over_http: true, ..AuthOptions::default() };
    let trusting = Trusting::with(auth);
    let told = |name, credential: &Credential| told(&trusting.server, name, credential);
    let expired = trusting.token(&[("exp", "1700000000")]);
    assert_eq!(
        told("Query Tables", &expired),
        "The bearer token is refused: the token expired at 2023-11-14T22:13:20Z; the time is \
         2026-01-15T12:00:00Z."
    );
    assert_eq!(
        told("Insert Entity", &trusting.token(&[])),
        "The roles of the token permit 'r' on entities; InsertEntity needs 'a'."
    );
    assert_eq!(
        told("Query Tables", &Credential::None),
        "The request has neither an Authorization header nor a shared access signature."
    );
}

#[test]
fn in_a_batch_the_part_tells() {
    let server = start();
    let reader = table_token(&TableSas { permissions: "r", ..table_sas() });
    let insert = operation("a transaction that inserts");
    let answer = server.send(&insert, &reader, Style::Path, VERSION);
    let detail = "AuthenticationErrorDetail:The token permits 'r' on the table 'orders'; \
                  InsertEntity on 'orders' needs 'a'.";
    assert!(answer.body.contains(detail), "{}", answer.body);
}

#[test]
fn without_the_switch_nothing_is_told() {
    let server = Server::start();
    for credential in [Credential::None, table_token(&TableSas { table: "Other", ..table_sas() })] {
        let answer = server.send(&operation("Query Entities"), &credential, Style::Path, VERSION);
        assert!(!answer.head.contains("x-lazuli"), "{}", answer.head);
        assert!(!answer.body.contains("AuthenticationErrorDetail"), "{}", answer.body);
    }
}

/// A caller with a wrong signature does not learn the right one.
#[test]
fn the_right_signature_is_not_told() {
    let server = start();
    let secret = |answer: &Answer, right: &str| {
        assert_eq!(answer.status, 403);
        assert!(answer.head.contains("x-lazuli-auth-detail: "), "{}", answer.head);
        assert!(!answer.head.contains(right) && !answer.body.contains(right), "{answer:?}");
    };
    let operation = operation("Query Entity");
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        let owner = SharedKey::new(scheme, 0);
        let right = owner.authorization(&operation, &format!("/{ACCOUNT}{}", operation.path));
        let forged = Credential::SharedKey(SharedKey { key: key(STRANGER_KEY), ..owner });
        let answer = server.send(&operation, &forged, Style::Path, VERSION);
        secret(&answer, right.rsplit_once(':').unwrap().1);
    }
    for token in [table_token(&table_sas()), account_token(&account_sas())] {
        let Credential::Token(token) = token else { unreachable!() };
        let (terms, right) = token.split_once("&sig=").unwrap();
        let forged = Credential::Token(format!("{terms}&sig={}%3D", "A".repeat(43)));
        let answer = server.send(&operation, &forged, Style::Path, VERSION);
        secret(&answer, right);
        secret(&answer, &percent_decode(right).unwrap());
    }
}
