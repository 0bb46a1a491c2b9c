//! The table service: create, list and delete tables (C-3.4).

use crate::account::Account;
use crate::call::{About, Answer, Call, CallOptions, X_MS_VERSION, header};
use crate::entity::{Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::filter::{Filter, col};
use crate::layout::TypeLayout;
use crate::options::Request;
use crate::table::Table;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::TableName;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::odata::json;
use lazuli_wire::uri::{percent_encode, write_table_uri};
use std::time::Duration;

const VERSION: HeaderValue = HeaderValue::from_static("2019-02-02");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MINIMAL: HeaderValue = HeaderValue::from_static("application/json;odata=minimalmetadata");
const DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("dataserviceversion");
const MAX_DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("maxdataserviceversion");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const NEXT_TABLE_NAME: HeaderName = HeaderName::from_static("x-ms-continuation-nexttablename");

const CREATE: &str = "create table";
const DELETE: &str = "delete table";
const ALREADY_EXISTS: &str = "TableAlreadyExists";
const BEING_DELETED: &str = "TableBeingDeleted";
/// How long to wait until a name is free, and the pause between tries.
const FREE_WAIT_MAX: Duration = Duration::from_secs(60);
const FREE_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of an answer that is not a page of entities, and of one that is (C-3.10).
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
pub(crate) const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The table service of an account.
#[derive(Clone, Debug)]
pub struct Tables {
    account: Account,
}

impl Tables {
    pub(crate) fn new(account: Account) -> Self {
        Self { account }
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// A table whose entities may have any shape. Makes no request.
    pub fn table(&self, name: &str) -> Result<Table<Entity>, Error> {
        self.table_of(name)
    }

    /// Checks that rows of types that share tables can be distinguished by their keys (P-0.4), as the compiler
    /// checks within a type and between the entities of a union. Sends nothing: call it when the program starts.
    ///
    /// ```
    /// # use lazuli_client::prelude::*;
    /// # use lazuli_client::TypeLayout;
    /// #[derive(TableEntity)]
    /// #[table(name = "Staff", partition = "{team}", row = "empid_{id:06}")]
    /// struct Employee { team: String, id: u32 }
    /// #[derive(TableEntity)]
    /// #[table(name = "Staff", partition = "{team}", row = "emp_{name}")]
    /// struct Nickname { team: String, name: String }
    /// # let tables = Account::from_connection_string("UseDevelopmentStorage=true").unwrap().tables();
    /// tables.check_layout([TypeLayout::of::<Employee>(), TypeLayout::of::<Nickname>()]).unwrap();
    /// ```
    pub fn check_layout(&self, layouts: impl IntoIterator<Item = TypeLayout>) -> Result<(), Error> {
        crate::layout::check(&layouts.into_iter().collect::<Vec<_>>())
    }

    /// A table of values of a type.
    pub fn table_of<T: TableEntity>(&self, name: &str) -> Result<Table<T>, Error> {
        Ok(Table::new(self.account.clone(), parse(name)?))
    }

    /// The table that the type names.
    pub fn of<T: TableEntity>(&self) -> Result<Table<T>, Error> {
        let name = T::TABLE.ok_or_else(|| {
            Error::config(format!("{} names no table", std::any::type_name::<T>()))
        })?;
        self.table_of(name)
    }

    /// Creates a table; fails with a conflict if it exists.
    pub fn create(&self, name: &str) -> Request<Table<Entity>> {
        self.verb(name, |tables, table, options| async move {
            match tables.send_create(&table, options, None).await? {
                answer if is_created(&answer) => Ok(table),
                answer => Err(place(answer.into_error(CREATE), CREATE, &table.name)),
            }
        })
    }

    /// Creates a table unless it exists.
    pub fn create_if_missing(&self, name: &str) -> Request<Table<Entity>> {
        self.verb(name, |tables, table, options| async move {
            let expected = Some(StatusCode::CONFLICT);
            let answer = tables.send_create(&table, options, expected).await?;
            if is_created(&answer) {
                return Ok(table);
            }
            let error = answer.into_error(CREATE);
            match error.code() {
                Some(ALREADY_EXISTS) => Ok(table),
                _ => Err(place(error, CREATE, &table.name)),
            }
        })
    }

    /// Creates a table, and waits while one of that name is being deleted: up to 60 s, or the timeout of
    /// the request. Fails with a conflict if the table exists.
    pub fn create_when_free(&self, name: &str) -> Request<Table<Entity>> {
        self.verb(name, |tables, table, options| async move {
            let env = tables.account.0.env.clone();
            let wait = options.timeout.unwrap_or(FREE_WAIT_MAX);
            let deadline = env.elapsed().saturating_add(wait);
            loop {
                let left = deadline.saturating_sub(env.elapsed());
                let options = CallOptions { timeout: Some(left), ..options.clone() };
                let answer = tables.send_create(&table, options, None).await?;
                if is_created(&answer) {
                    return Ok(table);
                }
                let error = answer.into_error(CREATE);
                let is_over = env.elapsed() + FREE_PAUSE >= deadline;
                if error.code() != Some(BEING_DELETED) || is_over {
                    return Err(place(error, CREATE, &table.name));
                }
                env.sleep(FREE_PAUSE).await;
            }
        })
    }

    /// Deletes a table with all its entities.
    pub fn delete(&self, name: &str) -> Request<()> {
        self.verb(name, |tables, table, options| async move {
            tables.send_delete(&table.name, options, false).await.map(drop)
        })
    }

    /// Deletes a table if it exists; returns whether it did.
    pub fn delete_if_present(&self, name: &str) -> Request<bool> {
        self.verb(name, |tables, table, options| async move {
            tables.send_delete(&table.name, options, true).await
        })
    }

    /// Tells whether a table exists.
    pub fn exists(&self, name: &str) -> Request<bool> {
        self.verb(name, |tables, table, options| async move {
            let mut call = read("table exists", table_path(&table.name), String::new());
            call.options = options;
            call.about.expected = Some(StatusCode::NOT_FOUND);
            let answer = tables.account.exchange(&call).await?;
            match answer.status {
                StatusCode::OK => Ok(true),
                _ => match answer.into_error(call.operation) {
                    error if is_missing(&error) => Ok(false),
                    error => Err(place(error, call.operation, &table.name)),
                },
            }
        })
    }

    /// The names of all tables, in order.
    pub fn list(&self) -> Request<Vec<String>> {
        let tables = self.clone();
        Request::new(|options| tables.names(None, options))
    }

    /// The names of the tables whose name begins with `prefix`, in order.
    ///
    /// ```no_run
    /// # async fn run(tables: lazuli_client::Tables) -> Result<(), lazuli_client::Error> {
    /// for name in tables.list_prefix("Log2026").await? {
    ///     tables.delete_if_present(&name).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_prefix(&self, prefix: &str) -> Request<Vec<String>> {
        let (tables, filter) = (self.clone(), col("TableName").starts_with(prefix));
        Request::new(|options| tables.names(Some(filter), options))
    }

    async fn names(
        self,
        filter: Option<Filter>,
        options: CallOptions,
    ) -> Result<Vec<String>, Error> {
        let env = &self.account.0.env;
        let deadline = options.deadline(env);
        let mut names = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut query = Vec::new();
            if let Some(filter) = &filter {
                query.extend_from_slice(b"$filter=");
                percent_encode(&mut query, &filter.to_string());
            }
            if let Some(next) = &next {
                query.extend_from_slice(if query.is_empty() { b"" } else { b"&" });
                query.extend_from_slice(b"NextTableName=");
                percent_encode(&mut query, next);
            }
            let query = String::from_utf8(query).map_err(Error::protocol)?;
            let call = Call {
                answer_bytes_max: PAGE_BYTES_MAX,
                options: options.until(deadline, env),
                ..read("list tables", "/Tables".to_owned(), query)
            };
            let answer = self.account.exchange(&call).await?;
            if answer.status != StatusCode::OK {
                return Err(answer.into_error("list tables"));
            }
            names.extend(json::read_tables(&answer.body).map_err(Error::protocol)?);
            next = header(&answer.headers, &NEXT_TABLE_NAME).map(str::to_owned);
            if next.is_none() {
                return Ok(names);
            }
        }
    }

    /// A verb on the table called `name`, whose name is checked before anything is sent.
    fn verb<R, W>(
        &self,
        name: &str,
        run: impl FnOnce(Self, Table<Entity>, CallOptions) -> W + Send + 'static,
    ) -> Request<R>
    where
        R: Send + 'static,
        W: Future<Output = Result<R, Error>> + Send + 'static,
    {
        let (tables, table) = (self.clone(), self.table(name));
        Request::new(|options| async move { run(tables, table?, options).await })
    }

    async fn send_create(
        &self,
        table: &Table<Entity>,
        options: CallOptions,
        expected: Option<StatusCode>,
    ) -> Result<Answer, Error> {
        let mut body = Vec::new();
        json::write_table_name(&mut body, table.name());
        let mut call = write(CREATE, Method::POST, "/Tables".to_owned(), body.into());
        call.options = options;
        call.about.expected = expected;
        call.about.table = Some(table.name().to_owned());
        prefer_no_content(&mut call);
        self.account.exchange(&call).await.map_err(|error| place(error, CREATE, &table.name))
    }

    /// Deletes a table; false if it did not exist.
    async fn send_delete(
        &self,
        name: &TableName,
        options: CallOptions,
        may_be_absent: bool,
    ) -> Result<bool, Error> {
        let mut call = write(DELETE, Method::DELETE, table_path(name), Bytes::new());
        call.options = options;
        call.about.expected = may_be_absent.then_some(StatusCode::NOT_FOUND);
        let answer = self.account.exchange(&call).await.map_err(|e| place(e, DELETE, name))?;
        if answer.status == StatusCode::NO_CONTENT {
            return Ok(true);
        }
        let is_after_lost = answer.is_after_lost;
        let error = place(answer.into_error(DELETE), DELETE, name);
        match is_missing(&error) {
            // An earlier attempt deleted it, or another client did: either way it is gone (C-13).
            true if is_after_lost => Ok(true),
            true if may_be_absent => Ok(false),
            // The service reports a missing table as a missing resource.
            true => Err(error.with_kind(ErrorKind::TableNotFound)),
            false => Err(error),
        }
    }
}

/// Whether a service says that a table does not exist.
fn is_missing(error: &Error) -> bool {
    error.is_absence() || *error.kind() == ErrorKind::TableNotFound
}

fn is_created(answer: &Answer) -> bool {
    matches!(answer.status, StatusCode::CREATED | StatusCode::NO_CONTENT)
}

/// Adds the operation and the table to an error.
fn place(error: Error, operation: &'static str, table: &TableName) -> Error {
    error.at(operation, Some(table.as_str()), None)
}

pub(crate) fn parse(name: &str) -> Result<TableName, Error> {
    TableName::parse(name).map_err(|_| Error::new(ErrorKind::Name(name.to_owned(), "table")))
}

fn table_path(name: &TableName) -> String {
    let mut path = vec![b'/'];
    write_table_uri(&mut path, name.as_str());
    String::from_utf8(path).unwrap_or_default()
}

/// The headers of every request plus those of this one, with room for those that signing adds.
pub(crate) fn headers(own: &HeaderMap) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(12 + own.len());
    headers.extend([
        (X_MS_VERSION, VERSION),
        (ACCEPT, MINIMAL),
        (DATA_SERVICE_VERSION, HeaderValue::from_static("3.0;")),
        (MAX_DATA_SERVICE_VERSION, HeaderValue::from_static("3.0;NetFx")),
    ]);
    for (name, value) in own {
        headers.insert(name, value.clone());
    }
    headers
}

/// A call that changes nothing.
pub(crate) fn read(operation: &'static str, path: String, query: String) -> Call {
    Call {
        service: StorageService::Table,
        operation,
        method: Method::GET,
        path,
        query,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        is_read: true,
        is_once: false,
        answer_bytes_max: ANSWER_BYTES_MAX,
        options: CallOptions::default(),
        about: About::default(),
    }
}

/// A call that changes something.
pub(crate) fn write(operation: &'static str, method: Method, path: String, body: Bytes) -> Call {
    let mut call = read(operation, path, String::new());
    if !body.is_empty() {
        call.headers.insert(CONTENT_TYPE, JSON);
    }
    Call { method, body, is_read: false, ..call }
}

/// Asks for no body in the answer to an insert.
pub(crate) fn prefer_no_content(call: &mut Call) {
    call.headers.insert(PREFER, HeaderValue::from_static("return-no-content"));
}
