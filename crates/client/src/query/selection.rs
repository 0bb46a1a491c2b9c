//! What a query looks for, and the rows that belong to a type.

use crate::entity::TableEntity;
use crate::error::Error;
use crate::filter::Filter;
use crate::key::KeyError;
use crate::kind::Kind;
use crate::layout::Layout;

/// What a query looks for: a [`Filter`], or a range of keys.
#[derive(Debug)]
pub struct Selection {
    pub(super) filter: Option<Filter>,
    pub(super) fault: Option<Error>,
    /// Whether it already names the rows of the type.
    pub(super) is_narrow: bool,
}

impl Selection {
    /// All rows.
    pub(crate) fn all() -> Self {
        Self { filter: None, fault: None, is_narrow: false }
    }

    /// The same selection for another table; an error if it is invalid.
    #[cfg(feature = "patterns")]
    pub(crate) fn again(&self) -> Result<Self, Error> {
        match &self.fault {
            Some(fault) => Err(Error::new(fault.kind().clone())),
            None => {
                Ok(Self { filter: self.filter.clone(), fault: None, is_narrow: self.is_narrow })
            }
        }
    }

    /// A selection that makes the query fail.
    pub(crate) fn refused(self, error: Error) -> Self {
        Self { fault: self.fault.or(Some(error)), ..self }
    }

    /// A range of keys, if the keys are valid.
    pub(crate) fn of_keys(filter: Result<Filter, KeyError>) -> Self {
        match filter {
            Ok(filter) => Self { filter: Some(filter), fault: None, is_narrow: true },
            Err(error) => Self { filter: None, fault: Some(error.into()), is_narrow: true },
        }
    }
}

impl From<Filter> for Selection {
    fn from(filter: Filter) -> Self {
        Self { filter: Some(filter), ..Self::all() }
    }
}

/// The condition that rows of a type meet, as far as its declaration shows.
pub(super) fn own_rows<T: TableEntity>() -> Option<Filter> {
    let Layout { row_prefix, own_after, .. } = T::LAYOUT;
    let prefix = (!row_prefix.is_empty()).then(|| crate::filter::row().starts_with(row_prefix));
    let kind = if own_after > 0 { T::KIND.map(Kind::filter) } else { None };
    match (prefix, kind) {
        (Some(prefix), Some(kind)) => Some(prefix.and(kind)),
        (prefix, kind) => prefix.or(kind),
    }
}
