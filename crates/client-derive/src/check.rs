//! Checks for invalid declarations (C-5.3).

use crate::field::{Field, Place};
use crate::names;
use std::collections::HashMap;
use syn::{Error, Result};

/// Properties that an entity may have in addition to its keys and Timestamp.
const PROPERTIES_MAX: usize = 252;

/// Fails for attributes that exclude each other, and for names that are invalid or used by two fields. `extra` are
/// names that the type writes in addition to its fields.
pub(crate) fn check(fields: &[Field<'_>], extra: &[&str], is_wide: bool) -> Result<()> {
    let mut names: HashMap<String, String> =
        extra.iter().map(|name| ((*name).to_owned(), "the discriminator".to_owned())).collect();
    for field in fields {
        attributes(field)?;
        if field.attributes.part > 0 && !is_wide {
            return Err(field.error("only a wide entity has parts: `#[table(wide(parts = ..))]`"));
        }
        if is_wide && field.place() == Place::Rest {
            return Err(
                field.error("the parts of a wide entity are known: no field takes the rest")
            );
        }
        if is_wide && field.attributes.large.is_some() {
            return Err(field.error("a wide entity has no large values"));
        }
        if !field.has_property() && field.attributes.large.is_none() {
            continue;
        }
        names::check(&field.name, field.ident.span())?;
        if let Some(other) = names.insert(field.name.clone(), format!("`{}`", field.ident)) {
            let message = format!("{other} has the property name `{}` too", field.name);
            return Err(field.error(message));
        }
    }
    if !is_wide
        && names.len() > PROPERTIES_MAX
        && let Some(field) = fields.last()
    {
        let message = format!("{} properties, of which an entity has at most 252", names.len());
        return Err(field.error(message));
    }
    let rests: Vec<_> = fields.iter().filter(|field| field.place() == Place::Rest).collect();
    match rests.as_slice() {
        [_, second, ..] => Err(second.error("one field takes the rest")),
        _ => Ok(()),
    }
}

fn attributes(field: &Field<'_>) -> Result<()> {
    let said = &field.attributes;
    let alone = [said.skip, said.etag, said.timestamp, said.rest, said.flatten.is_some()];
    let in_key = !field.key_specs.is_empty();
    let fault: Option<&str> = if alone.iter().filter(|is| **is).count() > 1 {
        Some("skip, etag, timestamp, rest and flatten exclude each other")
    } else if said.json && said.form.is_some() {
        Some("json and `as` exclude each other")
    } else if in_key && alone.contains(&true) {
        Some("a field of a key is stored")
    } else if in_key && field.is_optional {
        Some("a field of a key is always there")
    } else if in_key && (said.encrypt || said.chunked || said.large.is_some()) {
        Some("a field of a key is not encrypted, chunked or large")
    } else if said.also_property && !in_key {
        Some("no key holds this field: it is a property anyway")
    } else if said.blind_index && !said.encrypt {
        Some("a blind index is of an encrypted field")
    } else if said.series.is_some()
        && (field.is_optional || in_key || said.name.is_some() || said.encrypt || said.chunked)
    {
        Some("a series is a field of its own: not optional, named, encrypted, chunked, or of a key")
    } else if said.large.is_some() && (said.chunked || said.json || said.form.is_some()) {
        Some("a large field has no other form")
    } else if said.large.is_some() && said.encrypt {
        Some("blobs are not encrypted yet: a large field cannot be")
    } else {
        None
    };
    match fault {
        Some(fault) => Err(Error::new(field.ident.span(), fault)),
        None => Ok(()),
    }
}
