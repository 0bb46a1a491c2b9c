//! The table service: create, list and delete tables (C-3.4).

use crate::account::Account;
use crate::call::{Answer, Call, CallOptions, X_MS_VERSION, header};
use crate::entity::{Entity, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::table::Table;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::TableName;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::odata::json;
use lazuli_wire::uri::{percent_encode, write_table_uri};

const VERSION: HeaderValue = HeaderValue::from_static("2019-02-02");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const MINIMAL: HeaderValue = HeaderValue::from_static("application/json;odata=minimalmetadata");
const DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("dataserviceversion");
const MAX_DATA_SERVICE_VERSION: HeaderName = HeaderName::from_static("maxdataserviceversion");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const NEXT_TABLE_NAME: HeaderName = HeaderName::from_static("x-ms-continuation-nexttablename");

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

    /// A table whose entities may have any shape. Makes no request.
    pub fn table(&self, name: &str) -> Result<Table<Entity>, Error> {
        self.table_of(name)
    }

    /// A table of values of a type.
    pub fn table_of<T: TableEntity>(&self, name: &str) -> Result<Table<T>, Error> {
        Ok(Table::new(self.account.clone(), parse(name)?))
    }

    /// The table that a type names.
    pub fn of<T: TableEntity>(&self) -> Result<Table<T>, Error> {
        let name = T::TABLE.ok_or_else(|| {
            Error::config(format!("{} names no table", std::any::type_name::<T>()))
        })?;
        self.table_of(name)
    }

    /// Creates a table; fails with a conflict if it exists.
    pub async fn create(&self, name: &str) -> Result<Table<Entity>, Error> {
        let table = self.table(name)?;
        let answer = self.send_create(&table).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::NO_CONTENT => Ok(table),
            _ => Err(answer.into_error("create table").at("create table", Some(name), None)),
        }
    }

    /// Creates a table unless it exists.
    pub async fn create_if_missing(&self, name: &str) -> Result<Table<Entity>, Error> {
        let table = self.table(name)?;
        let answer = self.send_create(&table).await?;
        match answer.status {
            StatusCode::CREATED | StatusCode::NO_CONTENT => return Ok(table),
            _ => {}
        }
        let error = answer.into_error("create table");
        match error.code() {
            Some("TableAlreadyExists") => Ok(table),
            _ => Err(error.at("create table", Some(name), None)),
        }
    }

    /// Deletes a table with all its entities.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        match self.send_delete(name).await? {
            answer if answer.status == StatusCode::NO_CONTENT => Ok(()),
            // An attempt before this one deleted it, or somebody did: it is gone (C-13).
            answer if answer.status == StatusCode::NOT_FOUND && answer.is_after_lost => Ok(()),
            answer => {
                let error = answer.into_error("delete table");
                // The service calls a missing table a missing resource.
                let error = match error.kind() {
                    ErrorKind::NotFound => error.with_kind(ErrorKind::TableNotFound),
                    _ => error,
                };
                Err(error.at("delete table", Some(name), None))
            }
        }
    }

    /// Deletes a table if it exists; returns whether it did.
    pub async fn delete_if_present(&self, name: &str) -> Result<bool, Error> {
        match self.delete(name).await {
            Ok(()) => Ok(true),
            Err(error) if *error.kind() == ErrorKind::TableNotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether a table exists.
    pub async fn exists(&self, name: &str) -> Result<bool, Error> {
        let name = parse(name)?;
        let call = read("table exists", table_path(&name), String::new());
        let answer = self.account.exchange(&call).await?;
        match answer.status {
            StatusCode::OK => Ok(true),
            StatusCode::NOT_FOUND => Ok(false),
            _ => {
                Err(answer.into_error("table exists").at("table exists", Some(name.as_str()), None))
            }
        }
    }

    /// The names of all tables, in order.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let mut query = Vec::new();
            if let Some(next) = &next {
                query.extend_from_slice(b"NextTableName=");
                percent_encode(&mut query, next);
            }
            let query = String::from_utf8(query).map_err(Error::protocol)?;
            let call = Call {
                answer_bytes_max: PAGE_BYTES_MAX,
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

    async fn send_create(&self, table: &Table<Entity>) -> Result<Answer, Error> {
        let mut body = Vec::new();
        json::write_table_name(&mut body, table.name());
        let mut call = write("create table", Method::POST, "/Tables".to_owned(), body.into());
        call.headers.insert(PREFER, HeaderValue::from_static("return-no-content"));
        self.account.exchange(&call).await
    }

    async fn send_delete(&self, name: &str) -> Result<Answer, Error> {
        let path = table_path(&parse(name)?);
        self.account.exchange(&write("delete table", Method::DELETE, path, Bytes::new())).await
    }
}

fn parse(name: &str) -> Result<TableName, Error> {
    TableName::parse(name).map_err(|_| Error::new(ErrorKind::Name(name.to_owned(), "table")))
}

fn table_path(name: &TableName) -> String {
    let mut path = vec![b'/'];
    write_table_uri(&mut path, name.as_str());
    String::from_utf8(path).unwrap_or_default()
}

fn headers() -> HeaderMap {
    HeaderMap::from_iter([
        (X_MS_VERSION, VERSION),
        (ACCEPT, MINIMAL),
        (DATA_SERVICE_VERSION, HeaderValue::from_static("3.0;")),
        (MAX_DATA_SERVICE_VERSION, HeaderValue::from_static("3.0;NetFx")),
    ])
}

/// A call that changes nothing.
pub(crate) fn read(operation: &'static str, path: String, query: String) -> Call {
    Call {
        service: StorageService::Table,
        operation,
        method: Method::GET,
        path,
        query,
        headers: headers(),
        body: Bytes::new(),
        is_read: true,
        answer_bytes_max: ANSWER_BYTES_MAX,
        options: CallOptions::default(),
    }
}

/// A call that changes something.
pub(crate) fn write(operation: &'static str, method: Method, path: String, body: Bytes) -> Call {
    let mut headers = headers();
    if !body.is_empty() {
        headers.insert(CONTENT_TYPE, JSON);
    }
    let call = read(operation, path, String::new());
    Call { method, headers, body, is_read: false, ..call }
}

/// Asks for no body in the answer to an insert.
pub(crate) fn prefer_no_content(call: &mut Call) {
    call.headers.insert(PREFER, HeaderValue::from_static("return-no-content"));
}
