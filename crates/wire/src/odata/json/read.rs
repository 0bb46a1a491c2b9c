//! JSON request bodies: one flat object, read in one pass and mostly borrowed.

use super::super::{BodyError, EntityBody};
use super::cursor::{Scalar, read_object};
use super::members::{Kind, Members};

/// Reads an entity (sections 3.4 to 3.6 of the specification).
pub fn read_entity(body: &[u8]) -> Result<EntityBody<'_>, BodyError> {
    let mut entity = Members::with_room();
    read_object(body, |name, value| entity.add(Kind::of(&name), name, value))?;
    entity.finish()
}

/// Reads the body of Create Table; `None` if it names no table.
pub fn read_table_name(body: &[u8]) -> Result<Option<String>, BodyError> {
    let mut table = None;
    read_object(body, |name, value| {
        let scalar = value.scalar()?;
        if name == "TableName" {
            table = match scalar {
                Scalar::Null => None,
                Scalar::String(text) => Some(text.into_owned()),
                _ => return Err(BodyError::InvalidValue),
            };
        }
        Ok(())
    })?;
    Ok(table)
}

#[cfg(test)]
mod tests;
