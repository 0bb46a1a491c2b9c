//! Keys of other entities as properties (P-12.3).

use crate::entity::{Loaded, Properties, TableEntity};
use crate::error::{Error, ErrorKind};
use crate::fields::{Fields, TableFields, prefixed};
use crate::form::Plain;
use crate::key::{Key, KeyError};
use crate::property::PropertyDef;
use crate::table::Table;
use crate::value::{DecodeError, EncodeError, IntoValue, ValueError};
use lazuli_model::{EdmType, EntityKey};
use std::fmt;
use std::marker::PhantomData;

const PARTITION_KEY: &str = "PartitionKey";
const ROW_KEY: &str = "RowKey";

/// A type whose entities belong to one of another type: `#[table(parent(Department, by = department))]`
/// (P-12.1).
pub trait HasParent: TableEntity {
    /// The type of the parent.
    type Parent: TableEntity;

    /// The key of the parent.
    fn parent_key(&self) -> Result<Key<Self::Parent>, KeyError>;

    /// The same, from the key of an entity only; `None` if the key does not determine it.
    fn parent_of_key(key: &EntityKey) -> Result<Option<Key<Self::Parent>>, KeyError>;
}

/// The names of the two properties of a link.
#[cfg(feature = "patterns")]
pub(crate) fn names(prefix: &str) -> [String; 2] {
    [PARTITION_KEY, ROW_KEY].map(|name| format!("{prefix}{name}"))
}

/// The key of another entity, stored as two properties: `ManagerPartitionKey` and `ManagerRowKey` for a field
/// `manager`.
///
/// ```
/// use lazuli_client::prelude::*;
/// use lazuli_client::{HasParent, Link};
///
/// #[derive(TableEntity)]
/// #[table(partition = "{department}", row = "Department")]
/// struct Department { department: String, manager: Option<Link<Employee>> }
///
/// #[derive(TableEntity)]
/// #[table(partition = "{department}", row = "empid_{id:06}", parent(Department, by = department))]
/// struct Employee { department: String, id: u32 }
///
/// # fn run() -> Result<(), lazuli_client::KeyError> {
/// let don = Employee { department: "Sales".into(), id: 7 };
/// let manager: Link<Employee> = Link::to(&don)?;
/// let sales = don.parent_key()?;
/// assert_eq!(sales.as_entity_key().row.as_str(), "Department");
/// let of_key = Employee::parent_of_key(Employee::key("Sales", 7)?.as_entity_key())?;
/// assert_eq!(of_key.unwrap().as_entity_key(), sales.as_entity_key());
/// # Ok(())
/// # }
/// # run().unwrap();
/// ```
pub struct Link<T> {
    key: EntityKey,
    to: PhantomData<fn() -> T>,
}

impl<T: TableEntity> Link<T> {
    /// A link to the entity with this key.
    pub fn new(key: &Key<T>) -> Self {
        Self { key: key.as_entity_key().clone(), to: PhantomData }
    }

    /// A link to this entity.
    pub fn to(value: &T) -> Result<Self, KeyError> {
        Ok(Self { key: value.key()?, to: PhantomData })
    }

    /// The key of the other entity.
    pub fn key(&self) -> Key<T> {
        Key::new(self.key.clone())
    }

    /// Reads the other entity; fails with [`ErrorKind::BrokenLink`] if it does not exist.
    pub async fn get(&self, table: &Table<T>) -> Result<Loaded<T>, Error> {
        let found = table.get(self.key()).await?;
        found.ok_or_else(|| {
            Error::new(ErrorKind::BrokenLink).at("link", Some(table.name()), Some(&self.key))
        })
    }
}

impl<T> Clone for Link<T> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), to: PhantomData }
    }
}

impl<T> PartialEq for Link<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Link<T> {}

impl<T> fmt::Debug for Link<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({}, {})", self.key.partition, self.key.row)
    }
}

impl<T> TableFields for Link<T> {
    const PROPERTIES: &'static [PropertyDef] = &[
        PropertyDef::new("partition_key", PARTITION_KEY, Some(EdmType::String)),
        PropertyDef::new("row_key", ROW_KEY, Some(EdmType::String)),
    ];

    fn write_fields(&self, prefix: &str, out: &mut Properties) -> Result<(), EncodeError> {
        out.push(prefixed(prefix, PARTITION_KEY), self.key.partition.as_str().into_value());
        out.push(prefixed(prefix, ROW_KEY), self.key.row.as_str().into_value());
        Ok(())
    }

    fn read_fields(prefix: &str, fields: &mut Fields) -> Result<Self, DecodeError> {
        let partition: String = fields.required::<Plain, _>(&prefixed(prefix, PARTITION_KEY))?;
        let row: String = fields.required::<Plain, _>(&prefixed(prefix, ROW_KEY))?;
        let key = EntityKey::parse(&partition, &row).map_err(|error| {
            fields.error(&prefixed(prefix, ROW_KEY), ValueError::Key(Box::new(error.into())))
        })?;
        Ok(Self { key, to: PhantomData })
    }
}
