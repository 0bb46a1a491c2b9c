//! Reads a blob: whole, a range, or as a stream of pieces.

use super::{Blob, BlobProperties, Conditions, conditional, prepare};
use crate::BoxFuture;
use crate::ReadFrom;
use crate::call::{Answer, CallOptions, text_value};
use crate::entity::ETag;
use crate::error::Error;
use crate::rest::{Parameters, too_large};
use bytes::Bytes;
use futures_core::Stream;
use http::{HeaderName, Method, StatusCode};
use std::future::IntoFuture;
use std::ops::{Bound, RangeBounds};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

const RANGE: HeaderName = HeaderName::from_static("x-ms-range");
const BYTES_MAX: usize = 64 * 1024 * 1024;
const PIECE_BYTES: u64 = 4 * 1024 * 1024;

/// A blob that was read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Downloaded {
    /// The requested bytes.
    pub bytes: Bytes,
    /// The properties of the whole blob.
    pub properties: BlobProperties,
}

/// The first byte, and the end (exclusive), unless that is the end of the blob.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: Option<u64>,
}

/// A read of a blob.
#[must_use = "nothing is sent before `.await`"]
pub struct GetBlob {
    blob: Blob,
    range: Option<Range>,
    bytes_max: usize,
    piece_bytes: u64,
    conditions: Conditions,
    options: CallOptions,
}

impl GetBlob {
    pub(super) fn new(blob: &Blob) -> Self {
        Self {
            blob: blob.clone(),
            range: None,
            bytes_max: BYTES_MAX,
            piece_bytes: PIECE_BYTES,
            conditions: Conditions::default(),
            options: CallOptions::default(),
        }
    }

    conditional!();

    pub(super) fn with_options(self, options: CallOptions) -> Self {
        Self { options, ..self }
    }

    /// Only these bytes, as far as the blob has them.
    pub fn range(mut self, range: impl RangeBounds<u64>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(last.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        self.range = Some(Range { start, end });
        self
    }

    /// Fails with [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge) if there are more bytes, before reading them.
    pub fn bytes_max(self, bytes_max: usize) -> Self {
        Self { bytes_max, ..self }
    }

    /// Chooses the location to read from.
    pub fn read_from(mut self, location: ReadFrom) -> Self {
        self.options.read_from = location;
        self
    }

    /// Reads a blob of any size piece by piece. Each piece is a request with its own attempts; all have the same
    /// version, or the stream fails with [`ErrorKind::PreconditionFailed`](crate::ErrorKind::PreconditionFailed).
    pub fn stream(self) -> BlobStream {
        let Range { start, end } = self.range.unwrap_or(Range { start: 0, end: None });
        BlobStream { get: self, next: start, end, properties: None, state: State::Idle }
    }

    /// The size of a piece of a stream, 4 MiB by default.
    pub fn piece_bytes(self, bytes: u64) -> Self {
        Self { piece_bytes: bytes.clamp(1, BYTES_MAX as u64), ..self }
    }

    async fn run(self) -> Result<Option<Downloaded>, Error> {
        if let Some(Range { start, end: Some(end) }) = self.range {
            if start >= end {
                let error = Error::config("the range of a blob is empty");
                return Err(self.blob.place("get blob", error));
            }
            // The service truncates a range at the blob's end, so the range may be longer than the blob.
            if end - start > self.bytes_max as u64 {
                let error = too_large(end - start, self.bytes_max as u64);
                return Err(self.blob.place("get blob", error));
            }
        }
        match self.exchange(self.range).await {
            Ok(answer) => {
                let properties = BlobProperties::from_answer(&answer);
                let properties = properties.map_err(|error| self.blob.place("get blob", error))?;
                Ok(Some(Downloaded { bytes: answer.body, properties }))
            }
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn exchange(&self, range: Option<Range>) -> Result<Answer, Error> {
        let place = |error| self.blob.place("get blob", error);
        let call = self.blob.call("get blob", Method::GET, Parameters::new());
        let mut call = prepare(call, &self.conditions, self.options.clone()).map_err(place)?;
        call.answer_bytes_max = self.bytes_max;
        if let Some(Range { start, end }) = range {
            let last = end.map_or(String::new(), |end| end.saturating_sub(1).to_string());
            let range = text_value(&format!("bytes={start}-{last}")).map_err(place)?;
            call.headers.insert(RANGE, range);
        }
        let answer = self.blob.exchange(&call).await?;
        // Whoever asked for a part would take the beginning of the blob for it.
        if range.is_some_and(|range| range.start > 0)
            && answer.status != StatusCode::PARTIAL_CONTENT
        {
            return Err(place(Error::protocol(
                "the answer is not of the range that was asked for",
            )));
        }
        Ok(answer)
    }
}

impl IntoFuture for GetBlob {
    type Output = Result<Option<Downloaded>, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The bytes of a blob in pieces. If the blob does not exist, that is an error: [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
#[must_use = "a stream does nothing unless it is read"]
pub struct BlobStream {
    get: GetBlob,
    /// The first byte that has not been read yet.
    next: u64,
    end: Option<u64>,
    properties: Option<BlobProperties>,
    state: State,
}

enum State {
    Idle,
    Reading(BoxFuture<'static, Result<Option<Downloaded>, Error>>),
    Ended,
}

impl BlobStream {
    /// The properties of the blob, once the first piece has been read.
    pub fn properties(&self) -> Option<&BlobProperties> {
        self.properties.as_ref()
    }

    /// Reads the next piece; `None` at the end.
    fn read_next(&self) -> Option<BoxFuture<'static, Result<Option<Downloaded>, Error>>> {
        let blob_end = self.properties.as_ref().map(|properties| properties.bytes);
        let end = [self.end, blob_end].into_iter().flatten().min().unwrap_or(u64::MAX);
        if self.next >= end {
            return None;
        }
        let piece_end = end.min(self.next.saturating_add(self.get.piece_bytes));
        let range = Range { start: self.next, end: Some(piece_end) };
        let mut conditions = self.get.conditions.clone();
        let version: Option<&ETag> = self.properties.as_ref().map(|properties| &properties.etag);
        conditions.if_match = conditions.if_match.or_else(|| version.cloned());
        let get = GetBlob {
            blob: self.get.blob.clone(),
            range: Some(range),
            bytes_max: BYTES_MAX,
            piece_bytes: self.get.piece_bytes,
            conditions,
            options: self.get.options.clone(),
        };
        Some(Box::pin(read_piece(get, range)))
    }
}

/// `None` if the range begins at or after the end of the blob.
async fn read_piece(get: GetBlob, range: Range) -> Result<Option<Downloaded>, Error> {
    let place = |error| get.blob.place("get blob", error);
    match get.exchange(Some(range)).await {
        Ok(answer) => {
            let properties = BlobProperties::from_answer(&answer).map_err(place)?;
            Ok(Some(Downloaded { bytes: answer.body, properties }))
        }
        Err(error) if error.status() == Some(StatusCode::RANGE_NOT_SATISFIABLE) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Stream for BlobStream {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match &mut self.state {
                State::Idle => {
                    self.state = self.read_next().map_or(State::Ended, State::Reading);
                }
                State::Ended => return Poll::Ready(None),
                State::Reading(read) => match ready!(read.as_mut().poll(context)) {
                    Ok(Some(piece)) if !piece.bytes.is_empty() => {
                        self.next = self.next.saturating_add(piece.bytes.len() as u64);
                        self.properties = Some(piece.properties);
                        self.state = State::Idle;
                        return Poll::Ready(Some(Ok(piece.bytes)));
                    }
                    Ok(nothing) => {
                        self.state = State::Ended;
                        // The end of a blob that is read is known from its first piece on.
                        let found = nothing.as_ref().map(|piece| &piece.properties);
                        let blob_end = self.properties.as_ref().or(found).map(|known| known.bytes);
                        if blob_end.is_some_and(|end| self.next < end) {
                            let error =
                                Error::protocol("the bytes stop before the end of the blob");
                            let error = self.get.blob.place("get blob", error);
                            return Poll::Ready(Some(Err(error)));
                        }
                    }
                    Err(error) => {
                        self.state = State::Ended;
                        return Poll::Ready(Some(Err(error)));
                    }
                },
            }
        }
    }
}
