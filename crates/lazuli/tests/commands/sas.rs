//! `lazuli sas`.

use crate::harness::Lazuli;
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::TableSas;
use lazuli_wire::shared_key::SigningKey;

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
    // Without a key nothing is said of the signature.
    let lazuli = lazuli.without_connection_string();
    let unknown = lazuli.run(&["sas", "explain", &forged]);
    assert_eq!(unknown.code, 0, "{unknown:?}");
    assert!(unknown.stdout.contains("not checked"), "{unknown:?}");
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
