//! Notes and tables in one process.

use super::book::Notes;
use super::credentials::{string_to_sign, token_to_sign};
use crate::auth::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use crate::http::front::Front;
use crate::http::peer::Peer;
use crate::http::shared::{FrontOptions, Shared};
use crate::table::api::{TableApi, TableOptions};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use lazuli_engine::MemoryEngine;
use lazuli_model::{Clock, Timestamp};
use lazuli_table::TableService;
use lazuli_wire::sas::AccountSas;
use lazuli_wire::shared_key::{Scheme, SignedRequest, SigningKey};
use lazuli_wire::uri::percent_encode;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

const DATE: &str = "Thu, 09 Dec 2021 00:23:06 GMT";
const VERSION: &str = "2021-12-02";

struct StandingClock;

impl Clock for StandingClock {
    fn now(&self) -> Timestamp {
        Timestamp::parse_rfc1123(DATE).unwrap()
    }
}

/// Two services of one process.
struct Process {
    notes: Front<Notes>,
    tables: Front<TableApi>,
}

/// A response: status, body, and the headers of interest.
#[derive(Debug)]
struct Answer {
    status: u16,
    body: String,
    headers: http::HeaderMap,
}

impl Process {
    fn start(options: FrontOptions) -> Self {
        let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
        let accounts = Arc::new(Accounts::new(accounts).unwrap());
        let clock = Arc::new(StandingClock);
        let shared = Arc::new(Shared::new(accounts, clock.clone(), options));
        let tables = TableService::new(Arc::new(MemoryEngine::default()), clock);
        let tables = TableApi::new(&shared, tables, TableOptions::default());
        let tables = Front::new(shared.clone(), tables);
        Self { notes: Front::new(shared, Notes::new()), tables }
    }

    async fn note(&self, request: Request<Full<Bytes>>) -> Answer {
        read(self.notes.handle(request, peer()).await).await
    }

    async fn table(&self, request: Request<Full<Bytes>>) -> Answer {
        read(self.tables.handle(request, peer()).await).await
    }
}

fn peer() -> Peer {
    Peer::new(([127, 0, 0, 1], 1).into(), false)
}

async fn read(response: Response<impl Body<Data = Bytes, Error = Infallible>>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    Answer { status: parts.status.as_u16(), body, headers: parts.headers }
}

fn key() -> SigningKey {
    SigningKey::from_base64(WELL_KNOWN_KEY).unwrap()
}

fn request(method: &str, target: &str, body: &'static str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(target)
        .header("host", "127.0.0.1")
        .header("x-ms-version", VERSION)
        .header("content-length", body.len())
}

/// A request that signs as notes do.
fn signed(method: &str, path: &str, body: &'static str) -> Request<Full<Bytes>> {
    let path = format!("/{WELL_KNOWN_ACCOUNT}{path}");
    let signature = key().sign(&[string_to_sign(method, DATE, &path).as_bytes()]);
    request(method, &path, body)
        .header("x-ms-date", DATE)
        .header("authorization", format!("SharedKey {WELL_KNOWN_ACCOUNT}:{signature}"))
        .body(body.into())
        .unwrap()
}

/// A request that signs as tables do.
fn signed_for_tables(method: &str, path: &str, body: &'static str) -> Request<Full<Bytes>> {
    let path = format!("/{WELL_KNOWN_ACCOUNT}{path}");
    let to_sign = SignedRequest {
        method,
        content_md5: "",
        content_type: "application/json",
        date: DATE,
        account: WELL_KNOWN_ACCOUNT,
        path: &path,
        comp: None,
    };
    let signature = to_sign.sign(Scheme::SharedKey, &key());
    request(method, &path, body)
        .header("x-ms-date", DATE)
        .header("accept", "application/json")
        .header("content-type", "application/json")
        .header("authorization", format!("SharedKey {WELL_KNOWN_ACCOUNT}:{signature}"))
        .body(body.into())
        .unwrap()
}

fn with_token(method: &str, name: &str, token: &str) -> Request<Full<Bytes>> {
    let target = format!("/{WELL_KNOWN_ACCOUNT}/{name}?{token}");
    request(method, &target, "").header("accept", "application/json").body(Full::default()).unwrap()
}

fn note_token(note: &str, letters: &str, policy: &str) -> String {
    let signature = key().sign(&[token_to_sign(note, letters, policy).as_bytes()]).to_string();
    let mut sig = Vec::new();
    percent_encode(&mut sig, &signature);
    format!("nn={note}&sp={letters}&si={policy}&sig={}", String::from_utf8(sig).unwrap())
}

fn account_token(services: &str) -> String {
    let sas = AccountSas {
        version: VERSION,
        services,
        resource_types: "sco",
        permissions: "rwl",
        expiry: "2030-01-01",
        ..AccountSas::default()
    };
    sas.token(WELL_KNOWN_ACCOUNT, &key()).unwrap()
}

#[tokio::test]
async fn a_service_routes_and_signs_in_its_own_way() {
    let process = Process::start(FrontOptions::default());
    assert_eq!(process.note(signed("PUT", "/milk", "two litres")).await.status, 201);
    let answer = process.note(signed("GET", "/milk", "")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "two litres"));
    assert_eq!(answer.headers["server"], "Notes/1.0");
    // A signature for one service is invalid for the other.
    assert_eq!(process.note(signed_for_tables("GET", "/milk", "")).await.status, 403);
    assert_eq!(process.table(signed("GET", "/Tables", "")).await.status, 403);
    assert_eq!(process.table(signed_for_tables("GET", "/Tables", "")).await.status, 200);
}

#[tokio::test]
async fn errors_have_the_form_of_their_service() {
    let process = Process::start(FrontOptions::default());
    let note = process.note(signed("GET", "/none", "")).await;
    assert_eq!(note.body, "<Error><Code>ResourceNotFound</Code></Error>");
    assert_eq!(process.note(signed("DELETE", "/none", "")).await.status, 405);
    let table = process.table(signed_for_tables("GET", "/Tables('none')", "")).await;
    assert!(table.body.starts_with(r#"{"odata.error":{"code":"ResourceNotFound""#), "{table:?}");
    let stranger = request("GET", "/devstoreaccount1/milk", "").body(Full::default()).unwrap();
    let stranger = process.note(stranger).await;
    assert_eq!(stranger.status, 401);
    assert!(stranger.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer "));
}

#[tokio::test]
async fn rows_decide_on_version_body_and_location() {
    let process = Process::start(FrontOptions::default());
    let mut old = signed("PUT", "/milk", "");
    old.headers_mut().insert("x-ms-version", "2012-02-12".parse().unwrap());
    assert_eq!(process.note(old).await.status, 400);
    let mut endless = signed("PUT", "/milk", "");
    endless.headers_mut().remove("content-length");
    assert_eq!(process.note(endless).await.status, 411);
    let secondary = format!("/{WELL_KNOWN_ACCOUNT}-secondary/milk");
    let signature = key().sign(&[string_to_sign("PUT", DATE, &secondary).as_bytes()]);
    let secondary = request("PUT", &secondary, "")
        .header("x-ms-date", DATE)
        .header("authorization", format!("SharedKey {WELL_KNOWN_ACCOUNT}:{signature}"))
        .body(Full::default())
        .unwrap();
    assert!(process.note(secondary).await.body.contains("InsufficientAccountPermissions"));
}

#[tokio::test]
async fn a_token_of_a_service_opens_what_its_letters_say() {
    let process = Process::start(FrontOptions::default());
    process.note(signed("PUT", "/milk", "two litres")).await;
    let status = async |method, name, token: &str| {
        process.note(with_token(method, name, token)).await.status
    };
    assert_eq!(status("GET", "milk", &note_token("milk", "r", "")).await, 200);
    assert_eq!(status("PUT", "milk", &note_token("milk", "r", "")).await, 403);
    assert_eq!(status("PUT", "milk", &note_token("milk", "rw", "")).await, 201);
    assert_eq!(status("GET", "eggs", &note_token("milk", "r", "")).await, 403);
    assert_eq!(status("GET", "?comp=list", &note_token("milk", "r", "")).await, 403);
    assert_eq!(
        status("GET", "milk", &note_token("milk", "r", "").replace("=r&", "=rw&")).await,
        403
    );
    // Its stored policies are its own too.
    assert_eq!(status("GET", "milk", &note_token("milk", "", "readers")).await, 200);
    assert_eq!(status("PUT", "milk", &note_token("milk", "", "readers")).await, 403);
    assert_eq!(status("GET", "milk", &note_token("milk", "", "nobody")).await, 403);
}

#[tokio::test]
async fn a_token_for_the_account_opens_the_services_it_names() {
    let process = Process::start(FrontOptions::default());
    process.note(signed("PUT", "/milk", "two litres")).await;
    for (services, note, table) in [("n", 200, 403), ("t", 403, 200), ("tn", 200, 200)] {
        let token = account_token(services);
        let got = process.note(with_token("GET", "milk", &token)).await;
        assert_eq!(got.status, note, "{services}: {got:?}");
        let got = process.table(with_token("GET", "Tables", &token)).await;
        assert_eq!(got.status, table, "{services}: {got:?}");
    }
}

#[tokio::test]
async fn cors_follows_the_properties_of_the_service() {
    let process = Process::start(FrontOptions::default());
    let preflight = || {
        request("OPTIONS", "/devstoreaccount1/milk", "")
            .header("origin", "http://notes.test")
            .header("access-control-request-method", "GET")
            .body(Full::default())
            .unwrap()
    };
    assert_eq!(process.note(preflight()).await.status, 200);
    assert_eq!(process.table(preflight()).await.status, 403);
}

#[tokio::test]
async fn hosts_and_ids_are_told_apart() {
    let process = Process::start(FrontOptions::default());
    let signature = key().sign(&[string_to_sign("PUT", DATE, "/milk").as_bytes()]);
    let put = || {
        let mut put =
            request("PUT", "/milk", "").header("x-ms-date", DATE).body(Full::default()).unwrap();
        let host = format!("{WELL_KNOWN_ACCOUNT}.note.localhost").parse().unwrap();
        put.headers_mut().insert("host", host);
        let authorization = format!("SharedKey {WELL_KNOWN_ACCOUNT}:{signature}");
        put.headers_mut().insert("authorization", authorization.parse().unwrap());
        put
    };
    let note = process.note(put()).await;
    let table = process.table(put()).await;
    assert_eq!((note.status, table.status), (201, 404));
    assert_ne!(note.headers["x-ms-request-id"], table.headers["x-ms-request-id"]);
}

/// A body that is announced but never sent.
struct Stalled;

impl Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(1024 * 1024)
    }
}

/// Memory that one service holds is not available to another.
#[tokio::test(start_paused = true)]
async fn all_services_share_one_budget_for_bodies() {
    let memory_wait_max = Duration::from_secs(1);
    let options =
        FrontOptions { body_bytes_max: 1024 * 1024, memory_wait_max, ..FrontOptions::default() };
    let process = Process::start(options);
    let create = || signed_for_tables("POST", "/Tables", r#"{"TableName":"Orders"}"#);
    let holding = signed("PUT", "/milk", "").map(|_| Stalled);
    let refused = {
        let holding = std::pin::pin!(process.notes.handle(holding, peer()));
        tokio::select! {
            biased;
            _ = holding => panic!("its body never ends"),
            answer = process.table(create()) => answer,
        }
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(process.table(create()).await.status, 201);
}
