//! Where an issuer's keys are read from: a file, or a URL.

use super::KeysError;
use bytes::Bytes;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use tokio::net::TcpStream;

/// Bytes of a set of keys.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;

/// A file, or a URL that is asked over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    File(PathBuf),
    Url(Uri),
}

/// Why a text names no place to read keys from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySourceError {
    #[error("'{0}' is not a URL")]
    Url(String),
    #[error("'{0}' needs TLS, which this program does not speak as a client")]
    Tls(String),
}

impl KeySource {
    /// What begins like a URL is one; all else is a file.
    pub fn parse(text: &str) -> Result<Self, KeySourceError> {
        if text.starts_with("https://") {
            return Err(KeySourceError::Tls(text.to_owned()));
        }
        if !text.starts_with("http://") {
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
            Self::Url(uri) => fetch(uri).await,
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

/// One GET on a connection of its own; no redirects are followed.
async fn fetch(uri: &Uri) -> Result<Vec<u8>, KeysError> {
    let host = uri.host().unwrap_or_default();
    let address = (host.trim_matches(['[', ']']), uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
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
