//! The transport: one trait for HTTP clients, recordings and fault injection (C-3.9).

use crate::{BoxError, BoxFuture};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::fmt;
use std::pin::Pin;

mod http_transport;
mod proxy;
mod recording;

pub use http_transport::HttpTransport;
pub use proxy::Proxy;
pub use recording::{Recording, Replay};

/// Sends one request and returns its answer, whatever the status.
///
/// The URI of a request is absolute. Its path is part of the signature: send it unchanged.
///
/// A transport of one's own: it sends through another HTTP client.
///
/// ```
/// use lazuli_client::{Account, Body, BoxError, BoxFuture, Sent, Transport, TransportError};
/// use bytes::Bytes;
/// # use futures_util::Stream;
/// # /// Stands for the HTTP client.
/// # struct Client;
/// # struct Failure { is_connect: bool }
/// # struct Answer { status: u16, headers: http::HeaderMap, body: Vec<Result<Bytes, BoxError>> }
/// # impl Answer {
/// #     fn into_stream(self) -> impl Stream<Item = Result<Bytes, BoxError>> { futures_util::stream::iter(self.body) }
/// # }
/// # impl Client {
/// #     async fn execute(&self, _: http::Request<Bytes>) -> Result<Answer, Failure> { Err(Failure { is_connect: true }) }
/// # }
///
/// struct Through(Client);
///
/// impl Transport for Through {
///     fn send(
///         &self,
///         request: http::Request<Bytes>,
///     ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>> {
///         Box::pin(async {
///             // `Sent::No` only if the server cannot have seen it: the library then repeats any write.
///             let answer = self.0.execute(request).await.map_err(|failure| TransportError {
///                 sent: if failure.is_connect { Sent::No } else { Sent::Maybe },
///                 source: "the client failed".into(),
///             })?;
///             let mut response = http::Response::builder().status(answer.status);
///             if let Some(headers) = response.headers_mut() {
///                 *headers = answer.headers.clone();
///             }
///             let body = Body::from_stream(answer.into_stream());
///             response.body(body).map_err(|error| TransportError {
///                 sent: Sent::Maybe,
///                 source: error.into(),
///             })
///         })
///     }
/// }
///
/// # fn run() -> Result<(), lazuli_client::Error> {
/// let account = Account::builder("http://127.0.0.1:10002/devstoreaccount1")
///     .transport(Through(Client))
///     .build()?;
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
pub trait Transport: Send + Sync + 'static {
    /// Sends `request`.
    fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> BoxFuture<'_, Result<http::Response<Body>, TransportError>>;
}

/// A request that got no answer.
#[derive(Debug)]
pub struct TransportError {
    /// Whether the server may have seen the request.
    pub sent: Sent,
    /// What went wrong.
    pub source: BoxError,
}

/// Whether a request was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The host was not found or not reached, or no byte was written.
    No,
    /// The server may have carried it out.
    Maybe,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sent {
            Sent::No => f.write_str("the request could not be sent"),
            Sent::Maybe => f.write_str("the request was sent and no answer came"),
        }
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.source)
    }
}

type Pieces = Pin<Box<dyn Stream<Item = Result<Bytes, BoxError>> + Send>>;

/// The body of an answer, complete or as a stream of pieces.
pub struct Body(Inner);

enum Inner {
    Whole(Bytes),
    Pieces(Pieces),
    /// From the library's own client, without boxing.
    Incoming(Incoming),
}

impl Inner {
    /// The next piece; `None` at the end.
    async fn piece(&mut self) -> Option<Result<Bytes, BoxError>> {
        match self {
            Self::Whole(bytes) => (!bytes.is_empty()).then(|| Ok(std::mem::take(bytes))),
            Self::Pieces(pieces) => pieces.next().await,
            Self::Incoming(incoming) => loop {
                match incoming.frame().await? {
                    Ok(frame) => match frame.into_data() {
                        Ok(data) => return Some(Ok(data)),
                        // These services send no meaningful trailers.
                        Err(_) => continue,
                    },
                    Err(error) => return Some(Err(error.into())),
                }
            },
        }
    }
}

impl Body {
    /// A body that is read from a stream.
    pub fn from_stream(
        pieces: impl Stream<Item = Result<Bytes, BoxError>> + Send + 'static,
    ) -> Self {
        Self(Inner::Pieces(Box::pin(pieces)))
    }

    pub(crate) fn incoming(incoming: Incoming) -> Self {
        Self(Inner::Incoming(incoming))
    }

    /// Reads the whole body, if it is at most `max` bytes.
    pub(crate) async fn read(mut self, max: usize) -> Result<Bytes, BoxError> {
        let too_large = || BoxError::from(format!("the answer has more than {max} bytes"));
        // Most answers are one piece, which is not copied.
        let Some(first) = self.0.piece().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let mut next = self.0.piece().await.transpose()?;
        if next.is_none() {
            return if first.len() > max { Err(too_large()) } else { Ok(first) };
        }
        let mut whole = BytesMut::from(first);
        while let Some(piece) = next {
            if whole.len() + piece.len() > max {
                return Err(too_large());
            }
            whole.extend_from_slice(&piece);
            next = self.0.piece().await.transpose()?;
        }
        Ok(whole.freeze())
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Inner::Whole(bytes))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Whole(bytes) => write!(f, "Body({} bytes)", bytes.len()),
            Inner::Pieces(_) | Inner::Incoming(_) => f.write_str("Body(..)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    fn body(pieces: &'static [&'static str]) -> Body {
        let piece = |text: &&'static str| Ok(Bytes::from_static(text.as_bytes()));
        Body::from_stream(stream::iter(pieces.iter().map(piece).collect::<Vec<_>>()))
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_its_bound() {
        // C-3.10.
        assert_eq!(body(&[]).read(0).await.unwrap(), "");
        assert_eq!(body(&["abc"]).read(3).await.unwrap(), "abc");
        assert_eq!(body(&["abc", "de"]).read(5).await.unwrap(), "abcde");
        assert_eq!(Body::from(Bytes::from_static(b"abc")).read(3).await.unwrap(), "abc");
        assert!(body(&["abc"]).read(2).await.is_err());
        assert!(body(&["abc", "de"]).read(4).await.is_err());
        assert!(Body::from(Bytes::from_static(b"abc")).read(2).await.is_err());
    }

    #[tokio::test]
    async fn a_body_that_breaks_is_an_error() {
        let pieces = [Ok(Bytes::from_static(b"a")), Err(BoxError::from("cut"))];
        assert!(Body::from_stream(stream::iter(pieces)).read(10).await.is_err());
    }
}
