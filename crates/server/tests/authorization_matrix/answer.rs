//! A response as it came over the socket.

use crate::operation::Operation;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// One response with its complete body.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) async fn read(stream: &mut TcpStream, method: &str) -> Self {
        let mut bytes = Vec::new();
        let head_end = loop {
            if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "no answer: {bytes:?}");
        };
        let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
        let length = head.to_ascii_lowercase();
        let length = length.split_once("content-length: ").map_or("0", |(_, rest)| rest);
        let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
        let length = if method == "HEAD" { 0 } else { length };
        while bytes.len() < head_end + length {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "half an answer: {head}");
        }
        let body = String::from_utf8(bytes.split_off(head_end)).unwrap();
        Self { status: head[9..12].parse().unwrap(), head, body }
    }

    /// Status and error code of the operation: those of the part, if the response is to a batch.
    pub(crate) fn verdict(&self, operation: &Operation) -> (u16, &str) {
        let part = operation.is_batch().then(|| self.body.split_once("HTTP/1.1 ")).flatten();
        match part {
            Some((_, part)) => (part[..3].parse().unwrap(), code(part)),
            None => match self.head.split_once("x-ms-error-code: ") {
                Some((_, rest)) => (self.status, rest.split("\r\n").next().unwrap()),
                None => (self.status, code(&self.body)),
            },
        }
    }
}

/// The code that an error body names, in JSON or XML.
fn code(body: &str) -> &str {
    let between = |open: &str, close: &str| {
        let (_, rest) = body.split_once(open)?;
        Some(rest.split_once(close)?.0)
    };
    let found = between("\"code\":\"", "\"").or_else(|| between("code>", "<"));
    found.unwrap_or_default()
}
