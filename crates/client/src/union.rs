//! Several types in one table: which type a row has (C-6).

use crate::entity::{Entity, TableEntity};
use crate::kind::Kind;
use crate::layout::{Layout, same};
use crate::value::{DecodeError, Value, ValueError};

/// An enum of entity types that share a table, derived with `#[derive(TableUnion)]`.
///
/// ```
/// use lazuli_client::prelude::*;
///
/// #[derive(TableEntity)]
/// #[table(kind = "Employee", partition = "{team}", row = "{id:06}")]
/// struct Employee { team: String, id: u32 }
///
/// #[derive(TableEntity)]
/// #[table(kind = "Department", partition = "{team}", row = "Department")]
/// struct Department { team: String, people: i32 }
///
/// #[derive(TableUnion)]
/// #[table(discriminator = "EntityType")]
/// enum Staff {
///     Employee(Employee),
///     Department(Department),
///     #[table(other)]
///     Other(Entity),
/// }
///
/// let row = Entity::new("Sales", "Department").with("EntityType", "Department");
/// assert_eq!(Staff::kind_of(&row), Some("Department"));
/// assert_eq!(Staff::kind_of(&Entity::new("Sales", "x")), None);
/// ```
pub trait Union: TableEntity {
    /// The kind of an entity, without decoding it (C-6.6); `None` if it has no type of the union.
    fn kind_of(entity: &Entity) -> Option<&'static str>;
}

/// Distinguishes the rows of one type of a union.
pub struct Member {
    kind: Option<Kind>,
    layout: Layout,
}

impl Member {
    /// The member for an entity type.
    pub const fn of<T: TableEntity>() -> Self {
        Self { kind: T::KIND, layout: T::LAYOUT }
    }

    /// Whether an entity has this type: by its discriminator, else by its row key.
    #[cfg(feature = "patterns")]
    pub(crate) fn has(&self, entity: &Entity) -> bool {
        match self.kind.map(|kind| (kind, entity.value(kind.property))) {
            Some((kind, Some(Value::String(text)))) => kind.version_of(text).is_some(),
            _ => entity.row_key().starts_with(self.layout.row_prefix),
        }
    }

    /// The name of the kind, or the template of the row keys.
    pub fn kind_name(&self) -> Option<&'static str> {
        Some(self.kind.map_or(self.layout.row, |kind| kind.name))
    }
}

/// Whether a type has a kind in this property.
pub const fn is_kind(kind: Option<Kind>, property: &str) -> bool {
    match kind {
        Some(kind) => same(kind.property, property),
        None => false,
    }
}

/// The type of a row: by its discriminator, else by its row key. With `newer_is_other`, a row with an unknown newer
/// version has no type.
pub fn member_of(
    entity: &Entity,
    members: &[Member],
    property: &str,
    by_row: bool,
    newer_is_other: bool,
) -> Option<usize> {
    if let Some(Value::String(text)) = entity.value(property) {
        return members.iter().position(|member| {
            let kind = member.kind.filter(|kind| kind.property == property);
            let version = kind.and_then(|kind| Some((kind.version_of(text)?, kind.version)));
            version.is_some_and(|(found, known)| found <= known || !newer_is_other)
        });
    }
    if !by_row {
        return None;
    }
    members.iter().position(|member| entity.row_key().starts_with(member.layout.row_prefix))
}

/// The error of a row that has no type of the union.
pub fn foreign_kind(entity: &Entity, property: &'static str) -> DecodeError {
    let reason = match entity.value(property) {
        Some(Value::String(text)) => {
            ValueError::WrongKind { expected: "one of the union", found: text.to_string() }
        }
        Some(_) | None => ValueError::Missing,
    };
    entity.decode_error(property, reason)
}
