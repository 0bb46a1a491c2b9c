//! Remote calls over HTTP/2, as gRPC defines them: one request and one response, or a stream of each.

use crate::tls::Tls;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HeaderMap, TE};
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;

/// Every message is preceded by a flag (0: not compressed) and its length.
const PREFIX_BYTES: usize = 5;
/// The largest message that is accepted. A caller may set a lower bound.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 32 * 1024 * 1024;
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
    /// The server refused the request for a reason that does not pass by itself.
    #[error("refused by {0}")]
    Refused(String),
}

/// A connection to one server, made when it is needed and made again when it is broken.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Host and port.
    address: String,
    tls: Option<Tls>,
    sender: Mutex<Option<SendRequest<Outgoing>>>,
}

impl Channel {
    pub(crate) fn new(address: &str, tls: Option<Tls>) -> Self {
        Self { address: address.to_owned(), tls, sender: Mutex::new(None) }
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

    /// The same with a response of at most `bytes_max` bytes. A longer one is not received.
    pub(crate) async fn call_within<Answer: Message + Default>(
        &self,
        path: &'static str,
        request: &impl Message,
        bytes_max: usize,
        time: Duration,
    ) -> Result<Answer, RpcError> {
        let body = Outgoing::One(Some(framed(request)));
        let answered = timeout(time, async {
            let response = self.send(path, body).await?;
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

    /// A stream of requests and a stream of responses. A server may say nothing before the first
    /// request, so this does not wait for it.
    pub(crate) async fn open(
        &self,
        path: &'static str,
        in_flight_max: usize,
    ) -> Result<(mpsc::Sender<Bytes>, Messages), RpcError> {
        let (requests, queued) = mpsc::channel(in_flight_max);
        let mut sender = self.connected().await?;
        let request = self.request(path, Outgoing::Many(queued))?;
        let opening = Box::pin(async move {
            let response = sender.send_request(request).await.ok()?;
            // A stream that fails at once has its status in the headers.
            let has_failed = response.headers().contains_key("grpc-status");
            (!has_failed).then(|| response.into_body())
        });
        let messages = Messages { opening: Some(opening), body: None, buffer: BytesMut::new() };
        Ok((requests, messages))
    }

    async fn send(
        &self,
        path: &'static str,
        body: Outgoing,
    ) -> Result<Response<Incoming>, RpcError> {
        let mut sender = self.connected().await?;
        let request = self.request(path, body)?;
        sender.send_request(request).await.map_err(|error| self.lost(&error))
    }

    fn request(&self, path: &'static str, body: Outgoing) -> Result<Request<Outgoing>, RpcError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Request::post(format!("{scheme}://{}{path}", self.address))
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .body(body)
            .map_err(|error| RpcError::Refused(format!("{}: {error}", self.address)))
    }

    /// The connection in use, or a new one.
    async fn connected(&self) -> Result<SendRequest<Outgoing>, RpcError> {
        let mut held = self.sender.lock().await;
        if let Some(sender) = held.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let connecting = timeout(CONNECT_MAX, self.connect());
        let connected = connecting.await.unwrap_or_else(|elapsed| Err(elapsed.to_string()));
        let sender =
            connected.map_err(|reason| RpcError::Unsent(format!("{}: {reason}", self.address)))?;
        *held = Some(sender.clone());
        Ok(sender)
    }

    async fn connect(&self) -> Result<SendRequest<Outgoing>, String> {
        let text = |error: std::io::Error| error.to_string();
        let stream = TcpStream::connect(&self.address).await.map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let text = |error: hyper::Error| error.to_string();
        // The connection ends with its last user.
        match &self.tls {
            None => {
                let shaken = builder.handshake(TokioIo::new(stream)).await;
                let (sender, connection) = shaken.map_err(text)?;
                tokio::spawn(connection);
                Ok(sender)
            }
            Some(tls) => {
                let stream = tls.connect(&self.address, stream).await?;
                let shaken = builder.handshake(TokioIo::new(stream)).await;
                let (sender, connection) = shaken.map_err(text)?;
                tokio::spawn(connection);
                Ok(sender)
            }
        }
    }

    fn disconnect(&self) {
        // Whoever holds it makes a new one.
        if let Ok(mut held) = self.sender.try_lock() {
            *held = None;
        }
    }

    async fn one_message(
        &self,
        response: Response<Incoming>,
        bytes_max: usize,
    ) -> Result<Bytes, RpcError> {
        self.check_status(response.headers())?;
        let mut body = response.into_body();
        let mut received = Received::new(bytes_max);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.lost(&error))?;
            match frame.into_data() {
                Ok(data) if received.add(&data) => {}
                Ok(_) => return Err(RpcError::TooLong(self.address.clone())),
                Err(frame) => {
                    if let Some(trailers) = frame.trailers_ref() {
                        self.check_status(trailers)?;
                    }
                }
            }
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
    /// Of the message without its prefix.
    bytes_max: usize,
}

impl Received {
    fn new(bytes_max: usize) -> Self {
        Self { bytes: BytesMut::new(), bytes_max: bytes_max.min(MESSAGE_BYTES_MAX) }
    }

    /// False if the message is too long, which its prefix says before the rest has arrived.
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

/// The responses of a stream.
pub(crate) struct Messages {
    /// Until the server has answered with its first bytes.
    opening: Option<BoxFuture<'static, Option<Incoming>>>,
    body: Option<Incoming>,
    buffer: BytesMut,
}

impl Messages {
    /// The next response; `None` when the stream has ended for whatever reason. A call that is
    /// given up loses nothing.
    pub(crate) async fn next<Answer: Message + Default>(&mut self) -> Option<Answer> {
        if let Some(opening) = &mut self.opening {
            self.body = opening.await;
            self.opening = None;
        }
        let body = self.body.as_mut()?;
        loop {
            if let Some(message) = next_message(&mut self.buffer).ok()? {
                return Answer::decode(message).ok();
            }
            let data = body.frame().await?.ok()?.into_data().ok()?;
            self.buffer.put(data);
        }
    }
}

/// A message with its prefix.
pub(crate) fn framed(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // It fails for lack of room only, and the buffer grows.
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

/// The body of a request.
#[derive(Debug)]
pub(crate) enum Outgoing {
    One(Option<Bytes>),
    Many(mpsc::Receiver<Bytes>),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let message = match self.get_mut() {
            Self::One(message) => Poll::Ready(message.take()),
            Self::Many(messages) => messages.poll_recv(context),
        };
        message.map(|message| message.map(|message| Ok(Frame::data(message))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::One(None))
    }
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
