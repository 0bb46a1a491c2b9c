//! The extensions that a request asks for beyond syntax: the headers `x-lazuli-…`, read only if it
//! requests extensions at all.

use crate::error::{ApiError, ApiResult};
use crate::headers::RequestHeaders;
use crate::table::operation::Operation;
use lazuli_wire::error_code::ErrorCode;

const EXPLAIN: &str = "x-lazuli-explain";
pub(crate) const SNAPSHOT: &str = "x-lazuli-snapshot";
const TRANSACTION: &str = "x-lazuli-transaction";

const SNAPSHOT_VALUES: &str =
    "The value of x-lazuli-snapshot must be 'new', the name of a snapshot, or 'NAME;end'.";

const EXPLAIN_WHERE: &str =
    "x-lazuli-explain is for queries, point reads, counts and deletions by filter.";

const SNAPSHOT_WHERE: &str =
    "x-lazuli-snapshot is for queries, point reads and counts of entities.";

/// What a request asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) explain: Option<Explain>,
    pub(crate) snapshot: Option<SnapshotAsked>,
    /// Whether a transaction may span partitions and tables.
    pub(crate) any_transaction: bool,
}

/// Which snapshot a request reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SnapshotAsked {
    New,
    Named { name: String, ends: bool },
}

/// How a query is explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Explain {
    /// Its plan, in place of its page.
    Plan,
    /// Its plan and what it cost, in addition to its page.
    Run,
}

impl Asked {
    pub(crate) fn read(headers: &RequestHeaders<'_>) -> ApiResult<Self> {
        let text = |name| {
            let mut lines = headers.all.get_all(name).iter();
            match (lines.next(), lines.next()) {
                (_, Some(_)) => Err(invalid("A header x-lazuli-… may occur once.")),
                (line, None) => Ok(line.map(|value| value.to_str().unwrap_or("?").trim())),
            }
        };
        let explain = match text(EXPLAIN)? {
            None => None,
            Some("plan") => Some(Explain::Plan),
            Some("run") => Some(Explain::Run),
            Some(_) => {
                return Err(invalid("The value of x-lazuli-explain must be 'plan' or 'run'."));
            }
        };
        let snapshot = match text(SNAPSHOT)? {
            None => None,
            Some("") => return Err(invalid(SNAPSHOT_VALUES)),
            Some("new") => Some(SnapshotAsked::New),
            Some(named) => Some(match named.split_once(';') {
                None => SnapshotAsked::Named { name: named.to_owned(), ends: false },
                Some((name, "end")) => SnapshotAsked::Named { name: name.to_owned(), ends: true },
                Some(_) => return Err(invalid(SNAPSHOT_VALUES)),
            }),
        };
        let any_transaction = match text(TRANSACTION)? {
            None => false,
            Some("any") => true,
            Some(_) => return Err(invalid("The value of x-lazuli-transaction must be 'any'.")),
        };
        Ok(Self { explain, snapshot, any_transaction })
    }

    /// Refuses what `operation` does not support. Ignoring it would write where the client wants a
    /// plan, or show a different state from the one it names.
    pub(crate) fn check(&self, operation: Operation) -> ApiResult<()> {
        let reads = reads_entities(operation);
        if self.explain.is_some() && !reads && operation != Operation::DeleteEntities {
            return Err(invalid(EXPLAIN_WHERE));
        }
        if self.snapshot.is_some() && !reads {
            return Err(invalid(SNAPSHOT_WHERE));
        }
        Ok(())
    }
}

/// Whether an operation can read a snapshot.
pub(crate) fn reads_entities(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::QueryEntity | Operation::QueryEntities | Operation::CountEntities
    )
}

fn invalid(text: &'static str) -> ApiError {
    ApiError::with_text(ErrorCode::InvalidHeaderValue, text)
}
