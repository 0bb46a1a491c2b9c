//! Blobs, as far as the patterns need them (C-17.4 to C-17.7).
//!
//! ```no_run
//! # use lazuli_client::prelude::*;
//! # async fn run(account: Account) -> Result<(), Error> {
//! let pics = account.blobs().create_if_missing("pics").await?;
//! let blob = pics.blob("2026/a.txt")?;
//! let written = blob.put("hello").content_type("text/plain").await?;
//! let read = blob.get().await?.expect("just written");
//! assert_eq!(read.bytes, "hello");
//! blob.put("bye").if_match(&written.etag).await?;
//! # Ok(())
//! # }
//! ```

mod append;
mod blocks;
mod container;
mod get;
mod lease;
mod list;
mod properties;
mod put;
mod verbs;

pub use append::{Append, Appended, CreateAppendBlob};
pub use container::{Blobs, Container};
pub use get::{BlobStream, Downloaded, GetBlob};
pub use lease::{Lease, LeaseTime};
pub use list::{BlobItem, BlobList, ListBlobs};
pub use properties::{BlobKind, BlobProperties};
pub use put::{PutBlob, StoredBlob};
pub use verbs::{DeleteBlob, SetBlobMetadata};

use crate::account::Account;
use crate::call::{Answer, Call, CallOptions, text_value};
use crate::entity::ETag;
use crate::error::Error;
use crate::rest::{self, Parameters};
use bytes::Bytes;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, HeaderValue, Method};
use lazuli_model::{BlobName, ContainerName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::uri::write_blob_path;
use std::fmt;

const LEASE_ID: HeaderName = HeaderName::from_static("x-ms-lease-id");
const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
const BLOB_CONTENT_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-content-type");

/// A blob, which may or may not exist. Cheap to clone.
///
/// ```no_run
/// use lazuli_client::ReadFrom;
/// use lazuli_client::blob::LeaseTime;
/// use std::time::Duration;
///
/// # async fn run(pics: lazuli_client::blob::Container) -> Result<(), lazuli_client::Error> {
/// const MIB: usize = 1024 * 1024;
/// let film = pics.blob("2026/summer.mp4")?;
/// let stored = film
///     .put(vec![0; 100 * MIB])
///     .if_absent()
///     .metadata([("camera", "7")])
///     .single_bytes_max(16 * MIB) // larger ones in blocks of 4 MiB, 8 at a time
///     .blocks(4 * MIB, 8)
///     .timeout(Duration::from_secs(600))
///     .await?;
/// println!("{} in {}: {}", film.name(), film.container_name(), stored.etag);
///
/// // Nobody else writes while the lease lasts.
/// let lease = film.acquire_lease(LeaseTime::Seconds(60)).await?;
/// film.set_metadata([("camera", "8")]).lease(&lease).await?;
/// lease.release().await?;
/// let seconds = film.break_lease(Some(0)).await?; // someone else's, in an emergency
///
/// let preview = film.get().range(..1024).bytes_max(1024).await?;
/// let whole = film.get().read_from(ReadFrom::Secondary).piece_bytes(8 << 20).stream();
///
/// let log = pics.blob("2026/log.txt")?;
/// log.create_append().if_absent().content_type("text/plain").await?;
/// log.append("first\n").at(0).await?;
///
/// // The directories and files of `2026`, as a file browser shows them.
/// let list = pics.list().prefix("2026/").delimiter("/").at_most(1000).await?;
/// for item in &list.blobs {
///     println!("{} {} {:?}", item.name, item.bytes, item.kind);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Blob {
    account: Account,
    container: ContainerName,
    name: BlobName,
}

impl Blob {
    /// The blob's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// The name of its container.
    pub fn container_name(&self) -> &str {
        self.container.as_str()
    }

    /// The blob's address, without a signature.
    pub fn address(&self) -> Result<String, Error> {
        let endpoint = self.account.0.endpoint(StorageService::Blob);
        let endpoint = endpoint.ok_or_else(|| Error::config("the account has no blob endpoint"))?;
        let mut path = Vec::new();
        write_blob_path(&mut path, self.name.as_str());
        let path = String::from_utf8(path).unwrap_or_default();
        let base = endpoint.primary.trim_end_matches('/');
        Ok(format!("{base}/{}/{path}", self.container))
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// Writes the whole blob, replacing an existing one unless [`PutBlob::if_absent`] or [`PutBlob::if_match`] says
    /// otherwise.
    pub fn put(&self, bytes: impl Into<Bytes>) -> PutBlob {
        PutBlob::new(self, bytes.into())
    }

    /// Reads the blob; `None` if it does not exist. At most 64 MiB, unless [`GetBlob::bytes_max`] says otherwise;
    /// [`GetBlob::stream`] reads one of any size.
    pub fn get(&self) -> GetBlob {
        GetBlob::new(self)
    }

    /// Reads the blob's properties and metadata; `None` if it does not exist.
    pub async fn head(&self) -> Result<Option<BlobProperties>, Error> {
        verbs::head(self).await
    }

    /// Deletes the blob if it exists.
    pub fn delete(&self) -> DeleteBlob {
        DeleteBlob::new(self)
    }

    /// Replaces the blob's metadata.
    pub fn set_metadata<'a>(
        &self,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> SetBlobMetadata {
        SetBlobMetadata::new(self, rest::metadata(pairs))
    }

    /// Creates an empty append blob, replacing an existing blob unless [`CreateAppendBlob::if_absent`] says
    /// otherwise.
    pub fn create_append(&self) -> CreateAppendBlob {
        CreateAppendBlob::new(self)
    }

    /// Appends up to 4 MiB to an append blob. If the answer is lost and the request is retried, the bytes may be
    /// appended twice, unless [`Append::at`] names the position.
    pub fn append(&self, bytes: impl Into<Bytes>) -> Append {
        Append::new(self, bytes.into())
    }

    /// Acquires a lease on the blob: others cannot write or delete it while the lease is active. Fails with a
    /// conflict if the blob has a lease.
    pub async fn acquire_lease(&self, time: LeaseTime) -> Result<Lease, Error> {
        Lease::acquire(self, time).await
    }

    /// Breaks any lease on the blob. Returns the number of seconds until the blob is free: at once if
    /// `after_seconds` is 0; when the lease would expire if it is `None`.
    pub async fn break_lease(&self, after_seconds: Option<u32>) -> Result<u32, Error> {
        lease::break_lease(self, after_seconds).await
    }

    fn call(&self, operation: &'static str, method: Method, query: Parameters) -> Call {
        let mut path = format!("/{}/", self.container).into_bytes();
        write_blob_path(&mut path, self.name.as_str());
        let path = String::from_utf8(path).unwrap_or_default();
        rest::call(StorageService::Blob, operation, method, path, query)
    }

    /// Sends a call; the caller checks the status.
    async fn send(&self, call: &Call) -> Result<Answer, Error> {
        self.account.exchange(call).await.map_err(|error| self.place(call.operation, error))
    }

    /// Sends a call; an error answer is an error.
    async fn exchange(&self, call: &Call) -> Result<Answer, Error> {
        let answer = self.send(call).await?;
        if answer.status.is_success() {
            return Ok(answer);
        }
        Err(self.refusal(answer, call.operation))
    }

    fn refusal(&self, answer: Answer, operation: &'static str) -> Error {
        self.place(operation, answer.into_error(operation))
    }

    fn place(&self, operation: &'static str, error: Error) -> Error {
        error.at(operation, Some(&format!("{}/{}", self.container, self.name)), None)
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = format!("{}/{}", self.container, self.name);
        f.debug_tuple("Blob").field(&path).finish()
    }
}

/// Conditions of a request.
#[derive(Clone, Debug, Default)]
struct Conditions {
    if_match: Option<ETag>,
    if_absent: bool,
    lease: Option<String>,
}

impl Conditions {
    fn write(&self, call: &mut Call) -> Result<(), Error> {
        if let Some(etag) = &self.if_match {
            call.headers.insert(IF_MATCH, text_value(etag.as_str())?);
        }
        if self.if_absent {
            call.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if let Some(lease) = &self.lease {
            call.headers.insert(LEASE_ID, text_value(lease)?);
        }
        Ok(())
    }
}

/// Methods common to several operations: conditions and the timeout.
macro_rules! conditional {
    () => {
        /// Only if the blob still has this version.
        pub fn if_match(mut self, etag: &$crate::entity::ETag) -> Self {
            self.conditions.if_match = Some(etag.clone());
            self
        }

        /// Sends the id of a lease held on the blob.
        pub fn lease(mut self, lease: &$crate::blob::Lease) -> Self {
            self.conditions.lease = Some(lease.id().to_owned());
            self
        }

        /// Limits the time of the operation with all its attempts.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.options.timeout = Some(timeout);
            self
        }
    };
}
use conditional;

/// A call with conditions and options.
fn prepare(mut call: Call, conditions: &Conditions, options: CallOptions) -> Result<Call, Error> {
    call.options = options;
    conditions.write(&mut call)?;
    Ok(call)
}
