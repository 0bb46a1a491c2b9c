//! Inconsistencies between rows that store the same fact (P-0.5).

use crate::entity::Entity;
use lazuli_model::EntityKey;
use std::fmt;

/// A row that is inconsistent with its entity.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What is wrong.
    pub kind: FindingKind,
    /// The index, list or field concerned.
    pub about: &'static str,
    /// The row.
    pub row: EntityKey,
    /// The entity it belongs to, if the row names one.
    pub primary: Option<EntityKey>,
    /// The expected row; `None` if there should be none.
    pub expected: Option<Entity>,
    /// The actual row; `None` if there is none.
    pub found: Option<Entity>,
}

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FindingKind {
    /// It is missing.
    Missing,
    /// Its content is wrong.
    Stale,
    /// No entity justifies it.
    Orphan,
    /// Two entities claim it.
    Duplicate,
    /// Its parts come from different writes.
    Torn,
}

impl FindingKind {
    /// Whether it is found by reading the copy rather than the entity.
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
