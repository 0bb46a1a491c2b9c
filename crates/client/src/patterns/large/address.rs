//! Names and addresses of blobs with values of entities.

use crate::error::{Error, ErrorKind};
use lazuli_model::{EntityKey, Guid, key_text};
use lazuli_wire::uri::percent_decode;

/// A blob: its container and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::patterns) struct BlobPlace {
    pub(in crate::patterns) container: String,
    pub(in crate::patterns) name: String,
}

/// The entity and property whose value is in a blob. They are in its name: `{table}/{pk}/{rk}/{property}/{id}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::patterns) struct BlobOwner {
    pub(in crate::patterns) table: String,
    pub(in crate::patterns) key: EntityKey,
    pub(in crate::patterns) property: String,
}

/// Parts of a name.
const PARTS: usize = 5;

impl BlobOwner {
    /// The name of a new blob.
    pub(in crate::patterns) fn new_name(&self, id: Guid) -> Result<String, Error> {
        let parts = [
            self.table.as_str(),
            self.key.partition.as_str(),
            self.key.row.as_str(),
            self.property.as_str(),
        ];
        let mut name: String = parts.into_iter().map(|part| escaped(part) + "/").collect();
        name += &id.to_string();
        match lazuli_model::BlobName::parse(&name) {
            Ok(_) => Ok(name),
            // Two keys of 512 characters leave no room.
            Err(_) => Err(Error::new(ErrorKind::Name(name, "blob"))),
        }
    }

    /// Parses the owner from a blob's name; `None` for a name of another form.
    pub(in crate::patterns) fn of(name: &str) -> Option<Self> {
        let parts: Vec<&str> = name.split('/').collect();
        let [table, partition, row, property, _] = parts.as_slice() else { return None };
        let partition = key_text::unescape(partition)?;
        let key = EntityKey::parse(&partition, &key_text::unescape(row)?).ok()?;
        let (table, property) = (key_text::unescape(table)?, key_text::unescape(property)?);
        Some(Self { table, key, property })
    }
}

/// A part of a name. Dots at its end are not safe in a path.
fn escaped(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    key_text::escape(&mut out, part, part.ends_with('.').then_some('.'));
    out
}

impl BlobPlace {
    /// The blob of an address, taken from the end of its path: the host and the account may have changed since it was
    /// written (P-11.7).
    pub(in crate::patterns) fn of(address: &str) -> Option<Self> {
        let (_, after_scheme) = address.split_once("://")?;
        let (_, path) = after_scheme.split_once('/')?;
        let parts: Vec<&str> = path.split('/').collect();
        let first = parts.len().checked_sub(PARTS + 1)?;
        let (container, name) = parts.get(first..)?.split_first()?;
        let name: Option<Vec<_>> = name.iter().map(|part| percent_decode(part).ok()).collect();
        Some(Self { container: (*container).to_owned(), name: name?.join("/") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn owner(partition: &str, row: &str) -> BlobOwner {
        let key = EntityKey::parse(partition, row).unwrap();
        BlobOwner { table: "Staff".into(), key, property: "Photo".into() }
    }

    #[test]
    fn an_address_names_its_blob_wherever_it_lies() {
        // P-11.7: a host of the account's own, the path of an emulator, another host.
        let place = BlobPlace {
            container: "employee-photos".into(),
            name: "Staff/Sales/empid_000223/Photo/0".into(),
        };
        let path = "employee-photos/Staff/Sales/empid_000223/Photo/0";
        for base in [
            "https://a.blob.core.windows.net",
            "http://127.0.0.1:10000/devstoreaccount1",
            "https://b.example/x/y",
        ] {
            assert_eq!(BlobPlace::of(&format!("{base}/{path}")).as_ref(), Some(&place));
        }
        assert_eq!(BlobPlace::of("https://a/too/short"), None);
        assert_eq!(BlobPlace::of("employee-photos"), None);
    }

    #[test]
    fn parts_that_are_dots_are_escaped() {
        let name = owner("..", "a.b").new_name(Guid([0; 16])).unwrap();
        assert!(name.starts_with("Staff/~2E~2E/a.b/Photo/"), "{name}");
        let long = "x".repeat(512);
        assert!(owner(&long, &long).new_name(Guid([0; 16])).is_err());
    }

    proptest! {
        #[test]
        fn a_name_tells_whose_value_it_is(partition in "[^/\\\\#?\\p{Cc}]{0,40}", row in "[^/\\\\#?\\p{Cc}]{0,40}") {
            let owner = owner(&partition, &row);
            prop_assert_eq!(BlobOwner::of(&owner.new_name(Guid([7; 16])).unwrap()), Some(owner));
        }
    }
}
