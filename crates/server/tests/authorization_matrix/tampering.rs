//! One byte changed, or one parameter removed, added or repeated: a credential is valid only exactly
//! as issued.

use crate::Verdict;
use crate::credential::{
    Credential, ServiceSas, SharedKey, account_sas, account_token, service_sas, table_token,
};
use crate::operation::{FAILED, FORBIDDEN, Operation};
use crate::server::{Server, Style, VERSION};
use crate::service::{SERVICES, Service};
use crate::service_sas::refused;
use lazuli_wire::sas::TableSas;
use lazuli_wire::shared_key::Scheme;

/// Replaces one byte by another.
fn with_byte(text: &str, at: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes[at] = if bytes[at].eq_ignore_ascii_case(&b'x') { b'y' } else { b'x' };
    String::from_utf8(bytes).unwrap()
}

/// Asserts a refusal, of any kind, before the store is accessed.
fn assert_kept_out(server: &Server, operation: &Operation, credential: &Credential, name: &str) {
    let answer = server.send(operation, credential, Style::Path, VERSION);
    let refused =
        [400, 401, 403].contains(&answer.status) || (answer.status == 404 && operation.is_batch());
    assert!(refused, "{} with {name}: {}", operation.name, answer.body);
}

/// Changes every byte of a credential in turn: none of the results permits any operation.
pub(crate) fn check_every_byte(
    server: &Server,
    text: &str,
    credential: impl Fn(String) -> Credential,
    name: &str,
) {
    for position in 0..text.len() {
        let credential = credential(with_byte(text, position));
        for operation in server.service.operations() {
            assert_kept_out(server, &operation, &credential, &format!("{name}, byte {position}"));
        }
    }
    println!("{} cells", text.len() * server.service.operations().len());
}

fn tokens(service: Service) -> Vec<(&'static str, String)> {
    let sas = service_sas(service);
    let older = ServiceSas { version: "2014-02-14", ..sas };
    let bounded = ServiceSas { addresses: "127.0.0.1", protocol: "https,http", ..sas };
    let everything = match service {
        Service::Queue => bounded.token(),
        Service::Table => table_token(&TableSas {
            start_partition_key: Some("a"),
            start_row_key: Some("b"),
            end_partition_key: Some("z"),
            end_row_key: Some("y"),
            ..bounded.of_table()
        }),
    };
    [
        ("a service SAS", sas.token()),
        ("a service SAS with everything", everything),
        ("an old service SAS", older.token()),
        ("an account SAS", account_token(&account_sas())),
    ]
    .map(|(name, credential)| match credential {
        Credential::Token(token) => (name, token),
        _ => unreachable!(),
    })
    .into()
}

#[test]
fn a_changed_byte_of_a_signature_is_noticed_by_every_operation() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        for (name, token) in tokens(service).into_iter().step_by(3) {
            let start = token.find("sig=").unwrap() + "sig=".len();
            for position in (start..token.len()).filter(|at| is_plain(&token, *at)) {
                let credential = Credential::Token(with_byte(&token, position));
                verdict.row(
                    &server,
                    &credential,
                    &format!("{name}, byte {position}"),
                    |operation| match name {
                        "an account SAS" => FAILED,
                        _ => refused(service, operation, FAILED),
                    },
                );
            }
        }
    }
}

/// Whether a byte stands for itself, rather than being part of an escape.
fn is_plain(text: &str, at: usize) -> bool {
    !text[at.saturating_sub(2)..=at].contains('%')
}

#[test]
fn a_changed_byte_anywhere_in_a_token_is_noticed() {
    for service in SERVICES {
        let server = Server::start(service);
        for (name, token) in tokens(service) {
            check_every_byte(&server, &token, Credential::Token, name);
        }
    }
}

#[test]
fn a_parameter_taken_away_is_noticed() {
    for service in SERVICES {
        let server = Server::start(service);
        for (name, token) in tokens(service) {
            for taken in token.split('&') {
                let rest: Vec<&str> = token.split('&').filter(|kept| *kept != taken).collect();
                let credential = Credential::Token(rest.join("&"));
                for operation in server.service.operations() {
                    assert_kept_out(
                        &server,
                        &operation,
                        &credential,
                        &format!("{name} less {taken}"),
                    );
                }
            }
        }
    }
}

#[test]
fn a_parameter_added_is_noticed() {
    for service in SERVICES {
        const ADDED: [&str; 14] = [
            "st=2020-01-01",
            "se=2030-01-01",
            "sp=ra",
            "si=p",
            "sip=127.0.0.1",
            "spr=https,http",
            "spk=a",
            "srk=a",
            "epk=a",
            "erk=a",
            "ss=t",
            "srt=sco",
            "ses=scope",
            "skoid=x",
        ];
        let server = Server::start(service);
        for (name, token) in tokens(service) {
            for added in ADDED {
                let parameter = added.split('=').next().unwrap();
                let has = token.split('&').any(|known| known.split('=').next() == Some(parameter));
                // Tokens for a table or queue sign no scope, those for queues no keys, and older ones
                // neither address nor protocol; changing what is not signed proves nothing.
                let unsigned = parameter == "ses" && name != "an account SAS"
                    || service == Service::Queue
                        && ["spk", "srk", "epk", "erk"].contains(&parameter)
                    || name == "an old service SAS" && ["sip", "spr"].contains(&parameter)
                    || name == "an account SAS" && !["si", "st", "sip", "spr"].contains(&parameter);
                if has || unsigned {
                    continue;
                }
                for operation in server.service.operations() {
                    let credential = Credential::Token(format!("{token}&{added}"));
                    assert_kept_out(
                        &server,
                        &operation,
                        &credential,
                        &format!("{name} and {added}"),
                    );
                }
            }
        }
    }
}

/// A-4.15a: if a parameter occurs twice, two readers could each use a different one.
#[test]
fn a_repeated_parameter_is_refused() {
    for service in SERVICES {
        let server = Server::start(service);
        let mut verdict = Verdict::default();
        let reader = ServiceSas { permissions: "r", ..service_sas(service) };
        let Credential::Token(token) = reader.token() else { unreachable!() };
        for wider in [
            "sp=ra",
            service.choose("tn=Other", "sp=raup"),
            "se=2030-01-01",
            "sv=2014-02-14",
            "sig=AAAA",
        ] {
            for repeated in [format!("{token}&{wider}"), format!("{wider}&{token}")] {
                verdict.row(&server, &Credential::Token(repeated), wider, |_| FAILED);
            }
        }
    }
}

#[test]
fn letters_of_another_case_are_no_parameters() {
    for service in SERVICES {
        let server = Server::start(service);
        for (name, token) in tokens(service) {
            let credential = Credential::Token(token.replace("sig=", "SIG="));
            for operation in server.service.operations() {
                assert_kept_out(&server, &operation, &credential, name);
            }
        }
    }
}

#[test]
fn a_changed_byte_of_the_header_is_noticed() {
    for service in SERVICES {
        let server = Server::start(service);
        for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
            let owner = SharedKey::new(scheme, 0);
            for operation in server.service.operations() {
                let header = server.authorization(&owner, &operation);
                for position in 0..header.len() {
                    // The date is sent in its own header; otherwise the signature could not be valid.
                    let tampered =
                        Tampered { owner: owner.clone(), header: with_byte(&header, position) };
                    let name = format!("{} byte {position}", scheme.name());
                    let answer = tampered.send(&server, &operation);
                    let refused = answer == 400 || answer == 403;
                    assert!(refused, "{} with {name}: {answer}", operation.name);
                }
            }
        }
    }
}

/// A header that was changed after signing.
struct Tampered {
    owner: SharedKey,
    header: String,
}

impl Tampered {
    fn send(&self, server: &Server, operation: &Operation) -> u16 {
        let dated = [("x-ms-date", self.owner.date.as_str())];
        server.send_with(operation, &Credential::Header(self.header.clone()), &dated).status
    }
}

/// Changes what the signature covers: the verb, the content type, the date, the path and `comp` in
/// the query; for queues, the whole query, and headers too.
#[test]
fn a_signed_part_changed_on_the_way_is_noticed() {
    for service in SERVICES {
        let server = Server::start(service);
        let owner = SharedKey::new(Scheme::SharedKey, 0);
        let update = service.operation(service.choose("Update Entity", "Set Queue Metadata"));
        let header = Credential::Header(server.authorization(&owner, &update));
        let dated = [("x-ms-date", owner.date.as_str())];
        let send = |operation: Operation, dated: &[(&str, &str)]| {
            server.send_with(&operation, &header, dated).verdict(&operation).0
        };
        assert_eq!(send(update.clone(), &dated), 204, "as it was signed");
        let method = service.choose("MERGE", "GET");
        assert_eq!(send(Operation { method, ..update.clone() }, &dated), 403);
        let content_type = "application/atom+xml";
        assert_eq!(send(Operation { content_type, ..update.clone() }, &dated), 403);
        let path = service.choose("/Orders(PartitionKey='m',RowKey='6')", "/other");
        assert_eq!(send(Operation { path, ..update.clone() }, &dated), 403);
        assert_eq!(send(Operation { query: "comp=acl", ..update.clone() }, &dated), 403);
        let later = crate::credential::at(1).rfc1123();
        assert_eq!(send(update.clone(), &[("x-ms-date", &later)]), 403);
        assert_eq!(send(update.clone(), &[]), 403, "without its date");
        // `x-ms-date` takes precedence, whatever `Date` says (A-1.9).
        let both = [("x-ms-date", owner.date.as_str()), ("Date", later.as_str())];
        assert_eq!(send(update.clone(), &both), 204);
        assert_eq!(send(update, &[("x-ms-date", later.as_str()), ("Date", &owner.date)]), 403);
    }
}

/// A-13.1, A-13.6, A-13.9: metadata, every parameter and the length of the body.
#[test]
fn a_queue_request_is_signed_whole() {
    let server = Server::start(Service::Queue);
    let owner = SharedKey::new(Scheme::SharedKey, 0);
    let dated = ("x-ms-date", owner.date.as_str());
    let check = |operation: &Operation, changed: Operation, more: &[(&str, &str)]| {
        let header = Credential::Header(server.authorization(&owner, operation));
        let sent = [&[dated], more].concat();
        let answer = server.send_with(&changed, &header, &sent);
        assert_eq!(answer.verdict(&changed), (403, "AuthenticationFailed"), "{changed:?}");
    };
    let set = Service::Queue.operation("Set Queue Metadata");
    check(&set, Operation { headers: &[("x-ms-meta-a", "2")], ..set.clone() }, &[]);
    check(&set, Operation { headers: &[], ..set.clone() }, &[]);
    check(&set, set.clone(), &[("x-ms-meta-b", "1")]);
    check(&set, set.clone(), &[("Content-Encoding", "gzip")]);
    check(&set, set.clone(), &[("If-Match", "*")]);
    let get = Service::Queue.operation("Get Messages");
    check(&get, Operation { query: "numofmessages=32&visibilitytimeout=7", ..get.clone() }, &[]);
    check(&get, Operation { query: "numofmessages=2", ..get.clone() }, &[]);
    let put = Service::Queue.operation("Put Message");
    check(&put, Operation { query: "messagettl=1", ..put.clone() }, &[]);
    check(&put, Operation { body: put.body.replace("text<", "longer<"), ..put.clone() }, &[]);
}

/// The outcome of a token is the same whether or not the resource exists, unless the token permits
/// access to it (A-10.5).
#[test]
fn a_refusal_does_not_tell_what_exists() {
    for service in SERVICES {
        let server = Server::start(service);
        let read = service.read();
        let elsewhere = ServiceSas { resource: "nothing", ..service_sas(service) }.token();
        let (_, forged) = tokens(service).remove(0);
        let forged = Credential::Token(with_byte(&forged, forged.len() - 8));
        let of_tables = [
            "/Orders(PartitionKey='m',RowKey='5')",
            "/Orders(PartitionKey='m',RowKey='none')",
            "/Missing(PartitionKey='m',RowKey='5')",
        ];
        let of_queues = ["/orders/messages", "/other/messages", "/missing/messages"];
        for (credential, expected) in [
            (&elsewhere, service.choose(FORBIDDEN, FAILED)),
            (&forged, FAILED),
            (&Credential::None, FAILED),
        ] {
            for path in service.choose(of_tables, of_queues) {
                let operation = Operation { path, ..read.clone() };
                let found = server.attempt(&operation, credential, expected);
                assert!(found.is_ok(), "{path}: {found:?}");
            }
        }
    }
}
