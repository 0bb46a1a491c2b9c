//! One byte changed, one parameter taken away, added or repeated: a credential is good as it was
//! issued, and no other way.

use crate::Verdict;
use crate::credential::{
    Credential, SharedKey, account_sas, account_token, table_sas, table_token,
};
use crate::operation::{FAILED, Operation, Outcome, all};
use crate::server::{Server, Style, VERSION};
use lazuli_wire::sas::TableSas;
use lazuli_wire::shared_key::Scheme;

/// Another byte in the place of one.
fn with_byte(text: &str, at: usize) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes[at] = if bytes[at].eq_ignore_ascii_case(&b'x') { b'y' } else { b'x' };
    String::from_utf8(bytes).unwrap()
}

/// A refusal that may be of several kinds, but comes before the store is asked.
fn assert_kept_out(server: &Server, operation: &Operation, credential: &Credential, name: &str) {
    let answer = server.send(operation, credential, Style::Path, VERSION);
    let refused =
        [400, 401, 403].contains(&answer.status) || (answer.status == 404 && operation.is_batch());
    assert!(refused, "{} with {name}: {}", operation.name, answer.body);
}

/// Every byte of a credential, changed in turn: no operation is done with any of them.
pub(crate) fn check_every_byte(
    server: &Server,
    text: &str,
    credential: impl Fn(String) -> Credential,
    name: &str,
) {
    for position in 0..text.len() {
        let credential = credential(with_byte(text, position));
        for operation in all() {
            assert_kept_out(server, &operation, &credential, &format!("{name}, byte {position}"));
        }
    }
    println!("{} cells", text.len() * all().len());
}

fn tokens() -> Vec<(&'static str, String)> {
    let ranged = TableSas {
        start_partition_key: Some("a"),
        start_row_key: Some("b"),
        end_partition_key: Some("z"),
        end_row_key: Some("y"),
        addresses: "127.0.0.1",
        protocol: "https,http",
        ..table_sas()
    };
    let older = TableSas { version: "2014-02-14", ..table_sas() };
    [
        ("a table SAS", table_token(&table_sas())),
        ("a table SAS with everything", table_token(&ranged)),
        ("an old table SAS", table_token(&older)),
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
    let server = Server::start();
    let mut verdict = Verdict::default();
    for (name, token) in tokens().into_iter().step_by(3) {
        let start = token.find("sig=").unwrap() + "sig=".len();
        for position in (start..token.len()).filter(|at| is_plain(&token, *at)) {
            let credential = Credential::Token(with_byte(&token, position));
            verdict.row(&server, &credential, &format!("{name}, byte {position}"), |_| FAILED);
        }
    }
}

/// Whether a byte stands for itself, and is no part of an escape.
fn is_plain(text: &str, at: usize) -> bool {
    !text[at.saturating_sub(2)..=at].contains('%')
}

#[test]
fn a_changed_byte_anywhere_in_a_token_is_noticed() {
    let server = Server::start();
    for (name, token) in tokens() {
        check_every_byte(&server, &token, Credential::Token, name);
    }
}

#[test]
fn a_parameter_taken_away_is_noticed() {
    let server = Server::start();
    for (name, token) in tokens() {
        for taken in token.split('&') {
            let rest: Vec<&str> = token.split('&').filter(|kept| *kept != taken).collect();
            let credential = Credential::Token(rest.join("&"));
            for operation in all() {
                assert_kept_out(&server, &operation, &credential, &format!("{name} less {taken}"));
            }
        }
    }
}

#[test]
fn a_parameter_added_is_noticed() {
    const ADDED: [&str; 14] = [
        "st=2020-01-01",
        "se=2030-01-01",
        "sp=raud",
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
    let server = Server::start();
    for (name, token) in tokens() {
        for added in ADDED {
            let parameter = added.split('=').next().unwrap();
            let has = token.split('&').any(|known| known.split('=').next() == Some(parameter));
            // Tokens for tables sign no scope and older ones neither address nor protocol; what is
            // not signed says nothing.
            let unsigned = parameter == "ses" && name != "an account SAS"
                || name == "an old table SAS" && ["sip", "spr"].contains(&parameter)
                || name == "an account SAS" && !["si", "st", "sip", "spr"].contains(&parameter);
            if has || unsigned {
                continue;
            }
            for operation in all() {
                let credential = Credential::Token(format!("{token}&{added}"));
                assert_kept_out(&server, &operation, &credential, &format!("{name} and {added}"));
            }
        }
    }
}

/// A-4.15a: two readers could take one of two parameters of the same name each.
#[test]
fn a_repeated_parameter_is_refused() {
    let server = Server::start();
    let mut verdict = Verdict::default();
    let Credential::Token(token) = table_token(&TableSas { permissions: "r", ..table_sas() })
    else {
        unreachable!()
    };
    for wider in ["sp=raud", "tn=Other", "se=2030-01-01", "sv=2014-02-14", "sig=AAAA"] {
        for repeated in [format!("{token}&{wider}"), format!("{wider}&{token}")] {
            verdict.row(&server, &Credential::Token(repeated), wider, |_| FAILED);
        }
    }
}

#[test]
fn letters_of_another_case_are_no_parameters() {
    let server = Server::start();
    for (name, token) in tokens() {
        let credential = Credential::Token(token.replace("sig=", "SIG="));
        for operation in all() {
            assert_kept_out(&server, &operation, &credential, name);
        }
    }
}

#[test]
fn a_changed_byte_of_the_header_is_noticed() {
    let server = Server::start();
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        let owner = SharedKey::new(scheme, 0);
        for operation in all() {
            let path = format!("/{}{}", crate::server::ACCOUNT, operation.path);
            let header = owner.authorization(&operation, &path);
            for position in 0..header.len() {
                // The date goes along in its own header, or the signature could not be good.
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

/// A header that was changed after it was made.
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

/// What the signature covers, changed on the way: the verb, the type of the body, the date, the path
/// and, of the query, `comp`.
#[test]
fn a_signed_part_changed_on_the_way_is_noticed() {
    let server = Server::start();
    let owner = SharedKey::new(Scheme::SharedKey, 0);
    let update = all().into_iter().find(|o| o.name == "Update Entity").unwrap();
    let path = format!("/{}{}", crate::server::ACCOUNT, update.path);
    let header = Credential::Header(owner.authorization(&update, &path));
    let dated = [("x-ms-date", owner.date.as_str())];
    let send = |operation: Operation, dated: &[(&str, &str)]| {
        server.send_with(&operation, &header, dated).verdict(&operation).0
    };
    assert_eq!(send(update.clone(), &dated), 204, "as it was signed");
    assert_eq!(send(Operation { method: "MERGE", ..update.clone() }, &dated), 403);
    let content_type = "application/atom+xml";
    assert_eq!(send(Operation { content_type, ..update.clone() }, &dated), 403);
    let path = "/Orders(PartitionKey='m',RowKey='6')";
    assert_eq!(send(Operation { path, ..update.clone() }, &dated), 403);
    assert_eq!(send(Operation { query: "comp=acl", ..update.clone() }, &dated), 403);
    let later = crate::credential::at(1).rfc1123();
    assert_eq!(send(update.clone(), &[("x-ms-date", &later)]), 403);
    assert_eq!(send(update.clone(), &[]), 403, "without its date");
    // `x-ms-date` is the one that counts, whatever `Date` says (A-1.9).
    let both = [("x-ms-date", owner.date.as_str()), ("Date", later.as_str())];
    assert_eq!(send(update.clone(), &both), 204);
    assert_eq!(send(update, &[("x-ms-date", later.as_str()), ("Date", &owner.date)]), 403);
}

/// The outcome of a token is the same whether the resource is there or not, unless the token opens
/// it (A-10.5).
#[test]
fn a_refusal_does_not_tell_what_exists() {
    let server = Server::start();
    let read = all().into_iter().find(|o| o.name == "Query Entity").unwrap();
    let elsewhere = table_token(&TableSas { table: "Nothing", ..table_sas() });
    let (_, forged) = tokens().remove(0);
    let forged = Credential::Token(with_byte(&forged, forged.len() - 8));
    for (credential, expected) in [
        (&elsewhere, Outcome::Forbidden("AuthorizationFailure")),
        (&forged, FAILED),
        (&Credential::None, FAILED),
    ] {
        for path in [
            "/Orders(PartitionKey='m',RowKey='5')",
            "/Orders(PartitionKey='m',RowKey='none')",
            "/Missing(PartitionKey='m',RowKey='5')",
        ] {
            let operation = Operation { path, ..read.clone() };
            let found = server.attempt(&operation, credential, expected);
            assert!(found.is_ok(), "{path}: {found:?}");
        }
    }
}
