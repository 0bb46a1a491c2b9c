//! The body of a request in transit.

use super::executor::Handle;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use lazuli_testkit::seed::Seeded;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Maximum number of pieces of a body.
const PIECES_MAX: usize = 4;
/// How long the next piece of a body may take, in ticks.
const PIECE_TICKS_MAX: usize = 50;

/// A body that arrives in pieces, with time between them, and may break off.
pub(super) struct PiecemealBody {
    pieces: VecDeque<Bytes>,
    is_broken: bool,
    bytes_left: u64,
    handle: Handle,
    /// How long the next pieces take.
    delays: VecDeque<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl PiecemealBody {
    pub(super) fn new(text: String, is_broken: bool, handle: &Handle, random: &mut Seeded) -> Self {
        let mut rest = Bytes::from(text);
        let bytes_left = rest.len() as u64;
        let mut pieces = VecDeque::new();
        for _ in 0..random.below(PIECES_MAX) {
            pieces.push_back(rest.split_to(random.below(rest.len() + 1)));
        }
        pieces.push_back(rest);
        if is_broken {
            pieces.truncate(random.below(pieces.len()));
        } else {
            pieces.retain(|piece| !piece.is_empty());
        }
        let delays = pieces.iter().map(|_| random.below(PIECE_TICKS_MAX) as u64).collect();
        Self { pieces, is_broken, bytes_left, handle: handle.clone(), delays, waiting: None }
    }
}

impl Body for PiecemealBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.waiting.is_none()
            && let Some(delay) = self.delays.pop_front()
        {
            self.waiting = Some(Box::pin(self.handle.sleep(delay)));
        }
        if let Some(waiting) = &mut self.waiting {
            ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
        match self.pieces.pop_front() {
            Some(piece) => {
                self.bytes_left -= piece.len() as u64;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            None if self.is_broken => {
                self.is_broken = false;
                Poll::Ready(Some(Err(io::ErrorKind::ConnectionReset.into())))
            }
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && !self.is_broken
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes_left)
    }
}
