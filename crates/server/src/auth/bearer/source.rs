//! Where an issuer's keys are read from: a file, or a URL.

use super::error::KeysError;
use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Maximum bytes of a set of keys.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// A file, or a URL. The certificate of an `https` URL must be trusted by the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    Url(Uri),
}

/// Why a text does not name a source of keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySourceError {
    #[error("'{0}' is not a URL")]
    Url(String),
}

impl KeySource {
    /// A text that begins like a URL is one; anything else is a file.
    pub fn parse(text: &str) -> Result<Self, KeySourceError> {
        if !text.starts_with("http://") && !text.starts_with("https://") {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let uri: Uri = text.parse().map_err(|_| KeySourceError::Url(text.to_owned()))?;
        match uri.host() {
            Some(host) if !host.is_empty() => Ok(Self::Url(uri)),
            _ => Err(KeySourceError::Url(text.to_owned())),
        }
    }

    pub(super) async fn read(&self) -> Result<Vec<u8>, KeysError> {
        match self {
            Self::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&path));
                Ok(read.await.map_err(io::Error::other)??)
            }
            Self::Url(uri) if uri.scheme() == Some(&Scheme::HTTPS) => {
                let load = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(load.await.map_err(io::Error::other)?.certs);
                get(secure(connect(uri, 443).await?, uri, roots).await?, uri).await
            }
            Self::Url(uri) => get(connect(uri, 80).await?, uri).await,
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(uri) => uri.fmt(f),
        }
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut document = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(DOCUMENT_BYTES_MAX as u64).read_to_end(&mut document)?;
    Ok(document)
}

/// The host of a URL; an IPv6 address without its brackets.
fn host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

async fn connect(uri: &Uri, default_port: u16) -> io::Result<TcpStream> {
    TcpStream::connect((host(uri), uri.port_u16().unwrap_or(default_port))).await
}

/// Connects with TLS to a host that one of `roots` vouches for.
pub(super) async fn secure(
    stream: TcpStream,
    uri: &Uri,
    roots: RootCertStore,
) -> io::Result<TlsStream<TcpStream>> {
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(host(uri).to_owned()).map_err(io::Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// One GET on a new connection; redirects are not followed.
pub(super) async fn get(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    uri: &Uri,
) -> Result<Vec<u8>, KeysError> {
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::get(target)
        .header(header::HOST, authority)
        .header(header::ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(io::Error::other)?;
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), DOCUMENT_BYTES_MAX).collect().await;
    connection.abort();
    match status {
        200 => Ok(body.map_err(io::Error::other)?.to_bytes().to_vec()),
        other => Err(KeysError::Status(other)),
    }
}
