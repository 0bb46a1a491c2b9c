//! A Lazuli server's advice on the tables of an account, from the traffic it has seen.

use super::EXTENSIONS;
use super::json::ServerJson;
use crate::call::Call;
use crate::error::Error;
use crate::options::Request;
use crate::query::parameter;
use crate::tables::{self, Tables};
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

/// A server's advice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerAdvice {
    /// The account.
    pub account: String,
    /// When the advice was given.
    pub at: String,
    /// The findings, by descending weight.
    pub findings: Vec<ServerFinding>,
    /// The statistics of each table, as the server returns them.
    #[serde(default)]
    pub tables: Vec<ServerJson>,
}

/// Something that could be improved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerFinding {
    /// The code of the finding: `ADV-1` to `ADV-24`.
    pub code: String,
    /// The table.
    pub table: String,
    /// What it is about within the table: a partition, a property, an index; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    /// How much it matters.
    pub weight: u64,
    /// What was observed, in numbers.
    pub seen: String,
    /// How many requests showed it.
    pub times: u64,
    /// When it was first seen.
    pub first: String,
    /// When it was last seen.
    pub last: String,
    /// Why it is costly.
    pub why: ServerCost,
    /// What to do.
    #[serde(rename = "do")]
    pub advice: String,
    /// The recommended pattern, by its name in the table design guide.
    pub pattern: String,
    /// The command, request or key design that implements it.
    pub command: String,
    /// The address of the pattern's page.
    pub link: String,
}

/// Why something is costly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ServerCost {
    /// On the server.
    pub here: String,
    /// On Azure.
    pub azure: String,
}

impl Tables {
    /// The server's advice on the tables of the account, from the traffic it has seen.
    pub fn server_advice(&self) -> Request<ServerAdvice> {
        let account = self.account().clone();
        Request::new(move |options| async move {
            let mut call = tables::read("advise", "/".to_owned(), String::new());
            parameter(&mut call.query, "comp", "lazuli-advice");
            call.headers.insert(EXTENSIONS, HeaderValue::from_static("on"));
            let answer = account.exchange(&Call { options, ..call }).await?;
            match answer.status {
                StatusCode::OK => serde_json::from_slice(&answer.body).map_err(Error::protocol),
                _ => Err(answer.into_error("advise")),
            }
        })
    }
}
