//! A stream below hyper that sees what is read, and can replace what hyper writes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a stream watches for.
pub(crate) trait Guard {
    /// Sees bytes that were read.
    fn read(&self, _bytes: &[u8]) {}

    /// The replacement for `bytes`, if they must not be written as they are. hyper writes a head in
    /// one piece.
    fn replace(&self, bytes: &[u8]) -> Option<Vec<u8>>;
}

/// A stream with a guard. What the guard returns is written before all later bytes, and before the
/// stream is flushed or shut down.
pub(crate) struct Guarded<T, G> {
    stream: T,
    guard: G,
    held: Vec<u8>,
}

impl<T, G> Guarded<T, G> {
    pub(crate) fn new(stream: T, guard: G) -> Self {
        Self { stream, guard, held: Vec::new() }
    }
}

impl<T: AsyncWrite + Unpin, G: Guard> Guarded<T, G> {
    /// Writes all bytes held back, then returns the stream.
    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut T>>> {
        while !self.held.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.drain(..written.min(self.held.len()));
        }
        Poll::Ready(Ok(Pin::new(&mut self.stream)))
    }

    /// Takes over a write that the guard replaces. Bytes held back earlier must already be written.
    fn takes(&mut self, bytes: &[u8]) -> bool {
        let replaced = self.guard.replace(bytes);
        let is_replaced = replaced.is_some();
        if let Some(bytes) = replaced {
            self.held = bytes;
        }
        is_replaced
    }
}

impl<T: AsyncRead + Unpin, G: Guard + Unpin> AsyncRead for Guarded<T, G> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        self.guard.read(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin, G: Guard + Unpin> AsyncWrite for Guarded<T, G> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?;
        if self.takes(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?;
        match slices {
            [head, ..] if self.takes(head) => Poll::Ready(Ok(head.len())),
            _ => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stream(cx))?.poll_shutdown(cx)
    }
}
