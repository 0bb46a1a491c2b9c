//! `lazuli sas`.

use crate::harness::Lazuli;
use lazuli_client::{
    AccessToken, Account, BoxError, BoxFuture, Credential, Permissions, Secret, Timestamp,
    TokenCredential,
};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::issuer::{ISSUER, TestIssuer, claims};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::TableSas;
use lazuli_wire::shared_key::SigningKey;
use std::future::IntoFuture;
use std::time::Duration;

pub(crate) fn token(permissions: &str, expiry: &str) -> String {
    let key = SigningKey::from_base64(ACCOUNT_KEY).unwrap();
    let version = "2019-02-02";
    let sas = TableSas { version, table: "People", permissions, expiry, ..TableSas::default() };
    sas.token(ACCOUNT, &key).unwrap()
}

#[test]
fn a_token_is_explained() {
    let lazuli = Lazuli::start();
    let good = token("rd", "2099-01-01T00:00:00Z");
    let done = lazuli.run(&["sas", "explain", &good]);
    let expect = "\
for        a table
resource   People
permits    read, delete
until      2099-01-01T00:00:00Z
version    2019-02-02
signature  made by the account's key
valid      yes
";
    assert_eq!((done.code, &*done.stdout), (0, expect), "{done:?}");
    let url = format!("http://{}/{ACCOUNT}?{good}\n", lazuli.server.address());
    let json = lazuli.run_with(&["sas", "explain", "-", "--json"], &url);
    assert!(json.stdout.contains("\"signature\":\"valid\",\"valid\":\"yes\""), "{json:?}");
}

#[test]
fn a_token_that_is_not_valid_is_exit_4() {
    let lazuli = Lazuli::start();
    let late = lazuli.run(&["sas", "explain", &token("r", "2020-01-01T00:00:00Z")]);
    assert_eq!(late.code, 4);
    assert!(late.stdout.contains("no: the token expired at 2020-01-01"), "{late:?}");
    let forged = token("r", "2099-01-01T00:00:00Z").replace("sp=r", "sp=raud");
    assert_eq!(lazuli.run(&["sas", "explain", &forged]).code, 4);
    lazuli.fails("sas explain sv=1", 2, &["has no parameter `sig`"]);
    // Without a key nothing is said about the signature.
    let lazuli = lazuli.without_connection_string();
    let unknown = lazuli.run(&["sas", "explain", &forged]);
    assert_eq!(unknown.code, 0, "{unknown:?}");
    assert!(unknown.stdout.contains("not checked"), "{unknown:?}");
}

#[test]
fn a_token_that_is_of_no_use_is_told_of() {
    let lazuli = Lazuli::start();
    let over = lazuli.line("sas table People --permissions r --expiry 2020-01-01");
    assert!(over.code == 0 && over.stderr.contains("warning: the token has ended"), "{over:?}");
    // It once made a token without an end, which no service takes.
    let late = "sas table People --permissions r --expiry 4294967295d";
    lazuli.fails(late, 2, &["after the year 9999"]);
    let nobody = "sas table People --permissions r --expiry 1h --as-user";
    lazuli.fails(nobody, 1, &["gives no key to sign with", "hint: --as-user needs --token"]);
}

#[test]
fn a_token_opens_what_it_says_and_no_more() {
    let lazuli = Lazuli::with_people();
    let endpoint = format!("http://{}/{ACCOUNT}", lazuli.server.address());
    let token = token("r", "2099-01-01T00:00:00Z");
    let by_sas = ["--endpoint", &endpoint, "--sas", &token];
    let get = [&["entities", "get", "People", "Marketing", "00001"][..], &by_sas].concat();
    assert_eq!(lazuli.run(&get).code, 0);
    let delete = [&["entities", "delete", "People", "Marketing", "00001"][..], &by_sas].concat();
    lazuli.run(&delete).failed(4, &[]);
    lazuli.run(&[&["tables", "list"][..], &by_sas].concat()).failed(4, &[]);
}

#[test]
fn tokens_are_made_and_work() {
    let lazuli = Lazuli::with_people();
    let endpoint = format!("http://{}/{ACCOUNT}", lazuli.server.address());
    let token = lazuli.ok("sas table People --permissions r --expiry 1h --partition Marketing");
    let by_sas = ["--endpoint", &endpoint, "--sas", token.trim()];
    let get = |partition, row| {
        let get = ["entities", "get", "People", partition, row];
        lazuli.run(&[&get[..], &by_sas].concat()).code
    };
    assert_eq!((get("Marketing", "00001"), get("Sales", "00010")), (0, 4));
    let explained = lazuli.run(&["sas", "explain", token.trim()]);
    assert!(explained.stdout.ends_with("valid      yes\n"), "{explained:?}");
    let range = lazuli.ok("sas table People --permissions r --expiry 1h --start-partition A --end-partition B --start-row 1 --end-row 2 --ip 127.0.0.1 --https-only --json");
    assert!(range.contains("spk=A&srk=1&epk=B&erk=2"), "{range}");
    assert!(range.contains(&format!("\"url\":\"{endpoint}/People?sv=")), "{range}");

    let account =
        lazuli.ok("sas account --services tq --resource-types sco --permissions rl --expiry 1h");
    let list = ["tables", "list", "--endpoint", &endpoint, "--sas", account.trim()];
    assert_eq!(lazuli.run(&list).stdout, "TABLE\nPeople\n");

    lazuli.ok("queues create jobs");
    let queue = lazuli.ok("sas queue jobs --permissions a --expiry 1h --json");
    let url = crate::harness::member(&queue, "url");
    let (address, token) = url.split_once('?').unwrap();
    let root = address.strip_suffix("/jobs").unwrap();
    let send = ["queues", "send", "jobs", "x", "--endpoint", root, "--sas", token];
    assert_eq!(lazuli.run(&send).code, 0);
    let peek = ["queues", "peek", "jobs", "--endpoint", root, "--sas", token];
    lazuli.run(&peek).failed(4, &[]);
}

#[test]
fn a_user_signs_with_a_key_that_the_service_gives() {
    // A-7.1: the server issues keys to holders of bearer tokens.
    let issuer = TestIssuer::new("k1");
    let files = tempfile::tempdir().unwrap();
    let keys = files.path().join("keys.json");
    std::fs::write(&keys, issuer.jwks()).unwrap();
    let options = ["--oidc-issuer", ISSUER, "--oidc-jwks", keys.to_str().unwrap()];
    let more = ["--bearer-over-http", "--user-delegation"];
    let lazuli = Lazuli::start_with(&[&options[..], &more].concat());
    lazuli.ok("tables create People");
    let put = lazuli.run_with(&["entities", "put", "People", "-"], crate::harness::PEOPLE);
    assert_eq!(put.code, 0, "{put:?}");
    let bearer = issuer.token(&claims(SystemClock.now().unix_seconds(), &[]));
    let endpoint = format!("http://{}/{ACCOUNT}", lazuli.server.address());
    let by_token = ["--endpoint", &endpoint, "--account", ACCOUNT, "--token", &bearer];
    // The command sends no token without TLS; a program can allow that.
    let make = "sas table People --permissions r --expiry 1h --as-user";
    let make: Vec<&str> = make.split(' ').chain(by_token).collect();
    lazuli.run(&make).failed(2, &["without TLS"]);
    let account = Account::builder(&endpoint)
        .credential(Credential::token(Bearer(Secret::new(bearer))))
        .allow_token_over_http()
        .build()
        .unwrap();
    let hour = Duration::from_secs(3600);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tables = account.tables();
    let key = runtime.block_on(tables.user_delegation_key(hour).into_future()).unwrap();
    let token = tables.table("People").unwrap().sas(Permissions::READ | Permissions::DELETE);
    let token = token.expires_in(hour).partition("Marketing").delegated_by(&key).build().unwrap();
    let token = token.as_str();
    let explained = lazuli.run(&["sas", "explain", token]);
    assert!(explained.stdout.contains("made by a user's key"), "{explained:?}");
    let by_sas = ["--endpoint", &endpoint, "--sas", token];
    let get = |partition, row| {
        let get = ["entities", "get", "People", partition, row];
        lazuli.run(&[&get[..], &by_sas].concat()).code
    };
    assert_eq!((get("Marketing", "00001"), get("Sales", "00010")), (0, 4));
    // The user may read only, whatever the letters say.
    let delete = ["entities", "delete", "People", "Marketing", "00001"];
    lazuli.run(&[&delete[..], &by_sas].concat()).failed(4, &[]);
}

#[derive(Debug)]
struct Bearer(Secret);

impl TokenCredential for Bearer {
    fn token<'a>(&'a self, _scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        let token = AccessToken { secret: self.0.clone(), expires: Timestamp::MAX };
        Box::pin(std::future::ready(Ok(token)))
    }
}

#[test]
fn a_token_that_makes_no_sense_is_not_made() {
    let lazuli = Lazuli::start();
    for line in [
        "sas table People --expiry 1h",
        "sas table People --permissions r",
        "sas table People --permissions rx --expiry 1h",
        "sas table People --permissions r --expiry yesterday",
        "sas table People --permissions r --expiry 1h --start 2h",
        "sas table People --permissions r --expiry 1h --start-row a --end-row b",
        "sas account --permissions r",
        "sas account --permissions r --expiry 1h --services x",
        "sas queue jobs --permissions r",
        "sas queue jobs --permissions d --expiry 1h",
        "sas queue jobs --as-user --permissions r",
        "sas queue jobs --as-user --policy p",
        "sas blob pics --permissions r",
        "sas blob pics a.txt --permissions l --expiry 1h",
        "sas table People --permissions r --expiry 1h --ip nowhere",
    ] {
        let done = lazuli.line(line);
        assert_eq!((done.code, &*done.stdout), (2, ""), "{line}: {done:?}");
    }
    let without_key = "sas table People --permissions r --expiry 1h --account a --sas sig=a";
    lazuli.fails(without_key, 2, &["hint: connect with the name and the key of the account"]);
}

#[test]
fn a_policy_completes_a_token_until_it_is_removed() {
    let lazuli = Lazuli::with_people();
    let endpoint = format!("http://{}/{ACCOUNT}", lazuli.server.address());
    assert_eq!(lazuli.ok("tables acl list People"), "POLICY  PERMITS  FROM  UNTIL\n");
    let json =
        lazuli.ok("tables acl set People readers --permissions r --expiry 2099-01-01 --json");
    let expect = "{\"table\":\"People\",\"policies\":[{\"id\":\"readers\",\"start\":null,\
                  \"expiry\":\"2099-01-01T00:00:00Z\",\"permissions\":\"r\"}]}\n";
    assert_eq!(json, expect);
    assert_eq!(lazuli.ok("tables acl list People --json"), expect);
    let token = lazuli.ok("sas table People --policy readers");
    let get = ["entities", "get", "People", "Marketing", "00001"];
    let get = [&get[..], &["--endpoint", &endpoint, "--sas", token.trim()]].concat();
    assert_eq!(lazuli.run(&get).code, 0);
    lazuli.ok("tables acl remove People readers");
    lazuli.run(&get).failed(4, &[]);
    lazuli.fails("tables acl remove People readers", 3, &["has no policy readers"]);
    lazuli.fails("tables acl list Nothing", 3, &["TableNotFound"]);
    lazuli.fails("tables acl set People x --permissions z", 2, &["raud"]);
}
