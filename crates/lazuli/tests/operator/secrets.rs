//! No line of the log, no metric and no status dump contains secrets or contents (O-4.4).

use crate::harness::{Logged, account_token, ask, ask_queue, element, held_message, message};
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::http::{BATCH_CONTENT_TYPE, Operation, batch_body};
use lazuli_testkit::issuer::{ISSUER, TestIssuer, claims};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::sas::TableSas;
use lazuli_wire::shared_key::{Authorization, Scheme, SignedRequest, SigningKey};
use std::fs;
use std::net::SocketAddr;

/// What is stored in entities and messages.
const VALUE: &str = "ValueThatNobodyLogs";
const TEXT: &str = "TextThatNobodyLogs";
/// A wrong signature, and an invalid bearer token.
const WRONG: &str = "d3JvbmdzaWduYXR1cmV3cm9uZ3NpZ25hdHVyZTEyMzQ=";
const NO_TOKEN: &str = "bm90YXRva2Vu.bm90YXRva2Vu.bm90YXRva2Vu";

/// Sends requests to the Table service, and remembers every secret in them.
struct Sender {
    table: SocketAddr,
    date: String,
    secrets: Vec<String>,
}

impl Sender {
    fn send(&mut self, request: (&str, &str), headers: &[(&str, &str)], body: &str) -> String {
        let version = ("x-ms-version", "2020-12-06");
        let headers = [&[version, ("x-ms-date", self.date.as_str())], headers].concat();
        ask(self.table, request, &headers, body).1
    }

    /// A request with an account key, by either scheme.
    fn signed(
        &mut self,
        scheme: Scheme,
        (method, target): (&str, &str),
        content_type: &str,
        body: &str,
    ) -> String {
        let path = format!("/{ACCOUNT}{}", target.split('?').next().unwrap());
        let signed = SignedRequest {
            method,
            content_md5: "",
            content_type,
            date: &self.date,
            account: ACCOUNT,
            path: &path,
            comp: None,
        };
        let signature = signed.sign(scheme, &SigningKey::from_base64(ACCOUNT_KEY).unwrap());
        self.secrets.push(signature.to_string());
        let header = Authorization::header(scheme, ACCOUNT, &signature);
        let headers = [
            ("Authorization", header.as_str()),
            ("Content-Type", content_type),
            ("Accept", "application/json"),
        ];
        self.send((method, target), &headers, body)
    }

    /// A request with a token in its URL.
    fn with_token(&mut self, method: &str, path: &str, token: &str) -> String {
        let (_, signature) = token.split_once("sig=").unwrap();
        self.secrets.push(signature.split('&').next().unwrap().to_owned());
        self.send((method, &format!("{path}?{token}")), &[("Accept", "application/json")], "")
    }

    fn with_header(&mut self, authorization: &str, path: &str) -> String {
        let (_, secret) = authorization.split_once([' ', ':']).unwrap();
        self.secrets.push(secret.to_owned());
        let headers = [("Authorization", authorization), ("Accept", "application/json")];
        self.send(("GET", path), &headers, "")
    }
}

#[track_caller]
fn expect(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

/// Requests with account keys, tokens and bearer tokens, good and wrong, alone and in a batch.
fn send_to_tables(sender: &mut Sender, issuer: &TestIssuer) {
    const JSON: &str = "application/json";
    let entity = format!(r#"{{"PartitionKey":"p","RowKey":"1","V":"{VALUE}"}}"#);
    let point = "/Orders(PartitionKey='p',RowKey='1')";
    let create = r#"{"TableName":"Orders"}"#;
    expect(&sender.signed(Scheme::SharedKey, ("POST", "/Tables"), JSON, create), 201);
    expect(&sender.signed(Scheme::SharedKeyLite, ("POST", "/Orders"), JSON, &entity), 201);
    expect(&sender.signed(Scheme::SharedKey, ("POST", "/Orders"), JSON, &entity), 409);
    let malformed = format!(r#"{{"PartitionKey":"p","RowKey":"2","V":"{VALUE}""#);
    expect(&sender.signed(Scheme::SharedKey, ("POST", "/Orders"), JSON, &malformed), 400);
    let got = sender.signed(Scheme::SharedKeyLite, ("GET", point), "", "");
    assert!(got.contains(VALUE), "{got}");
    let step = |row: &str| Operation {
        method: "POST",
        path: "/Orders".to_owned(),
        headers: Vec::new(),
        body: format!(r#"{{"PartitionKey":"p","RowKey":"{row}","V":"{VALUE}"}}"#),
    };
    for (steps, status) in [([step("3"), step("4")], "201"), ([step("5"), step("1")], "409")] {
        let body = batch_body(&sender.table.to_string(), &format!("/{ACCOUNT}"), &steps);
        let request = ("POST", "/$batch");
        let answer = sender.signed(Scheme::SharedKey, request, BATCH_CONTENT_TYPE, &body);
        assert!(answer.contains(&format!("HTTP/1.1 {status} ")), "{answer}");
    }

    let sas = TableSas {
        version: "2019-02-02",
        table: "Orders",
        permissions: "r",
        expiry: "2099-01-01T00:00:00Z",
        ..TableSas::default()
    };
    let token = sas.token(ACCOUNT, &SigningKey::from_base64(ACCOUNT_KEY).unwrap()).unwrap();
    expect(&sender.with_token("GET", point, &token), 200);
    expect(&sender.with_token("DELETE", point, &token), 403);
    let account = account_token();
    expect(&sender.with_token("GET", point, &account), 200);
    // The signature of a token with other terms.
    expect(&sender.with_token("GET", point, &account.replace("sp=rwdlacup", "sp=r")), 403);
    let wrong = format!("sv=2019-02-02&si=readers&tn=Orders&sig={WRONG}");
    expect(&sender.with_token("GET", "/Orders()", &wrong), 403);
    expect(&sender.with_token("GET", "/Orders()", &wrong.replace("sig=", "%73ig=x&sig=")), 403);

    expect(&sender.with_header(&format!("SharedKey {ACCOUNT}:{WRONG}"), point), 403);
    expect(&sender.with_header(&format!("SharedKeyLite other:{WRONG}"), point), 403);
    expect(&sender.with_header(&format!("Basic {WRONG}"), point), 400);
    let bearer = issuer.token(&claims(SystemClock.now().unix_seconds(), &[]));
    expect(&sender.with_header(&format!("Bearer {bearer}"), point), 200);
    expect(&sender.with_header(&format!("Bearer {bearer}x"), point), 401);
    expect(&sender.with_header(&format!("Bearer {NO_TOKEN}"), point), 401);
}

/// Messages that are put, peeked, received, changed and deleted, and a request that is refused.
fn send_to_queues(logged: &Logged, token: &str) {
    let send = |method: &str, target: &str, body: &str, status: u16| {
        let (got, answer) = ask_queue(&logged.server, (method, target), token, body);
        assert_eq!(got, status, "{answer}");
        answer
    };
    send("PUT", "/orders", "", 201);
    send("POST", "/orders/messages", &message(TEXT), 201);
    send("POST", "/orders/messages", &format!("<QueueMessage><MessageText>{TEXT}"), 400);
    send("GET", "/orders/messages?peekonly=true", "", 200);
    let got = send("GET", "/orders/messages", "", 200);
    assert_eq!(element(&got, "MessageText"), TEXT);
    let held = format!("{}&visibilitytimeout=0", held_message(&got));
    send("PUT", &held, &message(TEXT), 204);
    let got = send("GET", "/orders/messages", "", 200);
    send("DELETE", &held_message(&got), "", 204);
    let wrong = format!("sv=2019-02-02&sp=r&se=2099-01-01T00:00:00Z&sig={WRONG}");
    let (status, answer) = ask_queue(&logged.server, ("GET", "/orders/messages"), &wrong, "");
    assert_eq!(status, 403, "{answer}");
}

#[test]
fn secrets_and_contents_appear_nowhere() {
    let data = tempfile::tempdir().unwrap();
    let issuer = TestIssuer::new("key");
    let jwks = data.path().join("jwks.json");
    fs::write(&jwks, issuer.jwks()).unwrap();
    let store = data.path().join("data");
    let admin = ["--admin", "0.0.0.0:0", "--admin-insecure"];
    let bearer = ["--oidc-issuer", ISSUER, "--oidc-jwks", jwks.to_str().unwrap()];
    let log = ["--bearer-over-http", "--access-log", "all", "--log-query", "--log", "trace"];
    let logged = Logged::start(&store, &[&admin[..], &bearer, &log].concat());
    let server = &logged.server;
    let (table, date) = (server.address(), SystemClock.now().rfc1123());
    let mut sender = Sender { table, date, secrets: Vec::new() };
    send_to_tables(&mut sender, &issuer);
    let token = account_token();
    send_to_queues(&logged, &token);

    let admin_token = fs::read_to_string(store.join("admin-token")).unwrap().trim().to_owned();
    let (status, metrics) = server.ask_admin_with("/metrics", &admin_token).unwrap();
    assert_eq!(status, 200, "{metrics}");
    assert_eq!(server.ask_admin_with("/metrics", NO_TOKEN).unwrap().0, 401);
    server.signal("USR1").unwrap();
    logged.wait_for(&[r#""msg":"status""#, "lazuli_messages.put=1"]);
    // The last request of each kind is in the log, and its signature is masked.
    logged.wait_for(&[r#""msg":"request""#, r#""service":"queue""#, "sig=***", r#""status":403"#]);
    logged.wait_for(&[r#""msg":"request""#, "si=readers", "sig=***"]);
    logged.wait_for(&[r#""msg":"credential refused""#, "The bearer token is refused"]);

    let everything = [logged.log(), metrics].concat();
    let decoded = |text: &str| text.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    let secrets = sender.secrets.iter().flat_map(|secret| [secret.clone(), decoded(secret)]);
    let key = ACCOUNT_KEY.get(..20).unwrap().to_owned();
    let fixed = [VALUE, TEXT, WRONG, NO_TOKEN].map(str::to_owned);
    for secret in secrets.chain(fixed).chain([key, admin_token]) {
        let line = everything.lines().find(|line| line.contains(&secret));
        assert!(line.is_none(), "{secret} appears: {line:?}");
    }
}
