//! Bytes that a stream has taken over and still has to write.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

#[derive(Debug, Default)]
pub(crate) struct Pending(Vec<u8>);

impl Pending {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Writes all of them.
    pub(crate) fn poll_write<T>(
        &mut self,
        stream: &mut T,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>>
    where
        T: AsyncWrite + Unpin,
    {
        while !self.0.is_empty() {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, &self.0))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.0.drain(..written.min(self.0.len()));
        }
        Poll::Ready(Ok(()))
    }
}
