//! Append blobs.

use super::{BLOB_CONTENT_TYPE, BLOB_TYPE, Blob, Conditions, StoredBlob, conditional, prepare};
use crate::BoxFuture;
use crate::call::{CallOptions, header, text_value};
use crate::entity::ETag;
use crate::error::{Error, ErrorKind};
use crate::rest::{Parameters, too_large};
use crate::write::{Proof, unknown};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::limits::APPEND_BLOCK_BYTES_MAX;
use std::future::IntoFuture;

const APPEND_POSITION: HeaderName = HeaderName::from_static("x-ms-blob-condition-appendpos");
const APPEND_OFFSET: HeaderName = HeaderName::from_static("x-ms-blob-append-offset");

/// Creates an empty append blob.
#[must_use = "nothing is sent before `.await`"]
pub struct CreateAppendBlob {
    blob: Blob,
    content_type: Option<String>,
    conditions: Conditions,
    options: CallOptions,
}

impl CreateAppendBlob {
    pub(super) fn new(blob: &Blob) -> Self {
        let (conditions, options) = (Conditions::default(), CallOptions::default());
        Self { blob: blob.clone(), content_type: None, conditions, options }
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

    async fn run(self) -> Result<StoredBlob, Error> {
        let operation = "create append blob";
        let place = |error| self.blob.place(operation, error);
        let call = self.blob.call(operation, Method::PUT, Parameters::new());
        let mut call = prepare(call, &self.conditions, self.options).map_err(place)?;
        call.headers.insert(BLOB_TYPE, HeaderValue::from_static("AppendBlob"));
        if let Some(content_type) = &self.content_type {
            let value = text_value(content_type).map_err(place)?;
            call.headers.insert(BLOB_CONTENT_TYPE, value);
        }
        StoredBlob::from_answer(&self.blob.exchange(&call).await?).map_err(place)
    }
}

impl IntoFuture for CreateAppendBlob {
    type Output = Result<StoredBlob, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Bytes that were appended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Appended {
    /// Where they begin.
    pub offset: u64,
    /// The blob's version after the append.
    pub etag: ETag,
    /// How it is known that they were appended.
    pub proof: Proof,
}

/// Bytes to append.
#[must_use = "nothing is sent before `.await`"]
pub struct Append {
    blob: Blob,
    bytes: Bytes,
    position: Option<u64>,
    conditions: Conditions,
    options: CallOptions,
}

impl Append {
    pub(super) fn new(blob: &Blob, bytes: Bytes) -> Self {
        let (conditions, options) = (Conditions::default(), CallOptions::default());
        Self { blob: blob.clone(), bytes, position: None, conditions, options }
    }

    conditional!();

    /// Only if the blob has this length; otherwise [`Error::is_precondition_failed`]. After a lost answer the library
    /// checks what is stored, so that the bytes are not appended twice.
    pub fn at(self, position: u64) -> Self {
        Self { position: Some(position), ..self }
    }

    async fn run(self) -> Result<Appended, Error> {
        let place = |error| self.blob.place("append", error);
        if self.bytes.len() > APPEND_BLOCK_BYTES_MAX {
            let error = too_large(self.bytes.len() as u64, APPEND_BLOCK_BYTES_MAX as u64);
            return Err(place(error));
        }
        if self.bytes.is_empty() {
            return Err(place(Error::config("there is nothing to append")));
        }
        let query = Parameters::new().and("comp", "appendblock");
        let call = self.blob.call("append", Method::PUT, query);
        let env = &self.blob.account().0.env;
        let deadline = self.options.deadline(env);
        let mut call = prepare(call, &self.conditions, self.options).map_err(place)?;
        if let Some(position) = self.position {
            call.headers.insert(APPEND_POSITION, position.into());
        }
        call.body = self.bytes.clone();
        let answer = self.blob.send(&call).await?;
        if answer.status == StatusCode::CREATED {
            let offset = header(&answer.headers, &APPEND_OFFSET).and_then(|text| text.parse().ok());
            let offset =
                offset.ok_or_else(|| place(Error::protocol("the answer has no offset")))?;
            let StoredBlob { etag, .. } = StoredBlob::from_answer(&answer).map_err(place)?;
            return Ok(Appended { offset, etag, proof: Proof::Answered });
        }
        let is_ours_perhaps =
            answer.is_after_lost && answer.status == StatusCode::PRECONDITION_FAILED;
        let error = self.blob.refusal(answer, "append");
        let Some(position) = self.position.filter(|_| is_ours_perhaps) else { return Err(error) };
        // An earlier attempt may have appended them: check. Equal bytes from another client would be mistaken for
        // ours, as with an entity (C-13.7).
        let end = position.saturating_add(self.bytes.len() as u64);
        let look = self.blob.get().range(position..end);
        let look = look.with_options(CallOptions::default().until(deadline, env));
        let found = match look.await {
            Ok(found) => found,
            // The blob ends before.
            Err(cause) if cause.status() == Some(StatusCode::RANGE_NOT_SATISFIABLE) => None,
            Err(cause) => return Err(place(unknown(cause, "append"))),
        };
        let Some(found) = found.filter(|found| found.bytes == self.bytes) else {
            return Err(error);
        };
        if !self.blob.account().0.retry.trusts_content() {
            return Err(error.with_kind(ErrorKind::OutcomeUnknown));
        }
        let etag = found.properties.etag;
        Ok(Appended { offset: position, etag, proof: Proof::Content })
    }
}

impl IntoFuture for Append {
    type Output = Result<Appended, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
