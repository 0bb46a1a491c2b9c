//! Fetches the pages of a query, part by part.

use super::plan::Part;
use super::snapshot::Snapshot;
use super::{Decode, parameter};
use crate::account::Account;
use crate::call::{About, Call, CallOptions, header};
use crate::codec;
use crate::entity::{Entity, Loaded};
use crate::error::{Error, ErrorKind};
use crate::shape::Declared;
use crate::table::read_point;
use crate::tables;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http::{HeaderName, StatusCode};
use lazuli_model::limits::PAGE_ITEMS_MAX;
use lazuli_model::{EntityKey, TableName};
use lazuli_wire::odata::json;

const NEXT_PARTITION_KEY: HeaderName =
    HeaderName::from_static("x-ms-continuation-nextpartitionkey");
const NEXT_ROW_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextrowkey");

/// Concurrent point reads for one page (C-7.3).
pub(crate) const POINTS_AT_ONCE: usize = 16;

/// Entities decrypted concurrently: their key may be in a service.
const OPENED_AT_ONCE: usize = 16;

/// Where a page of a part begins: the service's continuation keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) partition: Option<String>,
    pub(crate) row: Option<String>,
}

/// Some entities of a part, and where it continues.
pub(super) struct Fetched<T> {
    pub(super) items: Vec<Loaded<T>>,
    pub(super) next: Option<Position>,
}

/// One part of a query, encoded.
#[derive(Debug)]
pub(super) enum Piece {
    Point(EntityKey),
    /// The parameters of the request.
    Query(String),
}

/// What all pages of a query share.
pub(super) struct Source<T> {
    pub(super) account: Account,
    pub(super) table: TableName,
    pub(super) pieces: Vec<Piece>,
    /// For every point read: the selection.
    pub(super) point_query: String,
    pub(super) page_size: Option<usize>,
    pub(super) options: CallOptions,
    /// The filter and the class of the plan, as spans show them.
    pub(super) shown_filter: Option<String>,
    pub(super) class: &'static str,
    #[cfg(feature = "patterns")]
    pub(super) facts: Option<crate::patterns::advisor::FilterFacts>,
    /// Empty pages since the last page with entities.
    #[cfg(feature = "patterns")]
    pub(super) empty_pages: std::sync::atomic::AtomicU32,
    pub(super) decode: Decode<T>,
    pub(super) skips_bad: bool,
    /// The declaration of the table's type.
    pub(super) declared: Declared,
    /// The selected properties; empty if all are.
    pub(super) select: Vec<String>,
    /// The snapshot that all pages read, if there is one.
    pub(super) snapshot: Option<Snapshot>,
}

impl Piece {
    pub(super) fn new(part: Part, select: &str) -> Self {
        match part {
            Part::Point(key) => Self::Point(key),
            Part::Query(filter) => {
                let filter = filter.map(|filter| crate::Filter::from(filter).to_string());
                let mut query = String::new();
                parameter(&mut query, "$filter", &filter.unwrap_or_default());
                parameter(&mut query, "$select", select);
                Self::Query(query)
            }
        }
    }
}

/// Size of a small entity in a page.
const ENTITY_BYTES_FEW: usize = 256;

/// The entities of a page, each mapped by `read`, or the first error.
fn read_items<T>(
    body: &[u8],
    mut read: impl FnMut(json::AnsweredEntity<'_>) -> Result<Option<T>, Error>,
) -> Result<Vec<T>, Error> {
    // Room for the entities of most pages: growing a vector would copy more bytes than this takes.
    let mut items = Vec::with_capacity((body.len() / ENTITY_BYTES_FEW).min(PAGE_ITEMS_MAX));
    let mut fault = None;
    json::read_feed(body, |entity| match read(entity) {
        Ok(item) => items.extend(item),
        Err(error) => {
            fault.get_or_insert(error);
        }
    })
    .map_err(Error::protocol)?;
    fault.map_or(Ok(items), Err)
}

impl<T: Send + 'static> Source<T> {
    /// How many pieces, from `first` on, one page covers: one query, or several points.
    pub(super) fn pieces_of_page(&self, first: usize, wanted: Option<usize>) -> usize {
        let is_point = |piece: &&Piece| matches!(piece, Piece::Point(_));
        let points = self.pieces.iter().skip(first).take_while(is_point);
        points.take(self.page_items(wanted)).count().max(1)
    }

    /// The most entities in a page.
    fn page_items(&self, wanted: Option<usize>) -> usize {
        let size = self.page_size.unwrap_or(PAGE_ITEMS_MAX);
        size.min(wanted.unwrap_or(size)).max(1)
    }

    /// Fetches a page that covers `count` pieces. An error changes nothing: the page can be fetched again.
    pub(super) async fn fetch(
        &self,
        first: usize,
        count: usize,
        position: Option<Position>,
        wanted: Option<usize>,
    ) -> Result<Fetched<T>, Error> {
        let pieces = self.pieces.get(first..first + count).unwrap_or_default();
        let fetched = match pieces {
            [Piece::Query(query)] => self.fetch_query(query, position, wanted).await,
            points => self.fetch_points(points).await,
        };
        if let (Some(snapshot), Ok(Fetched { next: None, .. })) = (&self.snapshot, &fetched) {
            snapshot.finish(&self.account, &self.table, &self.options, count).await;
        }
        fetched.map_err(|error| error.at("query", Some(self.table.as_str()), None))
    }

    async fn fetch_points(&self, points: &[Piece]) -> Result<Fetched<T>, Error> {
        let reads = points.iter().filter_map(|piece| match piece {
            Piece::Point(key) => Some(self.fetch_point(key.clone())),
            Piece::Query(_) => None,
        });
        let reads: Vec<_> = reads.collect();
        let found: Vec<Option<Loaded<T>>> =
            stream::iter(reads).buffered(POINTS_AT_ONCE).try_collect().await?;
        Ok(Fetched { items: found.into_iter().flatten().collect(), next: None })
    }

    async fn fetch_point(&self, key: EntityKey) -> Result<Option<Loaded<T>>, Error> {
        let options = self.options().await?;
        let query = self.point_query.clone();
        let answer = read_point(&self.account, &self.table, &key, query, options).await?;
        let Some(answer) = answer else { return Ok(None) };
        let item = if self.account.1.is_some() {
            self.opened(answer.raw()?).await
        } else {
            self.item(answer.entity()?, answer.etag())
        };
        item.map_err(|error| error.at("get", Some(self.table.as_str()), Some(&key)))
    }

    /// Decodes a row; `None` if it is left out.
    fn item(
        &self,
        entity: json::AnsweredEntity<'_>,
        etag: Option<&str>,
    ) -> Result<Option<Loaded<T>>, Error> {
        let item = Loaded::from_answer(entity, etag, self.declared.all, &*self.decode);
        self.skip_bad(item.map(|item| self.marked(item)))
    }

    /// Notes if only some properties of the row were read.
    fn marked(&self, item: Option<Loaded<T>>) -> Option<Loaded<T>> {
        if self.select.is_empty() { item } else { item.map(Loaded::selected) }
    }

    /// Decrypts and decodes a row.
    async fn opened(&self, raw: Loaded<Entity>) -> Result<Option<Loaded<T>>, Error> {
        let (declared, decode) = (self.declared, &*self.decode);
        let item = codec::open(&self.account, raw, declared, &self.select, decode).await;
        self.skip_bad(item.map(|item| self.marked(item)))
    }

    fn skip_bad(&self, item: Result<Option<Loaded<T>>, Error>) -> Result<Option<Loaded<T>>, Error> {
        match item {
            Err(error) if self.skips_bad && matches!(error.kind(), ErrorKind::Decode(_)) => {
                tracing::debug!(%error, "left out an entity that cannot be read");
                Ok(None)
            }
            item => item,
        }
    }

    async fn fetch_query(
        &self,
        query: &str,
        position: Option<Position>,
        wanted: Option<usize>,
    ) -> Result<Fetched<T>, Error> {
        let call = Call { options: self.options().await?, ..self.call(query, position, wanted) };
        let answer = self.account.exchange(&call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.into_error("query"));
        }
        let items = if self.account.1.is_some() {
            let raw = read_items(&answer.body, |entity| {
                Loaded::raw(entity, None, self.declared.all).map(Some)
            })?;
            let opened = stream::iter(raw).map(|raw| self.opened(raw)).buffered(OPENED_AT_ONCE);
            let items: Vec<Option<Loaded<T>>> = opened.try_collect().await?;
            items.into_iter().flatten().collect()
        } else {
            read_items(&answer.body, |entity| self.item(entity, None))?
        };
        let next = |name| header(&answer.headers, name).map(str::to_owned);
        let next = Position { partition: next(&NEXT_PARTITION_KEY), row: next(&NEXT_ROW_KEY) };
        let next = (next != Position::default()).then_some(next);
        #[cfg(feature = "patterns")]
        self.advise(&call, &answer, items.len(), next.is_some());
        self.account.observe_page(&call, &answer, items.len());
        Ok(Fetched { items, next })
    }

    /// The options of a request.
    async fn options(&self) -> Result<CallOptions, Error> {
        match &self.snapshot {
            Some(snapshot) => snapshot.reading(&self.account, &self.table, &self.options).await,
            None => Ok(self.options.clone()),
        }
    }

    /// Shows a page to the advisor, with the empty pages before it.
    #[cfg(feature = "patterns")]
    fn advise(&self, call: &Call, answer: &crate::call::Answer, returned: usize, has_more: bool) {
        use std::sync::atomic::Ordering;
        let before = match returned {
            0 if has_more => self.empty_pages.fetch_add(1, Ordering::Relaxed),
            _ => self.empty_pages.swap(0, Ordering::Relaxed),
        };
        let page = crate::patterns::advisor::Page { returned, has_more, empty_before: before };
        self.account.advise_query(call, answer, &page);
    }

    fn call(&self, query: &str, position: Option<Position>, wanted: Option<usize>) -> Call {
        let mut query = query.to_owned();
        let top = self.page_items(wanted);
        if top < PAGE_ITEMS_MAX {
            parameter(&mut query, "$top", &top.to_string());
        }
        if let Some(position) = position {
            let next = |key: &Option<String>| key.clone().unwrap_or_default();
            parameter(&mut query, "NextPartitionKey", &next(&position.partition));
            parameter(&mut query, "NextRowKey", &next(&position.row));
        }
        Call {
            answer_bytes_max: tables::PAGE_BYTES_MAX,
            about: About {
                filter: self.shown_filter.clone(),
                query_class: Some(self.class),
                #[cfg(feature = "patterns")]
                facts: self.facts.clone(),
                ..About::default()
            },
            ..tables::read("query", format!("/{}()", self.table.as_str()), query)
        }
    }
}
