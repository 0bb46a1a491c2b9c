//! TLS to the database: the handshake, whom it trusts, and its errors (K-8.9).

mod channel;
mod trust;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{CertificateError, ClientConfig};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use trust::{Trust, Verifier};

/// The protocol name in the handshake (ALPN), which servers since version 17 may require.
const PROTOCOL: &[u8] = b"postgresql";

/// The value of `sslmode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    Disable,
    /// If the server offers it, and without verifying the server.
    #[default]
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Mode {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "disable" => Self::Disable,
            "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            _ => return None,
        })
    }
}

/// What an address says about TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) mode: Mode,
    pub(crate) roots: Option<RootsFrom>,
    /// Our own certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Where the trusted certificate authorities come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RootsFrom {
    System,
    File(PathBuf),
}

/// Why TLS cannot be set up as an address demands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsSetupError {
    #[error("sslrootcert is given, but this sslmode asks nobody for a certificate")]
    Unverified,
    #[error("this sslmode and the system's authorities together would trust anybody's certificate")]
    EveryAuthority,
    #[error("'{path}' cannot be used: {reason}")]
    File { path: String, reason: String },
    #[error("the certificates that the system trusts cannot be read: {reason}")]
    System { reason: String },
}

impl TlsSetupError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unverified => "add sslmode=verify-full",
            Self::EveryAuthority => {
                "name the certificate of your own authority with sslrootcert=FILE, or use \
                 sslmode=verify-full"
            }
            Self::File { .. } => {
                "sslrootcert, sslcert and sslkey name PEM files that this process can read"
            }
            Self::System { .. } => "name the certificate of the authority with sslrootcert=FILE",
        }
    }
}

/// Why a connection could not use TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    #[error("the server does not speak TLS, which the address asks for")]
    NotOffered,
    #[error("the certificate of the server is for other names than '{host}'")]
    OtherName { host: String },
    #[error("the certificate of '{host}' is from an authority that is not trusted")]
    UnknownIssuer { host: String },
    #[error("the certificate of '{host}' has expired, or is not valid yet")]
    OutOfDate { host: String },
    #[error("the server refused the handshake: {reason}")]
    Refused { reason: String },
    #[error("the handshake with '{host}' failed: {reason}")]
    Failed { host: String, reason: String },
}

impl TlsFault {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotOffered => {
                "set ssl = on in postgresql.conf, or use sslmode=disable on a private network"
            }
            Self::OtherName { .. } => {
                "use a host name that is among the certificate's alternative names, or \
                 sslmode=verify-ca if its authority signs for this database alone"
            }
            Self::UnknownIssuer { .. } => {
                "name the certificate of the authority with sslrootcert=FILE in the address"
            }
            Self::OutOfDate { .. } => "renew the certificate, and check the clocks",
            Self::Refused { .. } => {
                "it may want sslcert and sslkey to name a certificate that its ssl_ca_file signed"
            }
            Self::Failed { .. } => "check the server's log; it needs TLS 1.2 or newer",
        }
    }

    /// The TLS failure among the causes of `error`, if any.
    pub(crate) fn among(error: &(dyn std::error::Error + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(fault) = error.downcast_ref::<Self>() {
                return Some(fault.clone());
            }
            // With TLS 1.3 a server judges our certificate after the handshake.
            if let Some(rustls::Error::AlertReceived(alert)) = tls_error(error) {
                return Some(Self::Refused { reason: format!("{alert:?}") });
            }
            cause = error.source();
            // The client library has no type for this.
            if cause.is_some_and(|cause| cause.to_string() == "server does not support TLS") {
                return Some(Self::NotOffered);
            }
        }
        None
    }

    fn of(host: &str, error: &io::Error) -> Self {
        let host = host.to_owned();
        match tls_error(error) {
            Some(rustls::Error::AlertReceived(alert)) => {
                Self::Refused { reason: format!("{alert:?}") }
            }
            Some(rustls::Error::InvalidCertificate(problem)) => match problem {
                // A bad signature comes from another authority with the same name.
                CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                    Self::UnknownIssuer { host }
                }
                CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. } => Self::OtherName { host },
                CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. } => Self::OutOfDate { host },
                other => Self::Failed { host, reason: other.to_string() },
            },
            Some(other) => Self::Failed { host, reason: other.to_string() },
            None => Self::Failed { host, reason: error.to_string() },
        }
    }
}

/// The TLS error within a connection error.
fn tls_error<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e rustls::Error> {
    error.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref()
}

/// Speaks TLS on new connections.
#[derive(Clone)]
pub(crate) struct Connector(Arc<ClientConfig>);

impl Connector {
    /// Reads the files that `options` names.
    pub(crate) fn load(options: &TlsOptions) -> Result<Self, TlsSetupError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = Verifier::new(Trust::load(options)?, &provider);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsSetupError::System { reason: error.to_string() })?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match &options.identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let private =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
                config
                    .with_client_auth_cert(certificates(certificate)?, private)
                    .map_err(|error| unusable(certificate, &error))?
            }
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// The certificates in a PEM file, at least one.
fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsSetupError> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| unusable(file, &error))?;
    let found: Result<Vec<_>, _> = read.collect();
    let found = found.map_err(|error| unusable(file, &error))?;
    if found.is_empty() { Err(unusable(file, &"it holds no certificate")) } else { Ok(found) }
}

fn unusable(file: &Path, reason: &dyn std::fmt::Display) -> TlsSetupError {
    TlsSetupError::File { path: file.display().to_string(), reason: reason.to_string() }
}

/// A handshake to be done.
pub(crate) struct Handshake {
    config: Arc<ClientConfig>,
    host: String,
}

impl<S> MakeTlsConnect<S> for Connector
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = TlsFault;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, TlsFault> {
        Ok(Handshake { config: self.0.clone(), host: host.to_owned() })
    }
}

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = TlsFault;
    type Future = BoxFuture<'static, Result<Stream<S>, TlsFault>>;

    fn connect(self, stream: S) -> Self::Future {
        let Self { config, host } = self;
        async move {
            let name = ServerName::try_from(host.clone()).map_err(|error| TlsFault::Failed {
                host: host.clone(),
                reason: error.to_string(),
            })?;
            let connector = tokio_rustls::TlsConnector::from(config);
            let stream = connector.connect(name, stream).await;
            stream.map(Stream).map_err(|error| TlsFault::of(&host, &error))
        }
        .boxed()
    }
}

/// A connection that speaks TLS.
pub(crate) struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    /// Ties the password to this certificate: nobody in between can pass it on (RFC 5929).
    fn channel_binding(&self) -> ChannelBinding {
        let server = self.0.get_ref().1.peer_certificates().and_then(|chain| chain.first());
        match server.and_then(|certificate| channel::end_point(certificate)) {
            Some(hash) => ChannelBinding::tls_server_end_point(hash),
            None => ChannelBinding::none(),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
