//! A stream with bytes that are to be written before anything else.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Writes what it was given to hold before all later bytes, and before it is flushed or shut down.
#[derive(Debug)]
pub(crate) struct Pending<T> {
    stream: T,
    held: Vec<u8>,
}

impl<T> Pending<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self { stream, held: Vec::new() }
    }

    /// Holds `bytes`. What was held before must have been written.
    pub(crate) fn hold(&mut self, bytes: Vec<u8>) {
        self.held = bytes;
    }
}

impl<T: AsyncWrite + Unpin> Pending<T> {
    /// Writes all bytes held, and gives the stream.
    pub(crate) fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut T>>> {
        while !self.held.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.drain(..written.min(self.held.len()));
        }
        Poll::Ready(Ok(Pin::new(&mut self.stream)))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Pending<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Pending<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_stream(cx))?.poll_write_vectored(cx, slices)
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
