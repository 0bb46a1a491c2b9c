//! A type's declarations about lists of its entities (P-4).

use crate::layout::{Layout, begins_with};
use lazuli_model::EntityKey;
use std::marker::PhantomData;

/// A list of the entities that share a value.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::ListHome;
///
/// #[derive(TableEntity, Clone)]
/// #[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}")]
/// #[index_list(last_name, option = 2, row = "last_{last_name}", items = "IDs", item = "{id:06}")]
/// struct Employee { department: String, id: u32, last_name: String }
///
/// let [by_name] = Employee::LISTS else { panic!() };
/// assert_eq!((by_name.name, by_name.home), ("last_name", ListHome::Beside));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListDef {
    /// The name of the list.
    pub name: &'static str,
    /// The value of `_ix` in its rows: the kind of the type and the name (P-0.2).
    pub mark: &'static str,
    /// Where it is stored.
    pub home: ListHome,
    /// The property with the items.
    pub items: &'static str,
    /// The prefix of its row keys.
    pub row_prefix: &'static str,
    /// The container for lists that do not fit into an entity.
    pub overflow: Option<&'static str>,
}

/// Where a list is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListHome {
    /// In a blob (option 1).
    Blob,
    /// In the same partition as the entities (option 2).
    Beside,
    /// In another partition of their table (option 3).
    Elsewhere,
}

impl ListDef {
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        mark: &'static str,
        home: ListHome,
        items: &'static str,
        row_prefix: &'static str,
    ) -> Self {
        Self { name, mark, home, items, row_prefix, overflow: None }
    }

    #[doc(hidden)]
    pub const fn overflowing(self, container: &'static str) -> Self {
        Self { overflow: Some(container), ..self }
    }
}

/// A list of `T`: `Employee::list_last_name("Sales", "Jones")?` makes one.
#[derive(Debug)]
pub struct ListKey<T> {
    number: usize,
    place: EntityKey,
    of: PhantomData<fn() -> T>,
}

impl<T> ListKey<T> {
    #[doc(hidden)]
    pub fn new(number: usize, place: EntityKey) -> Self {
        Self { number, place, of: PhantomData }
    }

    /// The key of the entity that holds the list; the container and the name of a blob.
    pub fn place(&self) -> &EntityKey {
        &self.place
    }

    #[cfg(feature = "patterns")]
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

impl<T> Clone for ListKey<T> {
    fn clone(&self) -> Self {
        Self::new(self.number, self.place.clone())
    }
}

/// Checks the prefix rule (P-0.4): lists in the entities' partition have row keys of their own.
pub const fn check_lists(layout: &Layout, lists: &[ListDef]) {
    let mut rest = lists;
    while let [list, others @ ..] = rest {
        if matches!(list.home, ListHome::Beside) {
            assert!(
                !list.row_prefix.is_empty() && !layout.row_prefix.is_empty(),
                "the row templates of a type and of its lists begin with literals"
            );
            assert!(
                !begins_with(list.row_prefix, layout.row_prefix)
                    && !begins_with(layout.row_prefix, list.row_prefix),
                "row keys of the type and of a list begin alike"
            );
        }
        rest = others;
    }
}
