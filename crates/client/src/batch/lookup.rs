//! What became of a transaction whose answer was lost (C-13): its rows are looked at, one after the other, until one
//! tells.

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

/// A transaction that was carried out, as its rows tell.
pub(super) struct Resolved {
    /// The versions of the rows that were looked at, as far as they were written.
    pub(super) etags: Vec<Option<ETag>>,
    pub(super) proof: Proof,
}

/// What one row tells of the transaction.
enum Word {
    /// It carries its id.
    Applied,
    /// It is as it was before.
    NotApplied,
    /// It is as it should be, and somebody else may have made it so.
    Consistent,
    /// It is otherwise, and that does not tell whether it was as it should be for a time.
    Other,
}

/// Looks at the rows of a transaction that was refused after an earlier attempt may have been carried out. `error` is
/// the refusal.
///
/// All or nothing: an id in one row, or the version that one was to have, speaks for all. What a row holds speaks for that
/// row alone, so that without an id all of them must be as they should be.
pub(super) async fn resolve(
    account: &Account,
    table: &TableName,
    prepared: &Prepared,
    trust: Trust,
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
        // Only an id that another row has kept can tell now.
        if is_other && !is_marked(operation) {
            break;
        }
        let read_from = operation.table.as_ref().unwrap_or(table);
        let options = CallOptions::default();
        let found: Option<Loaded<Entity>> =
            table::get(&account.unprotected(), read_from, &operation.key, options)
                .await
                .map_err(|cause| place(write::unknown(cause, "batch"), table))?;
        let own = is_marked(operation).then_some(*own);
        let (word, etag) =
            (word(operation, own, found.as_ref()), found.map(|row| row.etag().clone()));
        if let Some(slot) = etags.get_mut(index).filter(|_| operation.verb.is_some()) {
            *slot = etag;
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
    // A message leaves no trace that could be looked up: only a proof counts.
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

/// The operations, those first whose rows tell most: what carries the id, what names the version it found, an insert,
/// another write, and a deletion last.
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

/// What a row tells. `own` is the id that it would carry.
fn word(
    operation: &Operation,
    own: Option<lazuli_model::Guid>,
    found: Option<&Loaded<Entity>>,
) -> Word {
    let Some(row) = found else {
        // That it is gone is what a deletion wants.
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
