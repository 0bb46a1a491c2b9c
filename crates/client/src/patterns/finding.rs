//! What is wrong where a fact is stored twice (P-0.5).

use crate::entity::Entity;
use lazuli_model::EntityKey;
use std::fmt;

/// A row that is not as the entity it belongs to says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The index, list or field it is about.
    pub about: &'static str,
    /// The row.
    pub row: EntityKey,
    /// The entity it belongs to, if one is named.
    pub primary: Option<EntityKey>,
    /// What the row should hold; `None` if it should not be there.
    pub expected: Option<Entity>,
    /// What the row holds; `None` if it is not there.
    pub found: Option<Entity>,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// It should be there.
    Missing,
    /// It holds something else.
    Stale,
    /// No entity says that it should be there.
    Orphan,
    /// Two entities say that it is theirs.
    Duplicate,
    /// Its parts are of different writes.
    Torn,
}

impl FindingKind {
    /// Whether it is found from the copy, and not from the entity that lacks it.
    pub(crate) fn is_of_copy(self) -> bool {
        matches!(self, Self::Stale | Self::Orphan)
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "missing",
            Self::Stale => "stale",
            Self::Orphan => "orphan",
            Self::Duplicate => "duplicate",
            Self::Torn => "torn",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, about, row, primary, .. } = self;
        write!(f, "{kind:?} {about} ({}, {})", row.partition, row.row)?;
        match primary {
            Some(primary) => write!(f, " of ({}, {})", primary.partition, primary.row),
            None => Ok(()),
        }
    }
}
