//! Writes a whole blob: in one request, or in blocks.

use super::{BLOB_CONTENT_TYPE, BLOB_TYPE, Blob, Conditions, blocks, conditional, prepare};
use crate::BoxFuture;
use crate::call::{Answer, Call, CallOptions, header, text_value};
use crate::entity::ETag;
use crate::error::Error;
use crate::rest::{self, Parameters};
use bytes::Bytes;
use http::header::{ETAG, LAST_MODIFIED};
use http::{HeaderValue, Method};
use lazuli_model::{Metadata, Timestamp};
use std::future::IntoFuture;

/// Larger blobs are written in blocks (C-17.4).
const SINGLE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// A blob that was written.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoredBlob {
    /// The new version, which can be used at once.
    pub etag: ETag,
    /// When it was written, by the service's clock.
    pub last_modified: Timestamp,
}

impl StoredBlob {
    pub(super) fn from_answer(answer: &Answer) -> Result<Self, Error> {
        let etag = header(&answer.headers, &ETAG).map(ETag::new);
        let last_modified = rest::time(&answer.headers, &LAST_MODIFIED);
        match (etag, last_modified) {
            (Some(etag), Some(last_modified)) => Ok(Self { etag, last_modified }),
            _ => Err(Error::protocol("a write was answered without an ETag or Last-Modified")),
        }
    }
}

/// A write of a blob.
///
/// A blob appears completely or not at all, however it is written. If the answer is lost, the write is retried;
/// with a condition the retry may fail because of the first attempt, and the error then says so:
/// [`Error::may_have_been_applied`].
#[must_use = "nothing is sent before `.await`"]
pub struct PutBlob {
    pub(super) blob: Blob,
    pub(super) bytes: Bytes,
    content_type: Option<String>,
    metadata: Result<Metadata, Error>,
    single_bytes_max: usize,
    pub(super) block_bytes: usize,
    pub(super) concurrency: usize,
    pub(super) conditions: Conditions,
    pub(super) options: CallOptions,
}

impl PutBlob {
    pub(super) fn new(blob: &Blob, bytes: Bytes) -> Self {
        Self {
            blob: blob.clone(),
            bytes,
            content_type: None,
            metadata: Ok(Metadata::default()),
            single_bytes_max: SINGLE_BYTES_MAX,
            block_bytes: blocks::BLOCK_BYTES,
            concurrency: blocks::CONCURRENCY,
            conditions: Conditions::default(),
            options: CallOptions::default(),
        }
    }

    conditional!();

    /// Only if no blob has this name.
    pub fn if_absent(mut self) -> Self {
        self.conditions.if_absent = true;
        self
    }

    /// The content type, by default `application/octet-stream`.
    pub fn content_type(self, content_type: &str) -> Self {
        Self { content_type: Some(content_type.to_owned()), ..self }
    }

    /// Names and values to store with the blob.
    pub fn metadata<'a>(self, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self { metadata: rest::metadata(pairs), ..self }
    }

    /// Larger blobs are written in blocks: 32 MiB by default. One request must finish within the timeout of an
    /// attempt.
    pub fn single_bytes_max(self, bytes: usize) -> Self {
        Self { single_bytes_max: bytes, ..self }
    }

    /// The size of a block, 8 MiB by default, and the number of concurrent blocks, 4 by default.
    pub fn blocks(self, bytes: usize, concurrency: usize) -> Self {
        Self { block_bytes: bytes.max(1), concurrency: concurrency.max(1), ..self }
    }

    async fn run(self) -> Result<StoredBlob, Error> {
        let answer = if self.bytes.len() > self.single_bytes_max {
            blocks::put(&self).await?
        } else {
            let mut call = self.call("put blob", Parameters::new(), self.bytes.clone())?;
            call.headers.insert(BLOB_TYPE, HeaderValue::from_static("BlockBlob"));
            self.blob.exchange(&call).await?
        };
        StoredBlob::from_answer(&answer).map_err(|error| self.blob.place("put blob", error))
    }

    /// The request that makes the blob visible, with the conditions, the content type and the metadata.
    pub(super) fn call(
        &self,
        operation: &'static str,
        query: Parameters,
        body: Bytes,
    ) -> Result<Call, Error> {
        let build = || {
            let call = self.blob.call(operation, Method::PUT, query);
            let mut call = prepare(call, &self.conditions, self.options.clone())?;
            if let Some(content_type) = &self.content_type {
                call.headers.insert(BLOB_CONTENT_TYPE, text_value(content_type)?);
            }
            match &self.metadata {
                Ok(metadata) => rest::write_metadata(&mut call.headers, metadata)?,
                Err(error) => return Err(Error::config(error.to_string())),
            }
            call.body = body;
            Ok(call)
        };
        build().map_err(|error| self.blob.place(operation, error))
    }
}

impl IntoFuture for PutBlob {
    type Output = Result<StoredBlob, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
