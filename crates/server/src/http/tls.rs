//! HTTPS: the certificate of a server, and the response to a client that uses the wrong protocol.

mod validity;

use arc_swap::ArcSwap;
use lazuli_model::Timestamp;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

/// The TLS configuration. The certificate can be replaced while requests are served.
pub struct Tls(ArcSwap<Served>);

/// A certificate as served.
struct Served {
    config: Arc<ServerConfig>,
    not_after: Option<Timestamp>,
}

impl Tls {
    pub fn new(certificate: Certificate) -> Self {
        Self(ArcSwap::from_pointee(certificate.0))
    }

    /// Replaces the certificate for new connections.
    pub fn replace(&self, certificate: Certificate) {
        self.0.store(Arc::new(certificate.0));
    }

    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.load().config.clone())
    }

    /// When the current certificate expires; `None` if it cannot be determined.
    pub fn not_after(&self) -> Option<Timestamp> {
        self.0.load().not_after
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

/// A certificate chain and its key.
pub struct Certificate(Served);

/// Why a chain and a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("there is no certificate in PEM form")]
    NoCertificate,
    #[error("there is no private key in PEM form without a password")]
    NoKey,
    #[error("the PEM text is damaged")]
    Pem(#[source] pem::Error),
    #[error("the private key does not match the certificate")]
    Mismatch,
    #[error("the certificate cannot be used")]
    Unusable(#[source] rustls::Error),
    #[error("could not generate a certificate")]
    Generate(#[source] rcgen::Error),
}

impl Certificate {
    /// Reads a chain, with the server's own certificate first, and a key in PKCS #1, PKCS #8 or SEC 1 form.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, CertificateError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(CertificateError::Pem)?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            pem::Error::NoItemsFound => CertificateError::NoKey,
            error => CertificateError::Pem(error),
        })?;
        let not_after = chain.first().and_then(|own| validity::not_after(own));
        let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .and_then(|config| config.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => CertificateError::Mismatch,
                error => CertificateError::Unusable(error),
            })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Served { config: Arc::new(config), not_after }))
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

/// A certificate signed with its own key, as PEM, for clients that trust it explicitly.
pub struct SelfSigned {
    pub certificate: String,
    pub key: String,
    pub not_after: Timestamp,
}

impl SelfSigned {
    /// Some systems refuse server certificates that are valid for more than 825 days.
    const VALID_SECONDS: u64 = 800 * 24 * 3600;

    /// Generates a key and a certificate for `names`: host names, `*.` patterns and IP addresses.
    pub fn generate(names: &[String], now: Timestamp) -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(CertificateError::Generate)?;
        let mut params = CertificateParams::new(names).map_err(CertificateError::Generate)?;
        let not_after = now.plus_seconds(Self::VALID_SECONDS);
        // Clients' clocks may be behind ours.
        params.not_before = date_time_ymd(1970, 1, 1)
            + Duration::from_secs(now.unix_seconds().saturating_sub(24 * 3600));
        params.not_after =
            date_time_ymd(1970, 1, 1) + Duration::from_secs(not_after.unix_seconds());
        params.distinguished_name.push(DnType::CommonName, "Lazuli self-signed certificate");
        // A client that trusts it trusts only this server, not certificates signed with it.
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.self_signed(&key).map_err(CertificateError::Generate)?;
        Ok(Self { certificate: certificate.pem(), key: key.serialize_pem(), not_after })
    }
}

/// Whether the first bytes of a connection are TLS: its handshake is a record of type 22. `None` if the
/// peer sends nothing. Nothing is consumed.
pub(crate) async fn opens_with_tls(stream: &TcpStream) -> io::Result<Option<bool>> {
    const HANDSHAKE: u8 = 22;
    let mut first = [0];
    let read = stream.peek(&mut first).await?;
    Ok((read > 0).then_some(first == [HANDSHAKE]))
}

/// Tells a plain HTTP client that this port needs HTTPS, in a form it can read.
pub(crate) async fn refuse_plain_http(mut stream: TcpStream, local: SocketAddr) -> io::Result<()> {
    /// How much of a discarded request is read.
    const DRAINED_BYTES_MAX: usize = 1024 * 1024;
    let text = format!("This port speaks HTTPS; use https://{local}\n");
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with unread bytes would reset the connection before the response is read.
    let mut buffer = [0; 8 * 1024];
    let mut drained = 0;
    while drained < DRAINED_BYTES_MAX {
        match stream.read(&mut buffer).await? {
            0 => break,
            read => drained += read,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generate() -> SelfSigned {
        let names = ["localhost", "127.0.0.1", "::1", "*.table.localhost"].map(str::to_owned);
        SelfSigned::generate(&names, Timestamp::from_unix_seconds(1_800_000_000)).unwrap()
    }

    #[track_caller]
    fn check(chain: &str, key: &str, expect: &str) {
        let message = match Certificate::from_pem(chain.as_bytes(), key.as_bytes()) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(message, expect);
    }

    #[test]
    fn a_generated_pair_fits_together() {
        let made = generate();
        check(&made.certificate, &made.key, "");
        check(&format!("a comment\n{}", made.certificate), &made.key, "");
        let tls = Tls::new(
            Certificate::from_pem(made.certificate.as_bytes(), made.key.as_bytes()).unwrap(),
        );
        assert_eq!(tls.not_after(), Some(made.not_after));
    }

    #[test]
    fn what_is_wrong_with_a_pair_is_said() {
        let (one, other) = (generate(), generate());
        check(&one.certificate, &other.key, "the private key does not match the certificate");
        check("", &one.key, "there is no certificate in PEM form");
        check(&one.key, &one.key, "there is no certificate in PEM form");
        let no_key = "there is no private key in PEM form without a password";
        check(&one.certificate, "", no_key);
        check(&one.certificate, &one.certificate, no_key);
        check(&one.certificate, &one.key.replace("PRIVATE", "ENCRYPTED PRIVATE"), no_key);
        let cut = one.certificate.replace("-----END", "");
        check(&cut, &one.key, "the PEM text is damaged");
        let garbled = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(garbled, &one.key, "the certificate cannot be used");
    }

    #[test]
    fn secrets_are_not_shown() {
        let made = generate();
        let certificate =
            Certificate::from_pem(made.certificate.as_bytes(), made.key.as_bytes()).unwrap();
        assert_eq!(format!("{certificate:?}"), "Certificate(..)");
        assert_eq!(format!("{:?}", Tls::new(certificate)), "Tls(..)");
    }
}
