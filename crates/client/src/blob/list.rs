//! Lists of blobs.

use super::{BlobKind, Container};
use crate::entity::ETag;
use crate::error::Error;
use crate::rest::{LIST_BYTES_MAX, Parameters};
use http::{Method, StatusCode};
use lazuli_model::Timestamp;
use lazuli_wire::xml;

/// A blob in a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BlobItem {
    /// Its name.
    pub name: String,
    /// Its version.
    pub etag: Option<ETag>,
    /// When it was last written.
    pub last_modified: Option<Timestamp>,
    /// Its length.
    pub bytes: u64,
    /// Its content type.
    pub content_type: Option<String>,
    /// Its kind; `None` for one unknown to this library.
    pub kind: Option<BlobKind>,
}

/// One page of a list, or all of it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BlobList {
    /// The blobs, in the order of their names.
    pub blobs: Vec<BlobItem>,
    /// With a delimiter: the common prefixes of blobs whose names contain it after the prefix.
    pub prefixes: Vec<String>,
    /// Where the list continues: see [`ListBlobs::after`]. `None` at its end.
    pub next: Option<String>,
}

/// A listing of a container.
#[derive(Clone, Debug)]
#[must_use = "nothing is sent before `page` or `all`"]
pub struct ListBlobs {
    container: Container,
    prefix: String,
    delimiter: String,
    page_size: Option<u32>,
    marker: Option<String>,
}

impl ListBlobs {
    pub(super) fn new(container: &Container) -> Self {
        Self {
            container: container.clone(),
            prefix: String::new(),
            delimiter: String::new(),
            page_size: None,
            marker: None,
        }
    }

    /// Only blobs whose names have this prefix.
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), ..self }
    }

    /// Names that contain `delimiter` after the prefix are listed once, as a prefix: `/` lists like a directory.
    pub fn delimiter(self, delimiter: &str) -> Self {
        Self { delimiter: delimiter.to_owned(), ..self }
    }

    /// The number of blobs and prefixes in a page: 1 to 5,000, by default 5,000.
    pub fn page_size(self, items: u32) -> Self {
        Self { page_size: Some(items.clamp(1, 5000)), ..self }
    }

    /// Continues from the `next` of an earlier page.
    pub fn after(self, next: &str) -> Self {
        Self { marker: Some(next.to_owned()), ..self }
    }

    /// Reads one page. An empty page need not be the last.
    pub async fn page(&self) -> Result<BlobList, Error> {
        let operation = "list blobs";
        let place = |error| self.container.place(operation, error);
        let some = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let page_size = self.page_size.map(|size| size.to_string());
        let query = Parameters::new()
            .and("comp", "list")
            .and_if("prefix", some(&self.prefix).as_deref())
            .and_if("delimiter", some(&self.delimiter).as_deref())
            .and_if("maxresults", page_size.as_deref())
            .and_if("marker", self.marker.as_deref());
        let mut call = self.container.call(operation, Method::GET, query);
        call.answer_bytes_max = LIST_BYTES_MAX;
        let answer = self.container.send(&call).await?;
        if answer.status != StatusCode::OK {
            return Err(place(answer.into_error(operation)));
        }
        let page = xml::read_blobs(&answer.body).map_err(|fault| place(Error::protocol(fault)))?;
        let item = |blob: xml::AnsweredBlob| BlobItem {
            name: blob.name,
            etag: blob.etag.as_deref().map(ETag::new),
            last_modified: blob.last_modified,
            bytes: blob.bytes,
            content_type: blob.content_type,
            kind: blob.blob_type.as_deref().and_then(BlobKind::parse),
        };
        Ok(BlobList {
            blobs: page.blobs.into_iter().map(item).collect(),
            prefixes: page.prefixes,
            next: page.next_marker,
        })
    }

    /// Reads pages until there are `max` blobs and prefixes or the list ends; `next` shows which.
    pub async fn at_most(mut self, max: usize) -> Result<BlobList, Error> {
        let mut list = BlobList::default();
        while list.blobs.len() + list.prefixes.len() < max {
            let left = max - list.blobs.len() - list.prefixes.len();
            let size = u32::try_from(left).unwrap_or(u32::MAX).min(self.page_size.unwrap_or(5000));
            let page = self.clone().page_size(size).page().await?;
            list.blobs.extend(page.blobs);
            list.prefixes.extend(page.prefixes);
            list.next = page.next;
            match &list.next {
                Some(next) => self = self.after(next),
                None => break,
            }
        }
        Ok(list)
    }
}
