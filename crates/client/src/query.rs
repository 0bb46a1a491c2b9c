//! Queries, page by page or entity by entity (C-7.4, C-8).

use crate::BoxFuture;
use crate::account::Account;
use crate::call::{Call, CallOptions, ReadFrom, header};
use crate::codec;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::Filter;
use crate::key::KeyError;
use crate::kind::Kind;
use crate::layout::Layout;
use crate::page_token::PageToken;
use crate::table::Table;
use crate::tables;
use crate::value::DecodeError;
use futures_core::Stream;
use http::{HeaderName, StatusCode};
use lazuli_model::TableName;
use lazuli_model::key_text::fnv1a;
use lazuli_wire::odata::json;
use lazuli_wire::uri::percent_encode;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

const NEXT_PARTITION_KEY: HeaderName =
    HeaderName::from_static("x-ms-continuation-nextpartitionkey");
const NEXT_ROW_KEY: HeaderName = HeaderName::from_static("x-ms-continuation-nextrowkey");

/// Entities of a page, at most (T-4.50).
const PAGE_ENTITIES_MAX: u16 = 1000;
/// What every entity needs to be loaded.
const ALWAYS_SELECTED: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];
/// Bytes of a URL that the service takes (C-7.13).
const URL_BYTES_MAX: usize = 32 * 1024;

/// Makes a value of an entity; `None` leaves it out.
pub(crate) type Decode<T> = Arc<dyn Fn(Entity) -> Result<Option<T>, Error> + Send + Sync>;

/// What a query looks for: a [`Filter`], or a range of keys.
#[derive(Debug)]
pub struct Selection {
    filter: Option<Filter>,
    fault: Option<Error>,
    /// Whether it names the rows of the type already.
    is_narrow: bool,
}

impl Selection {
    /// All rows.
    pub(crate) fn all() -> Self {
        Self { filter: None, fault: None, is_narrow: false }
    }

    /// A range of keys, if there are such keys.
    pub(crate) fn of_keys(filter: Result<Filter, KeyError>) -> Self {
        match filter {
            Ok(filter) => Self { filter: Some(filter), fault: None, is_narrow: true },
            Err(error) => Self { filter: None, fault: Some(error.into()), is_narrow: true },
        }
    }
}

impl From<Filter> for Selection {
    fn from(filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::all() }
    }
}

/// The condition that rows of a type fulfil, as far as its declaration tells.
fn own_rows<T: TableEntity>() -> Option<Filter> {
    let Layout { row_prefix, own_after, .. } = T::LAYOUT;
    let prefix = (!row_prefix.is_empty()).then(|| crate::filter::row().starts_with(row_prefix));
    let kind = if own_after > 0 { T::KIND.map(Kind::filter) } else { None };
    match (prefix, kind) {
        (Some(prefix), Some(kind)) => Some(prefix.and(kind)),
        (prefix, kind) => prefix.or(kind),
    }
}

/// A query that is being described.
#[must_use = "nothing is sent before the pages or the stream are polled"]
pub struct Query<T> {
    account: Account,
    table: TableName,
    filter: Option<Filter>,
    fault: Option<Error>,
    may_scan: bool,
    skips_bad: bool,
    decode: Decode<T>,
    select: Vec<String>,
    page_size: Option<u16>,
    take: Option<usize>,
    resume: Option<PageToken>,
    options: CallOptions,
}

impl<T: TableEntity> Query<T> {
    pub(crate) fn new(table: &Table<T>, selection: Selection, may_scan: bool) -> Self {
        let Selection { filter, fault, is_narrow } = selection;
        // Rows of other types are not read, not merely skipped (C-6.3).
        let own = if is_narrow { None } else { own_rows::<T>() };
        let filter = match (filter, own) {
            (Some(filter), Some(own)) => Some(filter.and(own)),
            (filter, own) => filter.or(own),
        };
        Self {
            account: table.account.clone(),
            table: table.name.clone(),
            filter,
            fault,
            may_scan,
            skips_bad: false,
            decode: Arc::new(codec::decode),
            select: Vec::new(),
            page_size: None,
            take: None,
            resume: None,
            options: CallOptions::default(),
        }
    }
}

impl<T: Send + 'static> Query<T> {
    /// The same rows, of which `decode` makes something else.
    pub(crate) fn decoded<R>(self, select: Vec<String>, decode: Decode<R>) -> Query<R> {
        Query {
            account: self.account,
            table: self.table,
            filter: self.filter,
            fault: self.fault,
            may_scan: self.may_scan,
            skips_bad: self.skips_bad,
            decode,
            select,
            page_size: self.page_size,
            take: self.take,
            resume: self.resume,
            options: self.options,
        }
    }

    /// What a function makes of each entity (C-6.5).
    pub fn resolve<R: Send + 'static>(
        self,
        resolve: impl Fn(&Entity) -> Result<R, DecodeError> + Send + Sync + 'static,
    ) -> Query<R> {
        let select = self.select.clone();
        let decode = move |entity: Entity| Ok(Some(resolve(&entity)?));
        self.decoded(select, Arc::new(decode))
    }

    /// Leaves out entities that are not what the type says, instead of failing.
    pub fn skip_bad(self) -> Self {
        Self { skips_bad: true, ..self }
    }

    /// Only entities of which this is true as well.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter {
            Some(known) => known.and(filter),
            None => filter,
        });
        self
    }

    /// Only these properties; keys and Timestamp always come too.
    pub fn select_names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.select = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Entities of one page, 1 to 1000. The service may return fewer, and none, before the end.
    pub fn page_size(mut self, entities: u16) -> Self {
        self.page_size = Some(entities);
        self
    }

    /// No more than so many entities over all pages.
    pub fn take(mut self, entities: usize) -> Self {
        self.take = Some(entities);
        self
    }

    /// Continues after the page that returned `token`.
    pub fn resume(mut self, token: impl Into<Option<PageToken>>) -> Self {
        self.resume = token.into();
        self
    }

    /// Which location is asked.
    pub fn read_from(mut self, location: ReadFrom) -> Self {
        self.options.read_from = location;
        self
    }

    /// How long a page may take with all its attempts.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// The pages, one request or more each.
    pub fn pages(self) -> Pages<T> {
        let state = match self.prepare() {
            Ok(source) => State::Idle(Box::new(source)),
            Err(error) => State::Refused(Some(error)),
        };
        Pages { state }
    }

    /// The entities, in the order of their keys.
    pub fn stream(self) -> Entities<T> {
        Entities { pages: self.pages(), ready: VecDeque::new() }
    }

    /// All entities. More than `max` are an error, and so nothing grows without bound.
    pub async fn collect_at_most(self, max: usize) -> Result<Vec<Loaded<T>>, Error> {
        let table = self.table.clone();
        let mut pages = self.pages();
        let mut all = Vec::new();
        while let Some(page) = pages.next_page().await? {
            all.extend(page.items);
            if all.len() > max {
                let reason = format!("the query has more than {max} entities");
                return Err(Error::config(reason).at("query", Some(table.as_str()), None));
            }
        }
        Ok(all)
    }

    /// Checks the query and makes the part of it that all pages share.
    fn prepare(mut self) -> Result<Source<T>, Error> {
        let fault = self.fault.take();
        let place = |error: Error| error.at("query", Some(self.table.as_str()), None);
        let unsendable = self.filter.as_ref().and_then(|filter| filter.1.clone());
        if let Some(fault) = fault.or(unsendable.map(Error::from)) {
            return Err(place(fault));
        }
        let names_partitions = self.filter.as_ref().is_some_and(Filter::names_partitions);
        if !self.may_scan && !names_partitions {
            return Err(place(Error::new(ErrorKind::WouldScan).with(|context| {
                context.hint = Some("name a partition, or use scan()".into());
            })));
        }
        if self.page_size.is_some_and(|size| size == 0 || size > PAGE_ENTITIES_MAX) {
            return Err(place(Error::config("a page has 1 to 1000 entities")));
        }
        let mut query = Vec::new();
        let filter = self.filter.as_ref().map(Filter::to_string).unwrap_or_default();
        parameter(&mut query, "$filter", &filter);
        let select = match &*self.select {
            [] => String::new(),
            names => ALWAYS_SELECTED
                .into_iter()
                .chain(names.iter().map(String::as_str).filter(|n| !ALWAYS_SELECTED.contains(n)))
                .collect::<Vec<_>>()
                .join(","),
        };
        parameter(&mut query, "$select", &select);
        let query = String::from_utf8(query).map_err(Error::protocol)?;
        if query.len() > URL_BYTES_MAX {
            return Err(place(Error::config("the filter makes a URL of more than 32 KiB")));
        }
        let fingerprint = fnv1a(format!("{filter}\0{select}").as_bytes());
        if let Some(token) = &self.resume {
            token.check(self.table.as_str(), fingerprint)?;
        }
        Ok(Source {
            account: self.account,
            table: self.table,
            query,
            fingerprint,
            page_size: self.page_size,
            left: self.take,
            next: self.resume,
            options: self.options,
            decode: self.decode,
            skips_bad: self.skips_bad,
        })
    }
}

/// Appends `name=value`, unless the value is empty.
fn parameter(query: &mut Vec<u8>, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    if !query.is_empty() {
        query.push(b'&');
    }
    query.extend_from_slice(name.as_bytes());
    query.push(b'=');
    percent_encode(query, value);
}

/// Where the next page comes from.
struct Source<T> {
    account: Account,
    table: TableName,
    /// What all pages share.
    query: String,
    fingerprint: u64,
    page_size: Option<u16>,
    /// Entities that may still be returned.
    left: Option<usize>,
    next: Option<PageToken>,
    options: CallOptions,
    decode: Decode<T>,
    skips_bad: bool,
}

impl<T: Send + 'static> Source<T> {
    /// Fetches a page. An error changes nothing, so that the page can be fetched again.
    async fn fetch(&self) -> Result<Page<T>, Error> {
        let place = |error: Error| error.at("query", Some(self.table.as_str()), None);
        let answer = self.account.exchange(&self.call()).await.map_err(place)?;
        if answer.status != StatusCode::OK {
            return Err(place(answer.into_error("query")));
        }
        let mut items = Vec::new();
        let mut fault = None;
        json::read_feed(&answer.body, |entity| match self.item(entity) {
            Ok(item) => items.extend(item),
            Err(error) => {
                fault.get_or_insert(error);
            }
        })
        .map_err(|error| place(Error::protocol(error)))?;
        if let Some(error) = fault {
            return Err(place(error));
        }
        let next = |name| header(&answer.headers, name).map(str::to_owned);
        let (partition, row) = (next(&NEXT_PARTITION_KEY), next(&NEXT_ROW_KEY));
        let token = (partition.is_some() || row.is_some()).then(|| PageToken {
            table: self.table.as_str().to_owned(),
            partition,
            row,
            fingerprint: self.fingerprint,
        });
        Ok(Page { items, token })
    }

    /// What a row becomes; `None` if it is left out.
    fn item(&self, entity: json::AnsweredEntity<'_>) -> Result<Option<Loaded<T>>, Error> {
        match Loaded::from_answer(entity, None, &*self.decode) {
            Err(error) if self.skips_bad && matches!(error.kind(), ErrorKind::Decode(_)) => {
                tracing::debug!(%error, "left out an entity that cannot be read");
                Ok(None)
            }
            item => item,
        }
    }

    fn call(&self) -> Call {
        let mut query = self.query.clone().into_bytes();
        let wanted = self.left.map(|left| u16::try_from(left).unwrap_or(PAGE_ENTITIES_MAX));
        let top = self.page_size.into_iter().chain(wanted).min();
        if let Some(top) = top.filter(|top| *top < PAGE_ENTITIES_MAX) {
            parameter(&mut query, "$top", &top.to_string());
        }
        if let Some(token) = &self.next {
            parameter(&mut query, "NextPartitionKey", token.partition.as_deref().unwrap_or(""));
            parameter(&mut query, "NextRowKey", token.row.as_deref().unwrap_or(""));
        }
        let query = String::from_utf8(query).unwrap_or_default();
        Call {
            answer_bytes_max: tables::PAGE_BYTES_MAX,
            options: self.options.clone(),
            ..tables::read("query", format!("/{}()", self.table.as_str()), query)
        }
    }

    /// Goes on to the next page; `None` at the end.
    fn advance(mut self: Box<Self>, page: &mut Page<T>) -> Option<Box<Self>> {
        if let Some(left) = self.left {
            page.items.truncate(left);
            self.left = Some(left - page.items.len());
            if self.left == Some(0) {
                return None;
            }
        }
        self.next = page.token.clone();
        self.next.is_some().then_some(self)
    }
}

/// Some entities of a query; perhaps none.
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

    /// The token to continue with; `None` after the last page.
    pub fn token(&self) -> Option<&PageToken> {
        self.token.as_ref()
    }
}

type Fetched<T> = (Box<Source<T>>, Result<Page<T>, Error>);

enum State<T> {
    Idle(Box<Source<T>>),
    Fetching(BoxFuture<'static, Fetched<T>>),
    Refused(Option<Error>),
    Ended,
}

/// The pages of a query. After an error, the page that failed is fetched again.
pub struct Pages<T> {
    state: State<T>,
}

impl<T: Send + 'static> Pages<T> {
    /// The next page; `None` after the last.
    pub async fn next_page(&mut self) -> Result<Option<Page<T>>, Error> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
    }
}

impl<T: Send + 'static> Stream for Pages<T> {
    type Item = Result<Page<T>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Poll::Ready(None),
                State::Refused(error) => return Poll::Ready(error.map(Err)),
                State::Idle(source) => {
                    self.state = State::Fetching(Box::pin(async move {
                        let page = source.fetch().await;
                        (source, page)
                    }));
                }
                State::Fetching(mut fetch) => {
                    let Poll::Ready((source, page)) = fetch.as_mut().poll(context) else {
                        self.state = State::Fetching(fetch);
                        return Poll::Pending;
                    };
                    let mut page = match page {
                        Ok(page) => page,
                        Err(error) => {
                            self.state = State::Idle(source);
                            return Poll::Ready(Some(Err(error)));
                        }
                    };
                    if let Some(source) = source.advance(&mut page) {
                        self.state = State::Idle(source);
                    }
                    return Poll::Ready(Some(Ok(page)));
                }
            }
        }
    }
}

/// The entities of a query. After an error, the page that failed is fetched again.
pub struct Entities<T> {
    pages: Pages<T>,
    ready: VecDeque<Loaded<T>>,
}

impl<T: Send + 'static> Entities<T> {
    /// The next entity; `None` after the last.
    pub async fn try_next(&mut self) -> Result<Option<Loaded<T>>, Error> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await.transpose()
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
