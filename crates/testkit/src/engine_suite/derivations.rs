//! What the suite derives from rows: an index, a unique index, a change feed.

use super::*;
use lazuli_engine::{Change, Derive, Derived, Refusal};
use std::collections::BTreeSet;

/// The prefix of the rows.
pub(crate) const ROWS: &str = "row/";
/// The prefix of the index from values to rows.
pub(crate) const INDEX: &str = "index/";
/// The prefix of the unique index.
pub(crate) const UNIQUE: &str = "unique/";
/// The prefix of the change feed.
pub(crate) const FEED: &str = "feed/";

/// An index of rows by value; several rows may have the same value. Other keys are not indexed.
#[derive(Debug)]
pub(crate) struct ByValue;

impl Derive for ByValue {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        let rows = key(ROWS);
        for change in changes.iter().filter(|change| change.key.starts_with(rows.as_slice())) {
            let entry = |value: &[u8]| key([INDEX.as_bytes(), value, b"/", change.key].concat());
            let (before, after) = (change.before.map(|before| before.value), change.after);
            if let Some(value) = before.filter(|before| Some(*before) != after) {
                derived.write(change.index, Write::Delete(entry(value)));
            }
            if let Some(value) = after {
                derived.write(change.index, Write::Put(entry(value), change.key.to_vec().into()));
            }
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// An index in which a value has at most one row after the commit: rows of one commit may swap
/// their values.
#[derive(Debug)]
pub(crate) struct Unique;

impl Derive for Unique {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        let mut freed: BTreeSet<&[u8]> =
            changes.iter().filter_map(|c| Some(c.before?.value)).collect();
        let mut taken = BTreeSet::new();
        for change in changes {
            let Some(value) = change.after else { continue };
            if !taken.insert(value) {
                return Err(Refusal { index: change.index, reason: "twice in one commit".into() });
            }
            let claim = key([UNIQUE.as_bytes(), value].concat());
            if !freed.remove(value) {
                let check = Check { key: claim.clone(), expect: Expect::Absent };
                derived.check(change.index, check, "the value is taken");
            }
            derived.write(change.index, Write::Put(claim, change.key.to_vec().into()));
        }
        for value in freed {
            let claim = key([UNIQUE.as_bytes(), value].concat());
            derived.write(0, Write::Delete(claim));
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}

/// Records each change in a feed.
#[derive(Debug)]
pub(crate) struct Feed;

impl Derive for Feed {
    fn derive(&self, changes: &[Change<'_>], derived: &mut Derived) -> Result<(), Refusal> {
        for change in changes {
            let after = change.after.unwrap_or(b"-");
            let entry = [change.key, b"=", after].concat();
            derived.write(change.index, Write::Append(key(FEED), entry.into()));
        }
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        0
    }
}
