//! Reads entries of an index in the order of their entities, and combines several such streams.

use super::access::{Leaf, Tree};
use crate::error::TableError;
use lazuli_engine::{BoxFuture, KeyRange, Revision, ScanEnd, View, Visit};
use lazuli_layout::key::index::with_prefix;
use lazuli_service::{Rows, step};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Entries in the first read; each further read of the same stream fetches four times as many.
const FIRST_ROWS: usize = 32;
const ROWS_MAX: usize = 1024;
/// Maximum entries that all streams of a query hold together.
const BUFFERED_MAX: usize = 8 * ROWS_MAX;
/// Positions at which an intersection compares its streams before it lets the caller check the
/// clock.
const ROUNDS_MAX: usize = 256;

/// An entity's key without its table.
type Entity = Vec<u8>;

/// The position of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this entity.
    At(Entity),
    /// No entity before this one; finding the next may take longer.
    NotBefore(Entity),
    End,
}

/// Combined entries, in the order of their entities.
pub(crate) enum Stream {
    Leaf(Cursor),
    And(Vec<Self>),
    Or(Merged),
}

/// A union of streams.
pub(crate) struct Merged {
    parts: Vec<Stream>,
    /// The position of each part that has not ended, by its number; the first position comes first.
    /// Only parts before a position are moved to it: of many streams, most stay where they are.
    places: BinaryHeap<Reverse<Head>>,
}

/// The position of one part. An unsure position sorts before the same one that is sure.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    entity: Entity,
    is_sure: bool,
    part: usize,
}

/// The entries that begin with a prefix.
pub(crate) struct Cursor {
    prefix: Vec<u8>,
    /// Entities read and not yet passed.
    read: VecDeque<Entity>,
    /// The range left to read.
    rest: Option<KeyRange>,
    rows: usize,
    rows_max: usize,
    entries: u64,
}

/// What all streams of a query share.
#[derive(Clone, Copy)]
struct Bounds<'e> {
    /// The first entity that the query may not read.
    end: &'e [u8],
    rows_max: usize,
}

impl Cursor {
    fn new(leaf: Leaf<'_>, Bounds { end, rows_max }: Bounds<'_>) -> Self {
        let range = with_prefix(leaf.prefix.clone());
        let end = [leaf.prefix.as_slice(), end].concat();
        Self {
            prefix: leaf.prefix,
            read: VecDeque::new(),
            rest: Some(KeyRange::new(range.start, range.end.min(end))),
            rows: FIRST_ROWS.min(rows_max),
            rows_max,
            entries: 0,
        }
    }
}

impl Merged {
    fn new(parts: Vec<Stream>) -> Self {
        let head = |part| Reverse(Head { entity: Vec::new(), is_sure: false, part });
        Self { places: (0..parts.len()).map(head).collect(), parts }
    }

    /// The first entity, not before `at`, that any part is at.
    async fn seek(&mut self, view: &dyn View, at: &[u8]) -> Result<Place, TableError> {
        let is_before = |head: &Head| match head.is_sure {
            true => head.entity.as_slice() < at,
            false => head.entity.as_slice() <= at,
        };
        loop {
            match self.places.peek() {
                None => return Ok(Place::End),
                Some(Reverse(head)) if !is_before(head) => {
                    let entity = head.entity.clone();
                    let place = if head.is_sure { Place::At } else { Place::NotBefore };
                    return Ok(place(entity));
                }
                Some(_) => {}
            }
            let Some(Reverse(Head { part, .. })) = self.places.pop() else { continue };
            let Some(stream) = self.parts.get_mut(part) else { continue };
            let (entity, is_sure) = match stream.seek(view, at).await? {
                Place::At(entity) => (entity, true),
                Place::NotBefore(entity) => (entity, false),
                Place::End => continue,
            };
            let head = Head { entity, is_sure, part };
            if is_before(&head) {
                // Finding it takes longer; the caller continues there.
                let entity = head.entity.clone();
                self.places.push(Reverse(head));
                return Ok(Place::NotBefore(entity));
            }
            self.places.push(Reverse(head));
        }
    }
}

impl Stream {
    /// The entities before `end` that `tree` names.
    pub(crate) fn before(end: &[u8], tree: Tree<'_>) -> Self {
        let rows_max = (BUFFERED_MAX / tree.leaves().max(1)).clamp(1, ROWS_MAX);
        Self::new(tree, Bounds { end, rows_max })
    }

    fn new(tree: Tree<'_>, bounds: Bounds<'_>) -> Self {
        let all = |parts: Vec<Tree<'_>>| {
            parts.into_iter().map(|part| Self::new(part, bounds)).collect::<Vec<_>>()
        };
        match tree {
            Tree::Leaf(leaf) => Self::Leaf(Cursor::new(leaf, bounds)),
            Tree::And(parts) => Self::And(all(parts)),
            Tree::Or(parts) => Self::Or(Merged::new(all(parts))),
        }
    }

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
                Self::Or(merged) => merged.seek(view, at).await,
            }
        })
    }

    /// Entries read so far.
    pub(crate) fn entries(&self) -> u64 {
        match self {
            Self::Leaf(cursor) => cursor.entries,
            Self::And(parts) | Self::Or(Merged { parts, .. }) => {
                parts.iter().map(Self::entries).sum()
            }
        }
    }
}

/// The first entity, not before `at`, that all streams are at.
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
        self.rows = (self.rows * 4).min(self.rows_max);
        if let ScanEnd::More(rest) = end {
            self.rest = Some(rest);
        }
        Ok(())
    }
}
