//! Reads entries of an index in the order of their entities, and combines several such streams.

use super::access::{Leaf, Tree};
use crate::error::TableError;
use lazuli_engine::{BoxFuture, KeyRange, Revision, ScanEnd, View, Visit};
use lazuli_layout::key::index::with_prefix;
use lazuli_service::{Rows, step};
use std::collections::VecDeque;

/// Entries read at first; every further read of the same stream takes four times as many.
const FIRST_ROWS: usize = 32;
const ROWS_MAX: usize = 1024;
/// Places at which an intersection compares its streams before it lets the caller look at the
/// clock.
const ROUNDS_MAX: usize = 256;

/// An entity's key without its table.
type Entity = Vec<u8>;

/// Where a stream is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this entity.
    At(Entity),
    /// No entity before this one; it may take longer to find the next.
    NotBefore(Entity),
    End,
}

/// Entries, combined, in the order of their entities.
pub(crate) enum Stream {
    Leaf(Cursor),
    And(Vec<Self>),
    Or(Vec<Self>),
}

/// The entries that begin with a prefix.
pub(crate) struct Cursor {
    prefix: Vec<u8>,
    /// Entities read and not yet passed.
    read: VecDeque<Entity>,
    /// What is left to read.
    rest: Option<KeyRange>,
    rows: usize,
    entries: u64,
}

impl From<Tree<'_>> for Stream {
    fn from(tree: Tree<'_>) -> Self {
        let all = |parts: Vec<Tree<'_>>| parts.into_iter().map(Self::from).collect();
        match tree {
            Tree::Leaf(leaf) => Self::Leaf(leaf.into()),
            Tree::And(parts) => Self::And(all(parts)),
            Tree::Or(parts) => Self::Or(all(parts)),
        }
    }
}

impl From<Leaf<'_>> for Cursor {
    fn from(leaf: Leaf<'_>) -> Self {
        let range = with_prefix(leaf.prefix.clone());
        Self {
            prefix: leaf.prefix,
            read: VecDeque::new(),
            rest: Some(KeyRange::new(range.start, range.end)),
            rows: FIRST_ROWS,
            entries: 0,
        }
    }
}

impl Stream {
    /// Moves to the first entity that is not before `at`. Never moves back.
    pub(crate) fn seek<'a>(
        &'a mut self,
        view: &'a dyn View,
        at: &'a [u8],
    ) -> BoxFuture<'a, Result<Place, TableError>> {
        Box::pin(async move {
            match self {
                Self::Leaf(cursor) => cursor.seek(view, at).await,
                Self::And(parts) => seek_all(parts, view, at).await,
                Self::Or(parts) => seek_any(parts, view, at).await,
            }
        })
    }

    /// Entries read so far.
    pub(crate) fn entries(&self) -> u64 {
        match self {
            Self::Leaf(cursor) => cursor.entries,
            Self::And(parts) | Self::Or(parts) => parts.iter().map(Self::entries).sum(),
        }
    }
}

/// The first entity, not before `at`, at which all streams are.
async fn seek_all(parts: &mut [Stream], view: &dyn View, at: &[u8]) -> Result<Place, TableError> {
    let mut at = at.to_vec();
    for _ in 0..ROUNDS_MAX {
        let mut all_are_there = true;
        for part in parts.iter_mut() {
            match part.seek(view, &at).await? {
                Place::At(found) if found == at => {}
                Place::At(found) => {
                    all_are_there = false;
                    at = found;
                }
                Place::NotBefore(found) => return Ok(Place::NotBefore(found)),
                Place::End => return Ok(Place::End),
            }
        }
        if all_are_there {
            return Ok(Place::At(at));
        }
    }
    Ok(Place::NotBefore(at))
}

/// The first entity, not before `at`, at which any stream is.
async fn seek_any(parts: &mut [Stream], view: &dyn View, at: &[u8]) -> Result<Place, TableError> {
    let (mut first, mut unsure): (Option<Entity>, Option<Entity>) = (None, None);
    for part in parts.iter_mut() {
        let (found, slot) = match part.seek(view, at).await? {
            Place::At(found) => (found, &mut first),
            Place::NotBefore(found) => (found, &mut unsure),
            Place::End => continue,
        };
        if slot.as_ref().is_none_or(|least| found < *least) {
            *slot = Some(found);
        }
    }
    Ok(match (first, unsure) {
        (Some(first), Some(unsure)) if unsure <= first => Place::NotBefore(unsure),
        (Some(first), _) => Place::At(first),
        (None, Some(unsure)) => Place::NotBefore(unsure),
        (None, None) => Place::End,
    })
}

impl Cursor {
    async fn seek(&mut self, view: &dyn View, at: &[u8]) -> Result<Place, TableError> {
        loop {
            while self.read.front().is_some_and(|entity| entity.as_slice() < at) {
                self.read.pop_front();
            }
            if let Some(entity) = self.read.front() {
                return Ok(Place::At(entity.clone()));
            }
            let Some(rest) = self.rest.take() else { return Ok(Place::End) };
            let from = [self.prefix.as_slice(), at].concat();
            let range = KeyRange::new(rest.start.max(from), rest.end);
            if !range.is_empty() {
                self.read_more(view, range).await?;
            }
        }
    }

    async fn read_more(&mut self, view: &dyn View, range: KeyRange) -> Result<(), TableError> {
        let (prefix, read) = (self.prefix.len(), &mut self.read);
        let mut visit = |key: &[u8], _: &[u8], _: Revision| {
            read.push_back(key.get(prefix..).unwrap_or_default().to_vec());
            Ok(Visit::Continue)
        };
        let end = step(view, range, Rows::at_most(self.rows), &mut visit).await?;
        self.entries += self.read.len() as u64;
        self.rows = (self.rows * 4).min(ROWS_MAX);
        if let ScanEnd::More(rest) = end {
            self.rest = Some(rest);
        }
        Ok(())
    }
}
