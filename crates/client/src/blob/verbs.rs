//! Properties, metadata and deletion of a blob.

use super::{Blob, BlobProperties, Conditions, StoredBlob, conditional, prepare};
use crate::BoxFuture;
use crate::call::CallOptions;
use crate::error::Error;
use crate::rest::{self, Parameters};
use crate::write::{Deleted, Proof};
use http::{Method, StatusCode};
use lazuli_model::Metadata;
use std::future::IntoFuture;

pub(super) async fn head(blob: &Blob) -> Result<Option<BlobProperties>, Error> {
    let operation = "head blob";
    let answer = blob.send(&blob.call(operation, Method::HEAD, Parameters::new())).await?;
    match answer.status {
        StatusCode::OK => {
            let properties = BlobProperties::from_answer(&answer);
            properties.map(Some).map_err(|error| blob.place(operation, error))
        }
        // An answer to HEAD has no body, but the code is in a header too.
        _ => match blob.refusal(answer, operation) {
            error if error.is_absence() => Ok(None),
            error => Err(error),
        },
    }
}

/// A deletion.
#[must_use = "nothing is sent before `.await`"]
pub struct DeleteBlob {
    blob: Blob,
    conditions: Conditions,
    options: CallOptions,
}

impl DeleteBlob {
    pub(super) fn new(blob: &Blob) -> Self {
        let (conditions, options) = (Conditions::default(), CallOptions::default());
        Self { blob: blob.clone(), conditions, options }
    }

    conditional!();

    async fn run(self) -> Result<Deleted, Error> {
        let operation = "delete blob";
        let call = self.blob.call(operation, Method::DELETE, Parameters::new());
        let call = prepare(call, &self.conditions, self.options)
            .map_err(|error| self.blob.place(operation, error))?;
        let answer = self.blob.send(&call).await?;
        if answer.status == StatusCode::ACCEPTED {
            return Ok(Deleted::Now(Proof::Answered));
        }
        let is_after_lost = answer.is_after_lost;
        let error = self.blob.refusal(answer, operation);
        match error.is_absence() {
            // It is gone, deleted by us or another client (C-13).
            true if is_after_lost => Ok(Deleted::Now(Proof::State)),
            true => Ok(Deleted::WasAbsent),
            false => Err(error),
        }
    }
}

impl IntoFuture for DeleteBlob {
    type Output = Result<Deleted, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// A change of a blob's metadata.
#[must_use = "nothing is sent before `.await`"]
pub struct SetBlobMetadata {
    blob: Blob,
    metadata: Result<Metadata, Error>,
    conditions: Conditions,
    options: CallOptions,
}

impl SetBlobMetadata {
    pub(super) fn new(blob: &Blob, metadata: Result<Metadata, Error>) -> Self {
        let (conditions, options) = (Conditions::default(), CallOptions::default());
        Self { blob: blob.clone(), metadata, conditions, options }
    }

    conditional!();

    async fn run(self) -> Result<StoredBlob, Error> {
        let operation = "set blob metadata";
        let place = |error| self.blob.place(operation, error);
        let metadata = self.metadata.map_err(place)?;
        let query = Parameters::new().and("comp", "metadata");
        let call = self.blob.call(operation, Method::PUT, query);
        let mut call = prepare(call, &self.conditions, self.options).map_err(place)?;
        rest::write_metadata(&mut call.headers, &metadata).map_err(place)?;
        StoredBlob::from_answer(&self.blob.exchange(&call).await?).map_err(place)
    }
}

impl IntoFuture for SetBlobMetadata {
    type Output = Result<StoredBlob, Error>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
