//! The properties that a service returns for a blob.

use super::BLOB_TYPE;
use crate::call::{Answer, header};
use crate::entity::ETag;
use crate::error::Error;
use crate::rest;
use http::HeaderName;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED};
use lazuli_model::{Metadata, Timestamp};

const CREATED: HeaderName = HeaderName::from_static("x-ms-creation-time");
const LEASE_STATE: HeaderName = HeaderName::from_static("x-ms-lease-state");

/// The kind of a blob.
///
/// ```no_run
/// # use lazuli_client::blob::{Blob, BlobKind};
/// # async fn run(log: Blob) -> Result<(), lazuli_client::Error> {
/// let kind = log.head().await?.and_then(|properties| properties.kind);
/// assert_eq!(kind, Some(BlobKind::Append));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlobKind {
    /// Written as a whole, or in blocks.
    Block,
    /// Can be appended to.
    Append,
    /// Pages, which this library does not write (C-17.7).
    Page,
}

impl BlobKind {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "BlockBlob" => Some(Self::Block),
            "AppendBlob" => Some(Self::Append),
            "PageBlob" => Some(Self::Page),
            _ => None,
        }
    }
}

/// The properties of a blob.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlobProperties {
    /// Its version.
    pub etag: ETag,
    /// When it was last written.
    pub last_modified: Timestamp,
    /// When it was created, if the service reports that.
    pub created: Option<Timestamp>,
    /// The length of the whole blob.
    pub bytes: u64,
    /// Its content type.
    pub content_type: Option<String>,
    /// Its kind; `None` for one unknown to this library.
    pub kind: Option<BlobKind>,
    /// Whether it has a lease.
    pub is_leased: bool,
    /// Its metadata, names in lower case.
    pub metadata: Metadata,
}

impl BlobProperties {
    /// Reads the headers of Get Blob or Get Blob Properties.
    pub(super) fn from_answer(answer: &Answer) -> Result<Self, Error> {
        let headers = &answer.headers;
        let text = |name: &HeaderName| header(headers, name);
        let (Some(etag), Some(last_modified)) = (text(&ETAG), rest::time(headers, &LAST_MODIFIED))
        else {
            return Err(Error::protocol("the answer has no ETag or no Last-Modified"));
        };
        // For a range, the total length follows the slash.
        let whole = text(&CONTENT_RANGE).and_then(|range| range.rsplit('/').next());
        let bytes = whole.or_else(|| text(&CONTENT_LENGTH)).and_then(|text| text.parse().ok());
        Ok(Self {
            etag: ETag::new(etag),
            last_modified,
            created: rest::time(headers, &CREATED),
            bytes: bytes.unwrap_or(answer.body.len() as u64),
            content_type: text(&CONTENT_TYPE).map(str::to_owned),
            kind: text(&BLOB_TYPE).and_then(BlobKind::parse),
            is_leased: matches!(text(&LEASE_STATE), Some("leased" | "breaking")),
            metadata: rest::read_metadata(headers),
        })
    }
}
