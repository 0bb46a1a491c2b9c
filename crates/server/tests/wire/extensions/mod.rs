//! What the server adds to the service's protocol, for clients that ask (rules X).

mod advice;
mod answers;
mod auto_index;
mod explain;
mod feeds;
mod functions;
mod indexes;
mod large;
mod same_answers;
mod selections;
mod snapshots;
mod switch;
mod transactions;
mod ttl;

use crate::harness::{ACCOUNT, Lazuli, Request, Response, well_known_key};
use lazuli_wire::sas::TableSas;

/// A request that requests extensions.
pub(crate) fn asking(method: &str, target: &str) -> Request {
    Request::new(method, target).with("x-lazuli-extensions", "on")
}

impl Lazuli {
    /// A GET that requests extensions.
    pub(crate) fn ask(&self, target: &str) -> Response {
        self.send(&asking("GET", target))
    }
}

impl Response {
    /// Asserts the status and code of an error, in JSON or XML, whose message contains `text`.
    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str, text: &str) -> Self {
        let body = self.text();
        assert_eq!(self.status, status, "{body}");
        assert!(
            body.contains(&format!("{code}\"")) || body.contains(&format!("{code}<")),
            "{body}"
        );
        assert!(body.contains(text), "{body}");
        self
    }
}

/// A token for `Orders` with these permissions, for all its entities or for partitions `range`.
fn token(permissions: &str, range: Option<(&str, &str)>) -> String {
    let sas = TableSas {
        version: "2019-02-02",
        table: "Orders",
        expiry: "2030-01-01T00:00:00Z",
        permissions,
        start_partition_key: range.map(|(start, _)| start),
        end_partition_key: range.map(|(_, end)| end),
        ..TableSas::default()
    };
    sas.token(ACCOUNT, &well_known_key()).unwrap()
}
