//! Finds out what happened to a transaction whose answer was lost (C-13): reads its rows one by one until one of
//! them settles it.

use super::send::Trust;
use super::send::place;
use super::{Operation, Prepared};
use crate::account::Account;
use crate::call::CallOptions;
use crate::entity::{ETag, Entity, Loaded};
use crate::error::{Error, ErrorKind};
use crate::table;
use crate::write::{self, Proof};
use crate::write_ids::Fate;
use lazuli_model::TableName;
use std::time::Duration;

/// A transaction that its rows show to have been carried out.
pub(super) struct Resolved {
    /// The versions of the rows that were checked, where they were written.
    pub(super) etags: Vec<Option<ETag>>,
    pub(super) proof: Proof,
}

/// What one row says about the transaction.
enum Word {
    /// It has the transaction's id.
    Applied,
    /// It is unchanged.
    NotApplied,
    /// It has the wanted state, but another client may have caused that.
    Consistent,
    /// It has another state; it may still have had the wanted one for a time.
    Other,
}

/// Checks the rows of a transaction that was refused after an earlier attempt may have been carried out. `error` is
/// the refusal, `deadline` the end of the verb, if it has one.
///
/// As the transaction is all or nothing, an id in one row, or the version that a row was to have, is proof for all
/// rows. The content of a row is evidence for that row only: without an id, all rows must have the wanted state.
pub(super) async fn resolve(
    account: &Account,
    table: &TableName,
    prepared: &Prepared,
    trust: Trust,
    deadline: Option<Duration>,
    error: Error,
) -> Result<Resolved, Error> {
    let Prepared { operations, messages, own, .. } = prepared;
    let unknown = |error: Error| error.with_kind(ErrorKind::OutcomeUnknown);
    let is_marked = |operation: &Operation| operation.properties.ids_kept() > 0;
    let deletes_only = operations.iter().all(|operation| operation.verb.is_none());
    let mut etags: Vec<Option<ETag>> = vec![None; operations.len()];
    let mut is_other = false;
    for index in in_order(operations) {
        let Some(operation) = operations.get(index) else { continue };
        // Now only an id kept in another row can settle it.
        if is_other && !is_marked(operation) {
            break;
        }
        let read_from = operation.table.as_ref().unwrap_or(table);
        let options = CallOptions::default().until(deadline, &account.0.env);
        let found: Option<Loaded<Entity>> =
            table::get(&account.unprotected(), read_from, &operation.key, options)
                .await
                .map_err(|cause| place(write::unknown(cause, "batch"), table))?;
        let own = is_marked(operation).then_some(*own);
        let word = word(operation, own, found.as_ref());
        if let (Some(slot), Some(verb), Some(row)) = (etags.get_mut(index), operation.verb, &found)
        {
            *slot = Some(write::version_of(row, &operation.properties, verb));
        }
        match word {
            Word::Applied => return Ok(Resolved { etags, proof: Proof::WriteIds }),
            Word::NotApplied => {
                return Err(error.with(|context| context.may_have_been_applied = false));
            }
            Word::Consistent => {}
            Word::Other => is_other = true,
        }
    }
    // A message leaves no trace that could be checked: only a proof counts.
    if is_other && messages.is_empty() {
        return Err(error);
    }
    let (proof, least) = match deletes_only {
        true => (Proof::State, Trust::State),
        false => (Proof::Content, Trust::Content),
    };
    let is_enough = trust >= least && messages.is_empty() && !is_other;
    if is_enough { Ok(Resolved { etags, proof }) } else { Err(unknown(error)) }
}

/// The operations, those with the most telling rows first: the one with the id, one that names the version it found,
/// an insert, another write, and last a deletion.
fn in_order(operations: &[Operation]) -> Vec<usize> {
    let rank = |operation: &Operation| match () {
        () if operation.properties.ids_kept() > 0 => 0,
        () if operation.if_match.as_deref().is_some_and(|etag| etag != "*") => 1,
        () if operation.verb == Some(write::WriteVerb::Insert) => 2,
        () if operation.verb.is_some() => 3,
        () => 4,
    };
    let mut order: Vec<usize> = (0..operations.len()).collect();
    order.sort_by_key(|index| operations.get(*index).map(rank));
    order
}

/// What a row says about the transaction. `own` is the transaction's id.
fn word(
    operation: &Operation,
    own: Option<lazuli_model::Guid>,
    found: Option<&Loaded<Entity>>,
) -> Word {
    let Some(row) = found else {
        // A missing row is what a deletion wants.
        return if operation.verb.is_none() { Word::Consistent } else { Word::Other };
    };
    if operation.if_match.as_deref() == Some(row.etag().as_str()) {
        return Word::NotApplied;
    }
    if let Some(own) = own {
        return match row.write_ids().fate_of(own, &operation.base) {
            Fate::Applied => Word::Applied,
            Fate::NotApplied => Word::NotApplied,
            Fate::Unknown => Word::Other,
        };
    }
    match operation.verb {
        Some(verb) if write::holds(row, &operation.properties, verb) => Word::Consistent,
        Some(_) | None => Word::Other,
    }
}
