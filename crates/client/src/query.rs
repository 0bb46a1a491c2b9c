//! Queries, page by page or entity by entity (C-7.4, C-7.5, C-8).

mod pages;
mod plan;
mod selection;
mod snapshot;
mod source;
mod split;

pub use pages::{Entities, Page, Pages};
pub use plan::{Hint, Plan, QueryClass};
pub use selection::Selection;
pub use split::{ScanRange, Split};

use crate::account::Account;
use crate::call::CallOptions;
use crate::codec::{self, Decoded};
use crate::dialect::Dialect;
use crate::entity::{Entity, Loaded, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::extensions::EXTENSIONS;
use crate::filter::Filter;
use crate::options::{read_options, verb_options};
use crate::page_token::{PageToken, TokenKey};
use crate::shape::Declared;
use crate::table::Table;
use crate::value::{DecodeError, EncodeError};
use http::HeaderValue;
use lazuli_model::TableName;
use lazuli_model::entity::is_property_name;
use lazuli_model::key_text::fnv1a;
use lazuli_model::limits::PAGE_ITEMS_MAX;
use lazuli_wire::uri::percent_encode;
use pages::{Ahead, TokenMaker};
use plan::Part;
use snapshot::Snapshot;
pub(crate) use source::POINTS_AT_ONCE;
use source::{Piece, Source};
use std::sync::Arc;

/// Needed to load any entity.
const ALWAYS_SELECTED: [&str; 3] = ["PartitionKey", "RowKey", "Timestamp"];

/// Makes a value from an entity; `None` leaves it out.
pub(crate) type Decode<T> = Arc<dyn Fn(Entity) -> Result<Option<Decoded<T>>, Error> + Send + Sync>;

/// The longest URL that the service accepts (C-7.13).
const URL_BYTES_MAX: usize = 32 * 1024;

/// Parts of a query read concurrently, by default.
const PARTS_AT_ONCE: usize = 8;

/// A query that has not been sent yet.
///
/// ```no_run
/// use lazuli_client::{Entity, QueryClass, Table, TokenKey, col, partition};
///
/// # async fn run(people: Table, secret: &[u8]) -> Result<(), lazuli_client::Error> {
/// let sales = || people.query(partition("Sales").and(col("Age").lt(30)));
///
/// // Costs nothing: what would be read, and what could be better.
/// let plan = sales().explain();
/// assert_eq!(plan.class, QueryClass::PartitionScan);
/// plan.hints.iter().for_each(|hint| println!("{hint}"));
///
/// // A page for a browser, which brings the token back: signed, so that it cannot ask for another place.
/// let key = TokenKey::new(secret)?;
/// let mut pages = sales().page_size(50).sign_tokens(&key).pages();
/// if let Some(page) = pages.next_page().await? {
///     let token = page.token().map(ToString::to_string);
///     for person in page.into_items() {
///         println!("{}", person.row_key());
///     }
/// }
///
/// // A report, from one moment if the service is Lazuli; rows that cannot be decoded are left out.
/// let rows = sales().snapshot().skip_bad().prefetch(2).collect_at_most(100_000).await?;
/// // The ten greatest row keys, from Lazuli.
/// let last = sales().descending().take(10).collect_at_most(10).await?;
/// // One request with the `or` in it, instead of two point reads.
/// let both = partition("Sales").and(col("RowKey").one_of(["00010", "00011"]));
/// let two = people.query(both).as_written().collect_at_most(2).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before the pages or the stream are polled"]
pub struct Query<T> {
    account: Account,
    table: TableName,
    filter: Option<Filter>,
    fault: Option<Error>,
    may_scan: bool,
    skips_bad: bool,
    decode: Decode<T>,
    /// The declaration of the table's type.
    declared: Declared,
    as_written: bool,
    descending: bool,
    select: Vec<String>,
    page_size: Option<u16>,
    take: Option<usize>,
    resume: Option<PageToken>,
    token_key: Option<Arc<TokenKey>>,
    prefetch: Option<usize>,
    concurrency: usize,
    ordered: bool,
    /// Empty for the whole table.
    ranges: Vec<ScanRange>,
    at_snapshot: bool,
    options: CallOptions,
}

impl<T: TableEntity> Query<T> {
    /// The same query, made to fail before any request.
    pub(crate) fn failing(self, fault: Error) -> Self {
        Self { fault: Some(fault), ..self }
    }

    pub(crate) fn new(table: &Table<T>, selection: Selection, may_scan: bool) -> Self {
        let Selection { filter, fault, is_narrow } = selection;
        // Rows of other types are not fetched, rather than skipped (C-6.3).
        let own = if is_narrow { None } else { selection::own_rows::<T>() };
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
            declared: Declared::by::<T>(),
            as_written: false,
            descending: false,
            select: Vec::new(),
            page_size: None,
            take: None,
            resume: None,
            token_key: None,
            prefetch: None,
            concurrency: PARTS_AT_ONCE,
            ordered: true,
            ranges: Vec::new(),
            at_snapshot: false,
            options: CallOptions::default(),
        }
    }

    /// Cuts the table into at most `ranges` ranges of partitions, about equal as far as its keys are known, to be
    /// read in parallel, here or in other processes. Reads at most 16 entities for each range and 64 more. Uses only
    /// the table of this query, not its filter.
    ///
    /// ```no_run
    /// # use lazuli_client::{Error, Table};
    /// # async fn run(table: Table) -> Result<(), Error> {
    /// let ranges = table.scan().split(8).await?;
    /// let mut entities = table.scan().within(&ranges).unordered().stream();
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&self, ranges: usize) -> Split {
        Split::new(self, ranges)
    }
}

impl<T: Send + 'static> Query<T> {
    /// The same rows, decoded by `decode`.
    pub(crate) fn decoded<R>(self, select: Vec<String>, decode: Decode<R>) -> Query<R> {
        Query {
            account: self.account,
            table: self.table,
            filter: self.filter,
            fault: self.fault,
            may_scan: self.may_scan,
            skips_bad: self.skips_bad,
            decode,
            declared: self.declared,
            as_written: self.as_written,
            descending: self.descending,
            select,
            page_size: self.page_size,
            take: self.take,
            resume: self.resume,
            token_key: self.token_key,
            prefetch: self.prefetch,
            concurrency: self.concurrency,
            ordered: self.ordered,
            ranges: self.ranges,
            at_snapshot: self.at_snapshot,
            options: self.options,
        }
    }

    /// Whether the entities have a type that declares its properties.
    pub(crate) fn is_typed(&self) -> bool {
        !self.declared.all.is_empty()
    }

    /// Maps each entity by a function (C-6.5).
    pub fn resolve<R: Send + 'static>(
        self,
        resolve: impl Fn(&Entity) -> Result<R, DecodeError> + Send + Sync + 'static,
    ) -> Query<R> {
        let select = self.select.clone();
        let decode = move |entity: Entity| Ok(Some(Decoded::plain(resolve(&entity)?)));
        self.decoded(select, Arc::new(decode))
    }

    /// Leaves out entities that the type cannot decode, instead of failing.
    pub fn skip_bad(self) -> Self {
        Self { skips_bad: true, ..self }
    }

    /// Only entities for which this is true as well.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = Some(match self.filter {
            Some(known) => known.and(filter),
            None => filter,
        });
        self
    }

    /// Only these properties; keys and Timestamp are always included. An invalid property name makes the query fail
    /// before any request.
    pub fn select_names<'n>(mut self, names: impl IntoIterator<Item = &'n str>) -> Self {
        self.select = names.into_iter().map(str::to_owned).collect();
        if let Some(name) = self.select.iter().find(|name| !is_property_name(name)) {
            self.fault.get_or_insert(EncodeError::Name { name: name.clone() }.into());
        }
        self
    }

    /// Entities per page, 1 to 1000. The service may return fewer, even none, before the end.
    pub fn page_size(mut self, entities: u16) -> Self {
        self.page_size = Some(entities);
        self
    }

    /// At most this many entities over all pages.
    pub fn take(mut self, entities: usize) -> Self {
        self.take = Some(entities);
        self
    }

    /// Continues after the page that returned `token`.
    pub fn resume(mut self, token: impl Into<Option<PageToken>>) -> Self {
        self.resume = token.into();
        self
    }

    /// Signs page tokens, and accepts only tokens signed with this key: for tokens that pass through other
    /// hands, such as a browser's.
    pub fn sign_tokens(mut self, key: &TokenKey) -> Self {
        self.token_key = Some(Arc::new(key.clone()));
        self
    }

    /// Pages that are fetched ahead and kept in memory: 1 by default for [`Query::stream`], none for
    /// [`Query::pages`].
    pub fn prefetch(mut self, pages: usize) -> Self {
        self.prefetch = Some(pages);
        self
    }

    /// Shows all pages at one moment, that of the first request. Only Lazuli has snapshots; on another service the
    /// query fails. Costs two more requests. Resumed from a token, such a query continues at another moment.
    pub fn snapshot(self) -> Self {
        Self { at_snapshot: true, ..self }
    }

    /// Sends the filter as one query. Otherwise a filter that names rows by `or` is run as point reads, and
    /// one that names several partitions as one query per partition.
    pub fn as_written(mut self) -> Self {
        self.as_written = true;
        self
    }

    /// Returns the entities with the greatest keys first. Only Lazuli has this order; on another service the query
    /// fails. The filter is sent as one query, and [`Query::within`] cannot be used with it.
    pub fn descending(self) -> Self {
        let asking = self.as_written().header(EXTENSIONS, HeaderValue::from_static("on"));
        let order = "PartitionKey desc,RowKey desc";
        Self { descending: true, ..asking.query_parameter("$orderby", order) }
    }

    /// Parts of the query that are read concurrently, 8 by default; zero counts as one.
    pub fn concurrency(mut self, parts: usize) -> Self {
        self.concurrency = parts.max(1);
        self
    }

    /// Returns the pages of a query in several parts as they arrive, not in key order; they have no tokens.
    pub fn unordered(mut self) -> Self {
        self.ordered = false;
        self
    }

    /// Reads only these ranges of partitions, concurrently: ranges from [`Query::split`]. They must not
    /// overlap.
    pub fn within<'r>(mut self, ranges: impl IntoIterator<Item = &'r ScanRange>) -> Self {
        for range in ranges {
            if let Err(error) = range.check(self.table.as_str()) {
                self.fault.get_or_insert(error);
            }
            self.ranges.push(range.clone());
        }
        self.ranges.sort_by(ScanRange::compare);
        self
    }

    read_options!();

    /// What the query would do. Sends nothing.
    pub fn explain(&self) -> Plan {
        let parts = self.parts();
        let filter = self.filter.as_ref().map(|filter| &filter.0);
        let class = plan::class(filter, parts.len());
        Plan {
            class,
            filter_text: self.filter.as_ref().map(Filter::to_string).unwrap_or_default(),
            select: self.select.clone(),
            requests_min: parts.len(),
            hints: plan::hints(filter, class, &parts),
        }
    }

    /// The pages; each takes one request or more.
    pub fn pages(self) -> Pages<T> {
        let pages = self.prefetch.unwrap_or(0);
        self.run(pages, true)
    }

    /// The entities, in the order of their keys.
    pub fn stream(self) -> Entities<T> {
        let pages = self.prefetch.unwrap_or(1);
        Entities::new(self.run(pages, false))
    }

    /// All entities. Fails if there are more than `max`, so that nothing grows without bound.
    pub async fn collect_at_most(self, max: usize) -> Result<Vec<Loaded<T>>, Error> {
        let table = self.table.clone();
        let ahead = self.prefetch.unwrap_or(0);
        let mut pages = self.run(ahead, false);
        let mut all = Vec::new();
        while let Some(page) = pages.next_page().await? {
            all.extend(page.into_items());
            if all.len() > max {
                let reason = format!("the query has more than {max} entities");
                return Err(Error::config(reason).at("query", Some(table.as_str()), None));
            }
        }
        Ok(all)
    }

    fn run(self, pages_ahead: usize, has_tokens: bool) -> Pages<T> {
        let table = self.table.clone();
        self.prepare(pages_ahead, has_tokens)
            .unwrap_or_else(|error| Pages::refused(error.at("query", Some(table.as_str()), None)))
    }

    fn parts(&self) -> Vec<Part> {
        if !self.ranges.is_empty() {
            let part = |range: &ScanRange| {
                let filter = range.filter().into_iter().chain(self.filter.clone());
                Part::Query(filter.reduce(Filter::and).map(|filter| filter.0))
            };
            return self.ranges.iter().map(part).collect();
        }
        match &self.filter {
            Some(filter) if !self.as_written && !self.may_scan => plan::parts(&filter.0),
            filter => vec![Part::Query(filter.as_ref().map(|filter| filter.0.clone()))],
        }
    }

    /// Checks the query and prepares what all pages share.
    fn prepare(mut self, pages_ahead: usize, has_tokens: bool) -> Result<Pages<T>, Error> {
        let unsendable = self.filter.as_ref().and_then(|filter| filter.1.clone());
        if let Some(fault) = self.fault.take().or(unsendable.map(Error::from)) {
            return Err(fault);
        }
        if self.descending && !self.ranges.is_empty() {
            return Err(Error::config("ranges of partitions are read in ascending order only"));
        }
        let names_partitions = self.filter.as_ref().is_some_and(Filter::names_partitions);
        if !self.may_scan && !names_partitions {
            return Err(Error::new(ErrorKind::WouldScan).with(|context| {
                context.hint = Some("name a partition, or use scan()".into());
            }));
        }
        if self.page_size.is_some_and(|size| !(1..=PAGE_ITEMS_MAX).contains(&size.into())) {
            return Err(Error::config("a page has 1 to 1000 entities"));
        }
        let select = match &*self.select {
            [] => String::new(),
            names => ALWAYS_SELECTED
                .into_iter()
                .chain(names.iter().map(String::as_str).filter(|n| !ALWAYS_SELECTED.contains(n)))
                .chain(self.account.1.metadata_names())
                .collect::<Vec<_>>()
                .join(","),
        };
        let parts = self.parts();
        if parts.len() > 1 && self.ordered && self.account.dialect() == Dialect::Cosmos {
            return Err(Error::new(ErrorKind::NotSorted).with(|context| {
                context.hint = Some("use unordered()".into());
            }));
        }
        let pieces: Vec<_> = parts.into_iter().map(|part| Piece::new(part, &select)).collect();
        let too_long = |piece: &Piece| matches!(piece, Piece::Query(q) if q.len() > URL_BYTES_MAX);
        if pieces.iter().any(too_long) {
            return Err(Error::config("the filter makes a URL of more than 32 KiB").with(
                |context| context.hint = Some("read entities by their keys with get_many()".into()),
            ));
        }
        let filter = self.filter.as_ref().map(Filter::to_string).unwrap_or_default();
        let ranges = self.ranges.iter().map(ScanRange::to_string).collect::<String>();
        let shape = format!("{filter}\0{select}\0{}\0{ranges}", pieces.len());
        let fingerprint = fnv1a(shape.as_bytes());
        if let Some(token) = &self.resume {
            token.check(self.table.as_str(), fingerprint, self.token_key.as_deref())?;
        }
        let count = pieces.len();
        let mut point_query = String::new();
        parameter(&mut point_query, "$select", &select);
        let class = plan::class(self.filter.as_ref().map(|filter| &filter.0), pieces.len());
        let class = class.name();
        let shown_filter = self.filter.as_ref().map(|filter| self.account.0.observe.filter(filter));
        let source = Source {
            shown_filter,
            #[cfg(feature = "patterns")]
            empty_pages: Default::default(),
            #[cfg(feature = "patterns")]
            facts: self.account.is_watched().then(|| {
                crate::patterns::advisor::FilterFacts::of(
                    self.filter.as_ref().map(|filter| &filter.0),
                )
            }),
            class,
            account: self.account,
            table: self.table,
            pieces,
            point_query,
            page_size: self.page_size.map(usize::from),
            options: self.options,
            decode: self.decode,
            skips_bad: self.skips_bad,
            declared: self.declared,
            select: self.select,
            snapshot: self.at_snapshot.then(|| Snapshot::new(count)),
        };
        let (parts, ordered) = (self.concurrency, self.ordered);
        let ahead = Ahead { pages: pages_ahead, parts, ordered, has_tokens };
        let tokens = TokenMaker { fingerprint, key: self.token_key };
        Ok(Pages::new(source, tokens, ahead, self.take, self.resume))
    }
}

/// Appends `name=value`, unless the value is empty.
pub(crate) fn parameter(query: &mut String, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    if !query.is_empty() {
        query.push('&');
    }
    query.push_str(name);
    query.push('=');
    let mut encoded = Vec::new();
    percent_encode(&mut encoded, value);
    query.push_str(&String::from_utf8_lossy(&encoded));
}
