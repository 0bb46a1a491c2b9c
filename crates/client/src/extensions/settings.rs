//! Calls about the settings of a table on a Lazuli server.

use super::EXTENSIONS;
use crate::call::{Answer, Call};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::query::parameter;
use crate::table::Table;
use crate::tables;
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use serde::Deserialize;

impl<T: TableEntity> Table<T> {
    /// A call about a setting of the table.
    pub(super) fn setting(
        &self,
        operation: &'static str,
        method: Method,
        comp: &str,
        body: Bytes,
    ) -> Call {
        let path = format!("/{}", self.name());
        let mut call = match method {
            Method::GET => tables::read(operation, path, String::new()),
            method => tables::write(operation, method, path, body),
        };
        parameter(&mut call.query, "comp", comp);
        call.headers.insert(EXTENSIONS, HeaderValue::from_static("on"));
        call
    }
}

/// The JSON of an answer with the expected status.
pub(super) fn read<D: for<'d> Deserialize<'d>>(
    answer: Answer,
    operation: &'static str,
    expected: StatusCode,
) -> Result<D, Error> {
    match answer.status {
        status if status == expected => {
            serde_json::from_slice(&answer.body).map_err(Error::protocol)
        }
        _ => Err(answer.into_error(operation)),
    }
}
