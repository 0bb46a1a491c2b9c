//! Remote calls over HTTP/2, as gRPC defines them: one request and one response, or a stream of each.
//!
//! They use `h2` itself. hyper's client sends the head of a request before its body has room in the window of the
//! connection, which the body learns one task and one system call later: both go out in one write here.

use crate::tls::Tls;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, HeaderMap, TE};
use http::{Request, Response};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// Every message is preceded by a flag (0: not compressed) and its length.
const PREFIX_BYTES: usize = 5;
/// The largest message that is accepted. A caller may set a lower bound.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 32 * 1024 * 1024;
/// Headers of a response: a status and its reason.
const HEADER_BYTES_MAX: u32 = 16 * 1024;
const CONNECT_MAX: Duration = Duration::from_secs(2);

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RpcError {
    /// The request never left this process.
    #[error("cannot connect to {0}")]
    Unsent(String),
    /// The request may have been executed.
    #[error("no answer from {0}")]
    Lost(String),
    /// The answer is longer than the caller or the server allows. The request may have been executed.
    #[error("the answer of {0} is too long")]
    TooLong(String),
    /// The server refused the request for a lasting reason.
    #[error("refused by {0}")]
    Refused(String),
}

/// A connection to one server, made when needed and replaced when broken.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Host and port.
    address: String,
    tls: Option<Tls>,
    line: Mutex<Option<Line>>,
}

/// A connection. It ends when nobody uses it any more.
#[derive(Clone, Debug)]
struct Line {
    sender: SendRequest<Bytes>,
    is_closed: Arc<AtomicBool>,
}

impl Channel {
    pub(crate) fn new(address: &str, tls: Option<Tls>) -> Self {
        Self { address: address.to_owned(), tls, line: Mutex::new(None) }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// One request, one response.
    pub(crate) async fn call<Answer: Message + Default>(
        &self,
        path: &'static str,
        request: &impl Message,
        time: Duration,
    ) -> Result<Answer, RpcError> {
        self.call_within(path, request, MESSAGE_BYTES_MAX, time).await
    }

    /// The same, with a response of at most `bytes_max` bytes. A longer one is not received.
    pub(crate) async fn call_within<Answer: Message + Default>(
        &self,
        path: &'static str,
        request: &impl Message,
        bytes_max: usize,
        time: Duration,
    ) -> Result<Answer, RpcError> {
        let answered = timeout(time, async {
            let (response, _) = self.send(path, framed(request), true).await?;
            let response = response.await.map_err(|error| self.lost(&error))?;
            self.one_message(response, bytes_max).await
        });
        match answered.await {
            Ok(Ok(message)) => Answer::decode(message).map_err(|error| self.lost(&error)),
            Ok(Err(error)) => Err(error),
            Err(elapsed) => {
                // The connection may be dead without having been closed.
                self.disconnect();
                Err(self.lost(&elapsed))
            }
        }
    }

    /// A stream of requests, of which this is the first, and a stream of responses.
    pub(crate) async fn open(
        &self,
        path: &'static str,
        first: &impl Message,
    ) -> Result<(Requests, Messages), RpcError> {
        let (opening, requests) = self.send(path, framed(first), false).await?;
        let messages = Messages { opening: Some(opening), body: None, buffer: BytesMut::new() };
        Ok((Requests(requests), messages))
    }

    /// Sends a request with its first or only message.
    async fn send(
        &self,
        path: &'static str,
        message: Bytes,
        is_only: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), RpcError> {
        let Line { sender, .. } = self.connected().await?;
        let sent = async {
            let mut sender = sender.ready().await?;
            let (response, mut body) = sender.send_request(self.request(path)?, false)?;
            body.send_data(message, is_only)?;
            Ok((response, body))
        };
        sent.await.map_err(|error: SendError| {
            // The server may have announced the end of a connection that is still open.
            self.disconnect();
            self.lost(&error)
        })
    }

    fn request(&self, path: &'static str) -> Result<Request<()>, SendError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let request = Request::post(format!("{scheme}://{}{path}", self.address))
            .version(http::Version::HTTP_2)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers");
        Ok(request.body(())?)
    }

    /// The connection in use, or a new one.
    async fn connected(&self) -> Result<Line, RpcError> {
        let mut held = self.line.lock().await;
        if let Some(line) = held.as_ref().filter(|line| !line.is_closed.load(Ordering::Acquire)) {
            return Ok(line.clone());
        }
        let connecting = timeout(CONNECT_MAX, self.connect());
        let connected = connecting.await.unwrap_or_else(|elapsed| Err(elapsed.to_string()));
        let line =
            connected.map_err(|reason| RpcError::Unsent(format!("{}: {reason}", self.address)))?;
        *held = Some(line.clone());
        Ok(line)
    }

    async fn connect(&self) -> Result<Line, String> {
        let text = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect(&self.address).await.map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        match &self.tls {
            None => shake_hands(stream).await,
            Some(tls) => shake_hands(tls.connect(&self.address, stream).await?).await,
        }
    }

    fn disconnect(&self) {
        // If the lock is taken, its holder is making a new connection.
        if let Ok(mut held) = self.line.try_lock() {
            *held = None;
        }
    }

    async fn one_message(
        &self,
        response: Response<RecvStream>,
        bytes_max: usize,
    ) -> Result<Bytes, RpcError> {
        self.check_status(response.headers())?;
        let mut body = response.into_body();
        let mut received = Received::new(bytes_max);
        while let Some(data) = next_data(&mut body).await {
            if !received.add(&data.map_err(|error| self.lost(&error))?) {
                return Err(RpcError::TooLong(self.address.clone()));
            }
        }
        if let Some(trailers) = body.trailers().await.map_err(|error| self.lost(&error))? {
            self.check_status(&trailers)?;
        }
        next_message(&mut received.bytes)
            .map_err(|reason| self.lost(&reason))?
            .ok_or_else(|| self.lost(&"the message is cut off"))
    }

    /// The status of a call is in its trailers, or in the headers of a response without body.
    fn check_status(&self, headers: &HeaderMap) -> Result<(), RpcError> {
        let Some(status) = headers.get("grpc-status") else { return Ok(()) };
        let text = |name| headers.get(name).and_then(|v: &http::HeaderValue| v.to_str().ok());
        let reason = text("grpc-message").unwrap_or("no reason given");
        let reason = format!("{}: {reason}", self.address);
        match status.as_bytes() {
            b"0" => Ok(()),
            // A bound of the server: of the length of a message, or of its memory.
            b"8" => Err(RpcError::TooLong(reason)),
            // Wrong argument, permission denied, not implemented, not authenticated.
            b"3" | b"7" | b"12" | b"16" => Err(RpcError::Refused(reason)),
            _ => Err(RpcError::Lost(reason)),
        }
    }

    fn lost(&self, reason: &dyn std::fmt::Display) -> RpcError {
        RpcError::Lost(format!("{}: {reason}", self.address))
    }
}

/// The part of one message that has arrived.
struct Received {
    bytes: BytesMut,
    /// Maximum bytes of the message without its prefix.
    bytes_max: usize,
}

impl Received {
    fn new(bytes_max: usize) -> Self {
        Self { bytes: BytesMut::new(), bytes_max: bytes_max.min(MESSAGE_BYTES_MAX) }
    }

    /// False if the message is too long; its prefix tells before the rest has arrived.
    fn add(&mut self, data: &[u8]) -> bool {
        if self.bytes.len() + data.len() > PREFIX_BYTES + self.bytes_max {
            return false;
        }
        self.bytes.put_slice(data);
        match self.bytes.first_chunk() {
            Some(&[_, a, b, c, d]) => u32::from_be_bytes([a, b, c, d]) as usize <= self.bytes_max,
            None => true,
        }
    }
}

/// Why a request was not sent.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error(transparent)]
    Line(#[from] h2::Error),
    #[error(transparent)]
    Head(#[from] http::Error),
}

/// Begins to speak HTTP/2.
async fn shake_hands<Io>(io: Io) -> Result<Line, String>
where
    Io: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(HEADER_BYTES_MAX);
    let shaken = builder.handshake::<Io, Bytes>(io).await;
    let (sender, connection): (_, Connection<Io, Bytes>) =
        shaken.map_err(|error| error.to_string())?;
    let is_closed = Arc::new(AtomicBool::new(false));
    let closed = is_closed.clone();
    tokio::spawn(async move {
        // Whoever waits for an answer gets the error too.
        let _ = connection.await;
        closed.store(true, Ordering::Release);
    });
    Ok(Line { sender, is_closed })
}

/// The next data of a response, which make room in the windows for more.
async fn next_data(body: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    let data = body.data().await?;
    Some(data.and_then(|data| {
        body.flow_control().release_capacity(data.len())?;
        Ok(data)
    }))
}

/// The requests of a stream.
#[derive(Debug)]
pub(crate) struct Requests(SendStream<Bytes>);

impl Requests {
    /// Sends one more; false if the stream has ended. Waits for nothing: the caller bounds how many are unanswered.
    pub(crate) fn send(&mut self, request: &impl Message) -> bool {
        self.0.send_data(framed(request), false).is_ok()
    }
}

/// The responses of a stream.
pub(crate) struct Messages {
    /// Until the server has sent its first bytes.
    opening: Option<ResponseFuture>,
    body: Option<RecvStream>,
    buffer: BytesMut,
}

impl Messages {
    /// The next response; `None` when the stream has ended for whatever reason. Cancelling the call
    /// loses nothing.
    pub(crate) async fn next<Answer: Message + Default>(&mut self) -> Option<Answer> {
        if let Some(opening) = &mut self.opening {
            let response = opening.await;
            self.opening = None;
            let response = response.ok()?;
            // A stream that fails at once has its status in the headers.
            let has_failed = response.headers().contains_key("grpc-status");
            self.body = (!has_failed).then(|| response.into_body());
        }
        let body = self.body.as_mut()?;
        loop {
            if let Some(message) = next_message(&mut self.buffer).ok()? {
                return Answer::decode(message).ok();
            }
            let data = next_data(body).await?.ok()?;
            self.buffer.put(data);
        }
    }
}

/// A message with its prefix.
fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // It fails only for lack of room, and the buffer grows.
    let _ = message.encode(&mut framed);
    framed.freeze()
}

/// Takes the first whole message off the buffer.
fn next_message(buffer: &mut BytesMut) -> Result<Option<Bytes>, &'static str> {
    let Some((&[compressed, a, b, c, d], rest)) = buffer.split_first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if compressed != 0 || length > MESSAGE_BYTES_MAX {
        return Err("the message is compressed or too long");
    }
    if rest.len() < length {
        return Ok(None);
    }
    buffer.advance(PREFIX_BYTES);
    Ok(Some(buffer.split_to(length).freeze()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Peer;

    #[test]
    fn message_is_found_however_the_bytes_arrive() {
        let peers = [Peer { id: 7, store_id: 300 }, Peer::default()];
        let sent: Vec<u8> = peers.iter().flat_map(|peer| framed(peer).to_vec()).collect();
        let mut buffer = BytesMut::new();
        let mut found = Vec::new();
        for byte in sent {
            buffer.put_u8(byte);
            while let Some(message) = next_message(&mut buffer).unwrap() {
                found.push(Peer::decode(message).unwrap());
            }
        }
        assert_eq!(found, peers);
    }

    #[test]
    fn message_that_is_too_long_is_known_by_its_prefix() {
        let message = framed(&Peer { id: 7, store_id: 300 });
        let length = message.len() - PREFIX_BYTES;
        assert!(Received::new(length).add(&message));
        assert!(!Received::new(length - 1).add(&message[..PREFIX_BYTES]));
        let mut received = Received::new(length);
        assert!(message.chunks(3).all(|part| received.add(part)));
        assert!(!received.add(b"more"));
    }

    #[test]
    fn compressed_and_endless_messages_are_refused() {
        assert!(next_message(&mut BytesMut::from(&[1, 0, 0, 0, 0][..])).is_err());
        assert!(next_message(&mut BytesMut::from(&[0, 255, 255, 255, 255][..])).is_err());
    }
}
