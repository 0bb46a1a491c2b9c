//! Streams of pages and of entities, in key order, with read-ahead (C-8.6, C-8.7).

use super::source::{Fetched, Position, Source};
use crate::BoxFuture;
use crate::entity::Loaded;
use crate::error::Error;
use crate::page_token::{PageToken, TokenKey};
use futures_core::Stream;
use lazuli_model::limits::PAGE_ITEMS_MAX;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Some entities of a query; may be empty.
#[derive(Clone, Debug)]
pub struct Page<T> {
    items: Vec<Loaded<T>>,
    token: Option<PageToken>,
}

impl<T> Page<T> {
    /// The entities.
    pub fn items(&self) -> &[Loaded<T>] {
        &self.items
    }

    /// The entities alone.
    pub fn into_items(self) -> Vec<Loaded<T>> {
        self.items
    }

    /// The token to continue with; `None` after the last page, and for unordered pages.
    pub fn token(&self) -> Option<&PageToken> {
        self.token.as_ref()
    }
}

/// The pages of a query. After an error, the page that failed is fetched again.
pub struct Pages<T> {
    state: State<T>,
}

enum State<T> {
    Refused(Option<Error>),
    Running(Box<Running<T>>),
    Ended,
}

/// The parts of a token other than the position.
pub(super) struct TokenMaker {
    pub(super) fingerprint: u64,
    pub(super) key: Option<Arc<TokenKey>>,
}

/// How far to read ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    /// Fetched pages of a part that wait for the caller.
    pub(super) pages: usize,
    /// Parts that are fetched concurrently.
    pub(super) parts: usize,
    pub(super) ordered: bool,
    /// Whether the caller sees tokens: each is for the first entity that was not returned (C-8.5).
    pub(super) has_tokens: bool,
}

struct Running<T> {
    source: Arc<Source<T>>,
    tokens: TokenMaker,
    ahead: Ahead,
    /// Parts being read, in key order. The first is delivered first.
    lanes: VecDeque<Lane<T>>,
    /// The first piece that has no lane.
    next_piece: usize,
    /// Entities that may still be returned.
    left: Option<usize>,
}

/// A part, or some points, that are being read.
struct Lane<T> {
    first: usize,
    count: usize,
    /// Where the next page begins; `None` at the beginning.
    position: Option<Position>,
    /// Whether the last page was fetched.
    is_read: bool,
    fetch: Option<BoxFuture<'static, Result<Fetched<T>, Error>>>,
    ready: VecDeque<Result<Fetched<T>, Error>>,
}

impl<T: Send + 'static> Pages<T> {
    pub(super) fn refused(error: Error) -> Self {
        Self { state: State::Refused(Some(error)) }
    }

    pub(super) fn new(
        source: Source<T>,
        tokens: TokenMaker,
        ahead: Ahead,
        left: Option<usize>,
        resume: Option<PageToken>,
    ) -> Self {
        let mut running = Running {
            source: Arc::new(source),
            tokens,
            ahead,
            lanes: VecDeque::new(),
            next_piece: 0,
            left,
        };
        if let Some(token) = resume {
            running.next_piece = token.part as usize;
            let position = Position { partition: token.partition, row: token.row };
            if position != Position::default() {
                running.open_lane(Some(position));
            }
        }
        Self { state: State::Running(Box::new(running)) }
    }

    /// The next page; `None` after the last.
    pub async fn next_page(&mut self) -> Result<Option<Page<T>>, Error> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl<T> Unpin for Pages<T> {}

impl<T: Send + 'static> Stream for Pages<T> {
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.state {
            State::Ended => Poll::Ready(None),
            State::Refused(error) => Poll::Ready(error.take().map(Err)),
            State::Running(running) => {
                let page = ready!(running.poll_page(context));
                if page.is_none() || running.is_done() {
                    self.state = State::Ended;
                }
                Poll::Ready(page)
            }
        }
    }
}

impl<T: Send + 'static> Running<T> {
    /// Whether there are no more entities.
    fn is_done(&self) -> bool {
        let is_read = self.lanes.is_empty() && self.next_piece >= self.source.pieces.len();
        is_read || self.left == Some(0)
    }

    fn poll_page(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Page<T>, Error>>> {
        if self.is_done() {
            return Poll::Ready(None);
        }
        self.open_lanes();
        let deliverable = if self.ahead.ordered { 1 } else { self.lanes.len() };
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            // A page that nobody waits for yet is fetched in a task of its own.
            let is_awaited = index < deliverable && self.ahead.pages == 0;
            lane.start(&self.source, self.left, self.ahead.pages.max(1), !is_awaited);
            lane.poll(context);
        }
        let found = self.lanes.iter().take(deliverable).position(|lane| !lane.ready.is_empty());
        match found {
            Some(index) => Poll::Ready(self.deliver(index)),
            None => Poll::Pending,
        }
    }

    /// Takes a page from a lane, and starts on the page after it.
    fn deliver(&mut self, index: usize) -> Option<Result<Page<T>, Error>> {
        let lane = self.lanes.get_mut(index)?;
        let Fetched { mut items, next } = match lane.ready.pop_front()? {
            Ok(fetched) => fetched,
            Err(error) => return Some(Err(error)),
        };
        let after = lane.first + lane.count;
        let place = match next {
            Some(position) => Some((lane.first, position)),
            None => {
                self.lanes.remove(index);
                (after < self.source.pieces.len()).then(|| (after, Position::default()))
            }
        };
        let place = place.filter(|_| self.ahead.ordered);
        let token = place.map(|(part, position)| {
            let table = self.source.table.as_str().to_owned();
            let Position { partition, row } = position;
            let (part, fingerprint) = (part as u32, self.tokens.fingerprint);
            PageToken { table, partition, row, fingerprint, part, mac: None }
                .signed(self.tokens.key.as_deref())
        });
        if let Some(left) = &mut self.left {
            items.truncate(*left);
            *left -= items.len();
        }
        if self.ahead.pages > 0 && !self.is_done() {
            self.open_lanes();
            for lane in &mut self.lanes {
                lane.start(&self.source, self.left, self.ahead.pages, true);
            }
        }
        Some(Ok(Page { items, token }))
    }

    fn open_lanes(&mut self) {
        // Few entities are wanted: the first part may well have them all. And of a page that was read before it is known
        // how many are left, no token can name the rest.
        let is_one_by_one =
            self.left.is_some_and(|left| left <= PAGE_ITEMS_MAX || self.ahead.has_tokens);
        let lanes_max = if is_one_by_one && self.ahead.ordered { 1 } else { self.ahead.parts };
        while self.lanes.len() < lanes_max.max(1) && self.next_piece < self.source.pieces.len() {
            self.open_lane(None);
        }
    }

    fn open_lane(&mut self, position: Option<Position>) {
        let first = self.next_piece;
        let count = self.source.pieces_of_page(first, self.left);
        self.next_piece += count;
        let (fetch, ready) = (None, VecDeque::new());
        self.lanes.push_back(Lane { first, count, position, is_read: false, fetch, ready });
    }
}

impl<T: Send + 'static> Lane<T> {
    /// Begins to fetch the next page, unless enough pages are waiting.
    fn start(
        &mut self,
        source: &Arc<Source<T>>,
        left: Option<usize>,
        ready_max: usize,
        by_itself: bool,
    ) {
        // After an error the caller decides whether to go on.
        let has_failed = self.ready.back().is_some_and(Result::is_err);
        let is_enough = self.ready.len() >= ready_max || self.is_read || has_failed;
        if self.fetch.is_some() || is_enough {
            return;
        }
        let waiting: usize = self.ready.iter().flatten().map(|page| page.items.len()).sum();
        let wanted = left.map(|left| left.saturating_sub(waiting));
        if wanted == Some(0) {
            return;
        }
        let (source, position) = (Arc::clone(source), self.position.clone());
        let (first, count) = (self.first, self.count);
        let fetch = async move { source.fetch(first, count, position, wanted).await };
        self.fetch = Some(if by_itself { spawned(fetch) } else { Box::pin(fetch) });
    }

    fn poll(&mut self, context: &mut Context<'_>) {
        let Some(fetch) = &mut self.fetch else { return };
        let Poll::Ready(result) = fetch.as_mut().poll(context) else { return };
        self.fetch = None;
        if let Ok(fetched) = &result {
            self.position.clone_from(&fetched.next);
            self.is_read = fetched.next.is_none();
        }
        self.ready.push_back(result);
    }
}

/// Runs `work` as a task, if there is a runtime, so that it proceeds without being polled; dropping it aborts it.
fn spawned<T, W>(work: W) -> BoxFuture<'static, Result<T, Error>>
where
    T: Send + 'static,
    W: Future<Output = Result<T, Error>> + Send + 'static,
{
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => Box::pin(Task(runtime.spawn(work))),
        Err(_) => Box::pin(work),
    }
}

struct Task<T>(tokio::task::JoinHandle<Result<T, Error>>);

impl<T> Future for Task<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match ready!(Pin::new(&mut self.0).poll(context)) {
            Ok(result) => Poll::Ready(result),
            Err(error) => match error.try_into_panic() {
                // A type's `read` has panicked: pass the panic on to the caller.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Poll::Ready(Err(Error::protocol("the runtime is shutting down"))),
            },
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The entities of a query. After an error, the page that failed is fetched again.
pub struct Entities<T> {
    pages: Pages<T>,
    ready: VecDeque<Loaded<T>>,
}

impl<T: Send + 'static> Entities<T> {
    pub(super) fn new(pages: Pages<T>) -> Self {
        Self { pages, ready: VecDeque::new() }
    }

    /// The next entity; `None` after the last.
    pub async fn try_next(&mut self) -> Result<Option<Loaded<T>>, Error> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl<T: Send + 'static> Entities<T> {
    /// All entities, sorted in memory: the service returns them in key order only. Fails if there are more than
    /// `at_most`.
    pub async fn sorted_in_memory(
        mut self,
        at_most: usize,
        by: impl FnMut(&Loaded<T>, &Loaded<T>) -> Ordering,
    ) -> Result<Vec<Loaded<T>>, Error> {
        let mut all = Vec::new();
        while let Some(entity) = self.try_next().await? {
            if all.len() == at_most {
                let reason = format!("more than {at_most} entities to sort");
                return Err(Error::config(reason).at("query", None, None));
            }
            all.push(entity);
        }
        all.sort_by(by);
        Ok(all)
    }
}

impl<T> Unpin for Entities<T> {}

impl<T: Send + 'static> Stream for Entities<T> {
    type Item = Result<Loaded<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(entity) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(entity)));
            }
            match ready!(Pin::new(&mut self.pages).poll_next(context)) {
                Some(Ok(page)) => self.ready = page.items.into(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}
