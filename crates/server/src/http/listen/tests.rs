use super::*;
use crate::auth::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use crate::http::shared::{FrontOptions, Shared};
use crate::http::tls::{Certificate, SelfSigned};
use crate::notes::book::Notes;
use crate::notes::credentials::string_to_sign;
use lazuli_model::{Clock, SystemClock};
use lazuli_wire::shared_key::{Authorization, Scheme, SigningKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

const REQUEST: &[u8] = b"GET /nobody/milk HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";

/// A server in this process, with or without TLS.
struct Server {
    address: SocketAddr,
    tls: Arc<Tls>,
    made: SelfSigned,
}

fn certificate(made: &SelfSigned) -> Certificate {
    Certificate::from_pem(made.certificate.as_bytes(), made.key.as_bytes()).unwrap()
}

fn generate() -> SelfSigned {
    SelfSigned::generate(&["127.0.0.1".to_owned()], SystemClock.now()).unwrap()
}

impl Server {
    async fn start(https: bool) -> Self {
        let made = generate();
        let tls = Arc::new(Tls::new(certificate(&made)));
        let options = ListenOptions { tls: https.then(|| tls.clone()), ..ListenOptions::default() };
        let accounts = Accounts::parse(&format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}")).unwrap();
        let accounts = Arc::new(Accounts::new(accounts).unwrap());
        let clock = Arc::new(SystemClock);
        let shared = Arc::new(Shared::new(accounts, clock, FrontOptions::default()));
        let front = Arc::new(Front::new(shared, Notes::new()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, front, options, std::future::pending()));
        Self { address, tls, made }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// The response to `bytes` until the server closes, whether or not it has read them.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        if let Err(error) = stream.read_to_end(&mut answer).await {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        }
        String::from_utf8(answer).unwrap()
    }

    /// The response to [`REQUEST`] over TLS, for a client that trusts only `trusted`.
    async fn exchange_tls(&self, trusted: &SelfSigned, protocols: &[&str]) -> io::Result<String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusted.certificate.as_bytes()).unwrap()).unwrap();
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let mut config = ClientConfig::builder_with_provider(provider.into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols =
            protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let name = ServerName::from(self.address.ip());
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, self.connect().await).await?;
        stream.write_all(REQUEST).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }
}

#[tokio::test]
async fn plain_http_is_served_without_tls() {
    let answer = Server::start(false).await.exchange(REQUEST).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn http_is_served_over_tls() {
    let server = Server::start(true).await;
    for protocols in [&[][..], &["http/1.1"], &["h2", "http/1.1"]] {
        let answer = server.exchange_tls(&server.made, protocols).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    }
}

#[tokio::test]
async fn only_http_1_1_is_spoken() {
    let server = Server::start(true).await;
    assert!(server.exchange_tls(&server.made, &["h2"]).await.is_err());
}

#[tokio::test]
async fn plain_http_to_a_tls_port_is_told_what_to_do() {
    let server = Server::start(true).await;
    let long = [REQUEST, &[b'x'; 100_000]].concat();
    for request in [REQUEST, b"G", &long] {
        let answer = server.exchange(request).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        let expect = format!("This port speaks HTTPS; use https://{}\n", server.address);
        assert_eq!(body, expect);
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
    }
}

#[tokio::test]
async fn tls_to_a_plain_port_is_closed() {
    let server = Server::start(false).await;
    assert_eq!(server.exchange(&[22, 3, 1]).await, "");
    assert!(server.exchange_tls(&server.made, &[]).await.is_err());
}

#[tokio::test]
async fn a_replaced_certificate_is_shown_to_the_next_client() {
    let server = Server::start(true).await;
    let other = generate();
    assert!(server.exchange_tls(&other, &[]).await.is_err());
    server.tls.replace(certificate(&other));
    assert!(server.exchange_tls(&other, &[]).await.is_ok());
    assert!(server.exchange_tls(&server.made, &[]).await.is_err());
}

/// The paused clock jumps ahead whenever every task waits, so these timeouts take no real time.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_go_on_is_let_go() {
    for https in [false, true] {
        assert_eq!(Server::start(https).await.exchange(b"").await, "");
    }
    // A record that announces more bytes than follow.
    assert_eq!(Server::start(true).await.exchange(&[22, 3, 1, 2, 0, 1]).await, "");
}

/// One header at a time, each within its time: the limit applies to the whole head.
#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_cut() {
    let mut stream = Server::start(false).await.connect().await;
    stream.write_all(b"GET /nobody/milk HTTP/1.1\r\n").await.unwrap();
    let mut sent = 0;
    while stream.write_all(b"x: y\r\n").await.is_ok() {
        tokio::time::sleep(Duration::from_secs(10)).await;
        sent += 1;
        assert!(sent < 20, "it goes on for ever");
    }
}

/// Nor may a body take forever, because it holds body memory; its client gets a response.
#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_cut() {
    let server = Server::start(false).await;
    let date = SystemClock.now().rfc1123();
    let path = format!("/{WELL_KNOWN_ACCOUNT}/milk");
    let key = SigningKey::from_base64(WELL_KNOWN_KEY).unwrap();
    let signature = key.sign(&[string_to_sign("PUT", &date, &path).as_bytes()]);
    let authorization = Authorization::header(Scheme::SharedKey, WELL_KNOWN_ACCOUNT, &signature);
    let mut stream = server.connect().await;
    let head = format!(
        "PUT {path} HTTP/1.1\r\nHost: localhost\r\nx-ms-version: 2019-02-02\r\nx-ms-date: {date}\r\n\
         Authorization: {authorization}\r\nContent-Length: 100000\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut reading, mut writing) = stream.into_split();
    let dribble = async {
        for _ in 0..20 {
            if writing.write_all(b" ").await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        panic!("it goes on for ever");
    };
    let mut answer = Vec::new();
    let (ended, ()) = tokio::join!(reading.read_to_end(&mut answer), dribble);
    let answer = String::from_utf8(answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 500 ") && answer.contains("OperationTimedOut"),
        "{answer} {ended:?}"
    );
}

#[tokio::test]
async fn listeners_share_a_bound_of_their_connections() {
    let bound = ConnectionBound::new(1);
    let [one, other] = [(); 2].map(|()| ConnectionSlots::new(10, Some(bound.clone())));
    let first = one.next().await;
    assert!(!first.refused && other.next().await.refused);
    drop(first);
    assert!(!other.next().await.refused);
}
