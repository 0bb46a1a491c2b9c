//! TLS to the driver and the stores: each is behind a proxy that speaks it, with certificates made here
//! (K-6.13).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::options;
use lazuli_engine::{Commit, Engine, Key, Revision, Write};
use lazuli_engine_tikv::{TikvEngine, TikvOptions};
use lazuli_testkit::engine_suite::run;
use lazuli_testkit::stores::tikv::StandIn;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A client that is not trusted keeps trying until this time is up.
const WAIT_MS: u64 = 300;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "the authority");
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key for `name`, as PEM.
fn signed(by: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

/// A server's side of TLS for `name`. It asks clients for a certificate of its authority, or for none.
fn server_side(authority: &Authority, name: &str, asks_clients: bool) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = if asks_clients {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        config.with_client_cert_verifier(verifier.build().unwrap())
    } else {
        config.with_no_client_auth()
    };
    let (certificate, key) = signed(authority, name);
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let mut config = config.with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// A port that speaks TLS and forwards to `target`, as long as the runtime lives.
async fn proxy(acceptor: &TlsAcceptor, target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, acceptor) = (listener.local_addr().unwrap(), acceptor.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await.ok()?;
                let mut target = TcpStream::connect(target).await.ok()?;
                copy_bidirectional(&mut stream, &mut target).await.ok()
            });
        }
    });
    address
}

/// A cluster that speaks TLS, and files for its clients.
struct Cluster {
    stand_in: StandIn,
    driver: SocketAddr,
    files: tempfile::TempDir,
}

impl Cluster {
    async fn start(name: &str, asks_clients: bool) -> Self {
        let mut stand_in = StandIn::start();
        let ours = authority();
        let acceptor = server_side(&ours, name, asks_clients);
        let [one, two, three] = stand_in.stores();
        let stores = [
            proxy(&acceptor, one).await,
            proxy(&acceptor, two).await,
            proxy(&acceptor, three).await,
        ];
        let driver = proxy(&acceptor, stand_in.open_door(stores)).await;
        let cluster = Self { stand_in, driver, files: tempfile::tempdir().unwrap() };
        let (other, stranger) = (authority(), authority());
        for (file, authority) in [("ours", &ours), ("other", &other)] {
            cluster.write(&format!("{file}.pem"), &authority.pem());
        }
        for (file, authority) in [("client", &ours), ("stranger", &stranger)] {
            let (certificate, key) = signed(authority, "lazuli");
            cluster.write(&format!("{file}.pem"), &certificate);
            cluster.write(&format!("{file}.key"), &key);
        }
        cluster
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.files.path().join(name), content).unwrap();
    }

    /// Writes and reads with these files; the error says why that failed within `wait_ms_max`.
    async fn use_within(
        &self,
        wait_ms_max: u64,
        authority: &str,
        identity: Option<&str>,
    ) -> Result<(), String> {
        let dir = self.files.path().display();
        let mut address = format!("tikv://{}?ca={dir}/{authority}.pem", self.driver);
        if let Some(identity) = identity {
            address += &format!("&cert={dir}/{identity}.pem&key={dir}/{identity}.key");
        }
        let address = address.parse().unwrap();
        let options = TikvOptions { address, wait_ms_max, ..options(&self.stand_in) };
        let engine = TikvEngine::new(&options).map_err(|error| error.to_string())?;
        let keys = [Key::from(b"Lkey".to_vec())];
        let put = Write::Put(keys[0].clone(), "v".into());
        let done = engine.commit(Commit::new(Revision(0), vec![put])).await;
        done.map_err(|error| error.to_string())?;
        assert_eq!(engine.read(&keys).await.unwrap().iter().flatten().count(), 1);
        Ok(())
    }

    async fn use_with(&self, authority: &str, identity: Option<&str>) {
        self.use_within(options(&self.stand_in).wait_ms_max, authority, identity).await.unwrap();
    }

    /// Why these files are refused, once the time is up.
    async fn refusal(&self, authority: &str, identity: Option<&str>) -> String {
        self.use_within(WAIT_MS, authority, identity).await.unwrap_err()
    }
}

#[test]
fn cluster_is_reached_under_a_certificate_of_the_authority() {
    run(async {
        let cluster = Cluster::start("127.0.0.1", false).await;
        cluster.use_with("ours", None).await;
        let refused = cluster.refusal("other", None).await;
        assert!(refused.contains("invalid peer certificate"), "{refused}");
    });
}

#[test]
fn certificate_for_another_name_is_refused() {
    run(async {
        let cluster = Cluster::start("pd.example.org", false).await;
        let refused = cluster.refusal("ours", None).await;
        assert!(refused.contains("not valid for name"), "{refused}");
    });
}

#[test]
fn cluster_that_asks_for_certificates_gets_ours() {
    run(async {
        let cluster = Cluster::start("127.0.0.1", true).await;
        cluster.use_with("ours", Some("client")).await;
        for identity in [None, Some("stranger")] {
            let refused = cluster.refusal("ours", identity).await;
            assert!(refused.contains("does not answer"), "{refused}");
        }
    });
}

#[test]
fn files_that_are_missing_are_named() {
    run(async {
        let cluster = Cluster::start("127.0.0.1", false).await;
        let refused = cluster.refusal("nothing", None).await;
        assert!(refused.contains("nothing.pem"), "{refused}");
    });
}
