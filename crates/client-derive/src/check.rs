//! What a declaration must not say (C-5.3).

use crate::field::{Field, Place};
use crate::names;
use std::collections::HashMap;
use syn::{Error, Result};

/// Properties that an entity may have beside its keys and Timestamp.
const PROPERTIES_MAX: usize = 252;

/// Fails for attributes that exclude each other, and for names that the service does not take or that two
/// fields have. `extra` are names that the type writes beside its fields.
pub(crate) fn check(fields: &[Field<'_>], extra: &[&str]) -> Result<()> {
    let mut names: HashMap<String, String> =
        extra.iter().map(|name| ((*name).to_owned(), "the discriminator".to_owned())).collect();
    for field in fields {
        attributes(field)?;
        if !field.has_property() {
            continue;
        }
        names::check(&field.name, field.ident.span())?;
        if let Some(other) = names.insert(field.name.clone(), format!("`{}`", field.ident)) {
            let message = format!("{other} has the property name `{}` too", field.name);
            return Err(field.error(message));
        }
    }
    if names.len() > PROPERTIES_MAX
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
    } else if said.chunked && said.large.is_some() {
        Some("chunked and large exclude each other")
    } else {
        None
    };
    match fault {
        Some(fault) => Err(Error::new(field.ident.span(), fault)),
        None => Ok(()),
    }
}
