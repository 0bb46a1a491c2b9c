//! HTTPS with the real binary: served and trusted; clients of plain HTTP get an explanation.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lazuli_testkit::held_store::HeldStore;
use lazuli_testkit::http::{Connection, Request, connect};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY, Server};
use lazuli_wire::shared_key::SigningKey;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

type TlsStream = StreamOwned<ClientConnection, TcpStream>;

fn start(data: &Path, arguments: &[&str]) -> Server {
    Server::start(Path::new(env!("CARGO_BIN_EXE_lazuli")), data, arguments).unwrap()
}

fn certificate(data: &Path) -> PathBuf {
    data.join("tls/certificate.pem")
}

/// Performs a handshake with a server called `name`, trusting only the certificate in `file`.
fn handshake(server: &Server, name: &str, file: &Path) -> std::io::Result<TlsStream> {
    handshake_at(server.address(), name, file)
}

fn handshake_at(address: SocketAddr, name: &str, file: &Path) -> std::io::Result<TlsStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file).unwrap()).unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(client, connect(address)?);
    stream.conn.complete_io(&mut stream.sock)?;
    Ok(stream)
}

/// The answer on `stream` to a request without a body, until the server closes.
fn ask(stream: impl Read + Write, target: &str) -> String {
    ask_with(stream, target, "Accept: application/json\r\n")
}

fn ask_with(mut stream: impl Read + Write, target: &str, header: &str) -> String {
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{header}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn signed_requests_are_served_and_answers_say_https() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--tls"]);
    assert!(server.connection_string().contains("TableEndpoint=https://127.0.0.1:"));
    let stream = handshake(&server, "127.0.0.1", &certificate(data.path())).unwrap();
    let mut connection = Connection::over(stream, server.address().to_string()).unwrap();
    let created = Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#);
    let created = connection.send(&created).unwrap();
    let base = format!("https://{}/{ACCOUNT}/", server.address());
    assert_eq!(created.status, 201, "{}", created.text());
    assert_eq!(created.header("location"), Some(format!("{base}Tables('Orders')").as_str()));
    assert!(created.text().contains(&format!("\"odata.metadata\":\"{base}$metadata#")));
    let listed = connection.send(&Request::new("GET", "/Tables")).unwrap();
    assert_eq!(listed.status, 200, "the connection stays open");
}

#[test]
fn the_certificate_is_kept_and_covers_every_local_name() {
    let data = tempfile::tempdir().unwrap();
    let file = certificate(data.path());
    let server = start(data.path(), &["--tls", "--host-suffix", "table.example.org"]);
    let first = fs::read(&file).unwrap();
    for name in ["localhost", "127.0.0.1", "::1", "a.table.localhost", "a.table.example.org"] {
        handshake(&server, name, &file).unwrap();
    }
    assert!(handshake(&server, "example.org", &file).is_err());
    server.terminate().unwrap();
    let server = start(data.path(), &["--tls"]);
    assert_eq!(fs::read(&file).unwrap(), first);
    handshake(&server, "localhost", &file).unwrap();
}

#[test]
fn a_certificate_can_be_given_as_azurite_takes_it() {
    let made = tempfile::tempdir().unwrap();
    start(made.path(), &["--tls"]).terminate().unwrap();
    let (file, key) = (certificate(made.path()), made.path().join("tls/key.pem"));
    let given = ["--cert", file.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &given);
    handshake(&server, "localhost", &file).unwrap();
    assert!(!certificate(data.path()).exists());
}

#[test]
fn plain_http_is_answered_with_a_hint() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--tls"]);
    let answer = ask(connect(server.address()).unwrap(), "/");
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
    let sentence = format!("This port speaks HTTPS; use https://{}\n", server.address());
    assert!(answer.ends_with(&sentence), "{answer}");
}

#[test]
fn tls_to_a_plain_port_is_logged() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), &["--tls"]).terminate().unwrap();
    let server = start(data.path(), &[]);
    assert!(handshake(&server, "localhost", &certificate(data.path())).is_err());
    server.wait_for_log("a client uses TLS on this plain HTTP port").unwrap();
}

#[test]
fn a_token_for_https_alone_opens_https_alone() {
    let data = tempfile::tempdir().unwrap();
    let fields =
        [ACCOUNT, "l", "t", "c", "", "2099-01-01T00:00:00Z", "", "https", "2019-02-02", ""];
    let key = SigningKey::from_base64(ACCOUNT_KEY).unwrap();
    let signature = key.sign(&[fields.join("\n").as_bytes()]).to_string();
    let target = format!(
        "/{ACCOUNT}/Tables?sv=2019-02-02&ss=t&srt=c&sp=l&se=2099-01-01T00:00:00Z&spr=https&sig={}",
        utf8_percent_encode(&signature, NON_ALPHANUMERIC)
    );
    let server = start(data.path(), &["--tls"]);
    let stream = handshake(&server, "localhost", &certificate(data.path())).unwrap();
    let answer = ask(stream, &target);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    server.terminate().unwrap();
    let server = start(data.path(), &[]);
    let answer = ask(connect(server.address()).unwrap(), &target);
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
}

/// O-1.5: beyond loopback the admin listener speaks HTTPS with the service's certificate, and metrics
/// need a token.
#[test]
fn the_admin_listener_speaks_https_beyond_loopback() {
    let data = tempfile::tempdir().unwrap();
    let server = start(data.path(), &["--tls", "--admin", "0.0.0.0:0"]);
    let address = server.admin().unwrap();
    let ask = |target: &str, header: &str| {
        let stream = handshake_at(address, "127.0.0.1", &certificate(data.path())).unwrap();
        ask_with(stream, target, header)
    };
    for (target, body) in [("/healthz", "ok"), ("/readyz", r#"{"ready":true,"reasons":[]}"#)] {
        let answer = ask(target, "");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(body), "{answer}");
    }
    assert!(ask("/metrics", "").starts_with("HTTP/1.1 401 "));
    let token = fs::read_to_string(data.path().join("admin-token")).unwrap();
    let metrics = ask("/metrics", &format!("Authorization: Bearer {}\r\n", token.trim()));
    for listener in ["table", "queue", "admin"] {
        let expiry = "lazuli_tls_certificate_expiry_timestamp_seconds";
        let series = format!("{expiry}{{listener=\"{listener}\"}} ");
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
    // Plain HTTP gets none of it.
    let mut plain = connect(address).unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // It may be closed, or reset.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
}

/// O-2.1, O-2.2: a listener with HTTPS answers while the store opens too, with the certificate that
/// an earlier start kept.
#[test]
fn the_admin_listener_speaks_https_while_the_store_opens() {
    let data = tempfile::tempdir().unwrap();
    start(data.path(), &["--tls"]).terminate().unwrap();
    let held = HeldStore::hold(data.path()).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let admin = format!("0.0.0.0:{}", free.port());
    std::thread::scope(|scope| {
        let starting = scope.spawn(|| start(data.path(), &["--tls", "--admin", &admin]));
        let deadline = Instant::now() + Duration::from_secs(60);
        let stream = loop {
            match handshake_at(free, "127.0.0.1", &certificate(data.path())) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
        };
        let answer = ask_with(stream, "/healthz", "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        let ask = |target| {
            let stream = handshake_at(free, "127.0.0.1", &certificate(data.path())).unwrap();
            ask_with(stream, target, "")
        };
        let answer = ask("/readyz");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.contains(r#""code":"starting""#), "{answer}");
        assert!(ask("/metrics").starts_with("HTTP/1.1 401 "), "no token is known yet");
        held.release().unwrap();
        let server = starting.join().unwrap();
        assert!(ask("/readyz").starts_with("HTTP/1.1 200 "));
        assert_eq!(server.terminate().unwrap().code(), Some(0));
    });
}
