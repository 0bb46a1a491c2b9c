//! When entities of a table on a Lazuli server expire.

use super::settings::read;
use crate::call::Call;
use crate::entity::TableEntity;
use crate::error::Error;
use crate::options::Request;
use crate::table::Table;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde::{Deserialize, Serialize};

/// When entities expire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ServerTtl {
    /// This many seconds after the last write; at least one.
    Seconds(u64),
    /// At the time in this property (Edm.DateTime), or that many seconds after the last write (Edm.Int32, Edm.Int64).
    /// An entity without it never expires.
    Property(String),
}

impl<T: TableEntity> Table<T> {
    /// When entities of this table expire.
    pub fn server_ttl(&self) -> Request<ServerTtl> {
        let table = self.clone();
        Request::new(move |options| async move {
            let call = table.setting("read expiry", Method::GET, "lazuli-ttl", Bytes::new());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            read(answer, "read expiry", StatusCode::OK)
        })
    }

    /// Sets when entities of this table expire, including existing ones.
    pub fn set_server_ttl(&self, ttl: ServerTtl) -> Request<ServerTtl> {
        let table = self.clone();
        Request::new(move |options| async move {
            let body = Bytes::from(serde_json::to_vec(&ttl).map_err(Error::protocol)?);
            let call = table.setting("set expiry", Method::PUT, "lazuli-ttl", body);
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            read(answer, "set expiry", StatusCode::OK)
        })
    }

    /// Stops the expiry of entities of this table. Those that have expired but are still stored become visible
    /// again.
    pub fn drop_server_ttl(&self) -> Request<()> {
        let table = self.clone();
        Request::new(move |options| async move {
            let call = table.setting("drop expiry", Method::DELETE, "lazuli-ttl", Bytes::new());
            let answer = table.account.exchange(&Call { options, ..call }).await?;
            match answer.status {
                StatusCode::NO_CONTENT => Ok(()),
                _ => Err(answer.into_error("drop expiry")),
            }
        })
    }
}
