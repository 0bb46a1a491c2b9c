//! With `--explain-auth` a refusal says why, and still reveals no secret: every request in this suite
//! is checked for that.

use crate::answer::Answer;
use crate::bearer::Trusting;
use crate::credential::{
    Credential, ServiceSas, SharedKey, account_sas, account_token, key, service_sas,
};
use crate::server::{STRANGER_KEY, Server, Style, VERSION};
use crate::service::{SERVICES, Service};
use lazuli_server::{AuthOptions, FrontOptions};
use lazuli_wire::sas::AccountSas;
use lazuli_wire::shared_key::Scheme;
use lazuli_wire::uri::percent_decode;

fn start(service: Service) -> Server {
    let auth = AuthOptions { explain: true, ..AuthOptions::default() };
    Server::with_options(service, FrontOptions { auth, ..FrontOptions::default() })
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
    let answer = server.send_with(&server.service.operation(name), credential, headers);
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
    for service in SERVICES {
        let server = start(service);
        let (list, acl) = service
            .choose(("Query Tables", "Get Table ACL"), ("Get Queue Metadata", "Get Queue ACL"));
        let by = shared_key();
        let asked = service.operation(list);
        let once = Credential::Header(server.authorization_of(&by, &asked, asked.path));
        let detail = told_with(&server, list, &once, &[("x-ms-date", &by.date)]);
        assert!(detail.contains(r#"The server's string to sign is "GET\n\n\n"#), "{detail}");
        assert!(detail.contains("with the account once, where path style has"), "{detail}");
        let part = &asked.path[1..];
        let parts = format!(r#"the server has "acct1/{part}", the client "{part}""#);
        assert!(service == Service::Queue || detail.contains(&parts), "{detail}");
        let late = SharedKey { date: "Thu, 15 Jan 2026 13:00:00 GMT".to_owned(), ..shared_key() };
        let detail = told(&server, list, &Credential::SharedKey(late));
        assert!(detail.contains("3600 seconds apart, but only 900 are allowed"), "{detail}");
        // In XML too.
        let wrong = SharedKey { key: key("bm9ib2R5J3Mga2V5"), ..shared_key() };
        let detail = told(&server, acl, &Credential::SharedKey(wrong));
        assert!(detail.contains("No known mistake matches"), "{detail}");
        let other = SharedKey { key: key(STRANGER_KEY), ..shared_key() };
        let detail = told(&server, acl, &Credential::SharedKey(other));
        let end = "signed the same string with a key of the account 'acct2'.";
        assert!(detail.ends_with(end), "{detail}");
    }
}

#[test]
fn tokens_are_explained_by_what_they_lack() {
    for service in SERVICES {
        let server = start(service);
        let token = |permissions| ServiceSas { permissions, ..service_sas(service) }.token();
        let (put, create) =
            service.choose(("Insert Entity", "Create Table"), ("Put Message", "Create Queue"));
        assert_eq!(
            told(&server, put, &token("r")),
            service.choose(
                "The token permits 'r' on the table 'orders'; InsertEntity on 'orders' needs 'a'.",
                "The token permits 'r' on the queue 'orders'; PutMessage on 'orders' needs 'a'.",
            )
        );
        let expired = ServiceSas { expiry: "2026-01-15", ..service_sas(service) }.token();
        assert_eq!(
            told(&server, put, &expired),
            "The token expired at 2026-01-15T00:00:00Z; the time is 2026-01-15T12:00:00Z."
        );
        let account = |permissions, resource_types| {
            account_token(&AccountSas { permissions, resource_types, ..account_sas() })
        };
        let needs = format!("{} needs 'c' or 'w' on 'c'.", create.replace(' ', ""));
        assert_eq!(
            told(&server, create, &account("r", "sco")),
            format!("The token permits 'r' on resource types 'sco'; {needs}")
        );
        assert_eq!(
            told(&server, create, &account("c", "o")),
            format!("The token permits 'c' on resource types 'o'; {needs}")
        );
        let Credential::Token(good) = token("r") else { unreachable!() };
        let forged = Credential::Token(good.replace("sp=r", "sp=ra"));
        let detail = told(&server, put, &forged);
        assert!(detail.contains(r#"The server's string to sign is "ra\n"#), "{detail}");
    }
}

#[test]
fn bearer_tokens_are_explained() {
    for service in SERVICES {
        let auth = AuthOptions { explain: true, bearer_over_http: true, ..AuthOptions::default() };
        let trusting = Trusting::with(service, auth);
        let told = |name, credential: &Credential| told(&trusting.server, name, credential);
        let (list, put, reader) = service.choose(
            ("Query Tables", "Insert Entity", "Storage Table Data Reader"),
            ("List Queues", "Put Message", "Storage Queue Data Reader"),
        );
        let expired = trusting.token(&[("exp", "1700000000")]);
        assert_eq!(
            told(list, &expired),
            "The bearer token is refused: the token expired at 2023-11-14T22:13:20Z; the time is \
             2026-01-15T12:00:00Z."
        );
        assert_eq!(
            told(put, &trusting.role(reader)),
            service.choose(
                "The roles of the token permit 'r' on entities; InsertEntity needs 'a'.",
                "The roles of the token permit 'r' on messages; PutMessage needs 'a'.",
            )
        );
        assert_eq!(
            told(list, &Credential::None),
            "The request has neither an Authorization header nor a shared access signature."
        );
    }
}

#[test]
fn in_a_batch_the_part_tells() {
    let service = Service::Table;
    let server = start(service);
    let reader = ServiceSas { permissions: "r", ..service_sas(service) }.token();
    let insert = service.operation("a transaction that inserts");
    let answer = server.send(&insert, &reader, Style::Path, VERSION);
    let detail = "AuthenticationErrorDetail:The token permits 'r' on the table 'orders'; \
                  InsertEntity on 'orders' needs 'a'.";
    assert!(answer.body.contains(detail), "{}", answer.body);
}

/// What the Queue service itself says about a signature is not one of our explanations (A-13.20).
#[test]
fn without_the_switch_nothing_is_told() {
    for service in SERVICES {
        let server = Server::start(service);
        let resource = service.other_resource();
        let elsewhere = ServiceSas { resource, ..service_sas(service) };
        let lacking = ServiceSas { permissions: "a", ..service_sas(service) };
        for credential in [Credential::None, elsewhere.token(), lacking.token()] {
            let answer = server.send(&service.read(), &credential, Style::Path, VERSION);
            assert_eq!(answer.status, 403);
            assert!(!answer.head.contains("x-lazuli"), "{}", answer.head);
            let detail = answer.body.split_once("<AuthenticationErrorDetail>");
            let of_service = detail.is_some_and(|(_, detail)| {
                service == Service::Queue && detail.starts_with("Signature did not match. String")
            });
            assert!(detail.is_none() || of_service, "{}", answer.body);
        }
    }
}

/// A caller with a wrong signature does not learn the correct one.
#[test]
fn the_right_signature_is_not_told() {
    for service in SERVICES {
        let server = start(service);
        let secret = |answer: &Answer, right: &str| {
            assert_eq!(answer.status, 403);
            assert!(answer.head.contains("x-lazuli-auth-detail: "), "{}", answer.head);
            assert!(!answer.head.contains(right) && !answer.body.contains(right), "{answer:?}");
        };
        let operation = service.read();
        for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
            let owner = SharedKey::new(scheme, 0);
            let right = server.authorization(&owner, &operation);
            let forged = Credential::SharedKey(SharedKey { key: key(STRANGER_KEY), ..owner });
            let answer = server.send(&operation, &forged, Style::Path, VERSION);
            secret(&answer, right.rsplit_once(':').unwrap().1);
        }
        for token in [service_sas(service).token(), account_token(&account_sas())] {
            let Credential::Token(token) = token else { unreachable!() };
            let (terms, right) = token.split_once("&sig=").unwrap();
            let forged = Credential::Token(format!("{terms}&sig={}%3D", "A".repeat(43)));
            let answer = server.send(&operation, &forged, Style::Path, VERSION);
            secret(&answer, right);
            secret(&answer, &percent_decode(right).unwrap());
        }
    }
}
