//! Atom request bodies: only the `m:properties` of an entry matter.
//!
//! A document type is refused, so nothing expands. Nesting is tracked with a counter, not by
//! recursion, and properties contain only text.

use super::super::body::{set_key, value_from_text};
use super::super::{BodyError, EntityBody};
use super::{ATOM, DATA, METADATA};
use lazuli_model::{EdmType, Value};
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::name::{LocalName, Namespace, NamespaceResolver, ResolveResult};
use quick_xml::reader::NsReader;
use std::borrow::Cow;

/// Reads an entity.
pub fn read_entity(body: &[u8]) -> Result<EntityBody<'_>, BodyError> {
    let mut entity = EntityBody::default();
    read_properties(body, |property| match property.name.as_str() {
        _ if property.is_null => Ok(()),
        "PartitionKey" | "RowKey" if property.edm_type != EdmType::String => {
            entity.has_mistyped_key = true;
            Ok(())
        }
        "PartitionKey" => set_key(&mut entity.partition_key, property.text),
        "RowKey" => set_key(&mut entity.row_key, property.text),
        // Ignored whatever its value (T-2.47).
        "Timestamp" => Ok(()),
        _ => {
            entity.properties.push(property.into_pair()?);
            Ok(())
        }
    })?;
    Ok(entity)
}

/// Reads the body of Create Table; `None` when it names no table.
pub fn read_table_name(body: &[u8]) -> Result<Option<String>, BodyError> {
    let mut table = None;
    read_properties(body, |property| {
        if property.name == "TableName" && !property.is_null {
            table = Some(property.text.into_owned());
        }
        Ok(())
    })?;
    Ok(table)
}

struct Property<'a> {
    name: String,
    /// A string unless `m:type` says otherwise (T-2.63).
    edm_type: EdmType,
    is_null: bool,
    text: Cow<'a, str>,
}

impl<'a> Property<'a> {
    fn append(&mut self, piece: Cow<'a, str>) {
        if self.text.is_empty() {
            self.text = piece;
        } else {
            self.text.to_mut().push_str(&piece);
        }
    }

    /// The name and the value. White space counts in strings only (T-2.66).
    fn into_pair(self) -> Result<(Cow<'a, str>, Value<'a>), BodyError> {
        let text = match self.text {
            text if self.edm_type == EdmType::String => text,
            Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
            Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
        };
        Ok((Cow::Owned(self.name), value_from_text(text, self.edm_type)?))
    }
}

/// The reader's position in the document.
#[derive(Default)]
struct Place<'a> {
    /// The number of open elements.
    depth: usize,
    /// The depth of `m:properties`, once found.
    properties: Option<usize>,
    property: Option<Property<'a>>,
}

/// Calls `property` for each property of the one entry that `body` must contain.
fn read_properties<'a>(
    body: &'a [u8],
    mut property: impl FnMut(Property<'a>) -> Result<(), BodyError>,
) -> Result<(), BodyError> {
    let text = std::str::from_utf8(body).map_err(|_| BodyError::Malformed)?;
    let mut reader = NsReader::from_str(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    reader.config_mut().expand_empty_elements = true;
    let mut place = Place::default();
    loop {
        match reader.read_event().map_err(|_| BodyError::Malformed)? {
            Event::Start(tag) => place.open(reader.resolver(), &tag)?,
            Event::End(_) => {
                place.depth = place.depth.checked_sub(1).ok_or(BodyError::Malformed)?;
                if let Some(complete) = place.property.take() {
                    property(complete)?;
                }
            }
            Event::Text(text) => place.append(text.xml10_content()),
            Event::CData(text) => place.append(text.xml10_content()),
            Event::GeneralRef(reference) => place.append(character(&reference)?.to_string().into()),
            Event::DocType(_) => return Err(BodyError::Malformed),
            Event::Empty(_) | Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
            Event::Eof if place.depth == 0 && place.properties.is_some() => return Ok(()),
            Event::Eof => return Err(BodyError::Malformed),
        }
    }
}

impl<'a> Place<'a> {
    fn open(&mut self, names: &NamespaceResolver, tag: &BytesStart<'_>) -> Result<(), BodyError> {
        let element = names.resolve_element(tag.name());
        if self.property.is_some() || (self.depth == 0 && !is(&element, ATOM, "entry")) {
            return Err(BodyError::Malformed);
        }
        if self.properties == Some(self.depth) {
            self.property = Some(open_property(names, tag)?);
        }
        self.depth += 1;
        if self.properties.is_none() && is(&element, METADATA, "properties") {
            self.properties = Some(self.depth);
        }
        Ok(())
    }

    fn append(&mut self, piece: Cow<'a, str>) {
        if let Some(property) = &mut self.property {
            property.append(piece);
        }
    }
}

fn open_property<'a>(
    names: &NamespaceResolver,
    tag: &BytesStart<'_>,
) -> Result<Property<'a>, BodyError> {
    let (namespace, name) = names.resolve_element(tag.name());
    if namespace != ResolveResult::Bound(Namespace(DATA)) {
        return Err(BodyError::Malformed);
    }
    let mut property = Property {
        name: name.as_ref().to_owned(),
        edm_type: EdmType::String,
        is_null: false,
        text: Cow::Borrowed(""),
    };
    for attribute in tag.attributes() {
        let attribute = attribute.map_err(|_| BodyError::Malformed)?;
        let name = names.resolve_attribute(attribute.key);
        if is(&name, METADATA, "type") {
            let edm_type = EdmType::from_name(&attribute.value);
            property.edm_type = edm_type.ok_or(BodyError::UnknownType)?;
        } else if is(&name, METADATA, "null") {
            property.is_null = &*attribute.value == "true";
        }
    }
    Ok(property)
}

/// Whether a name with its namespace is `local` in `namespace`.
fn is(name: &(ResolveResult<'_>, LocalName<'_>), namespace: &str, local: &str) -> bool {
    name.0 == ResolveResult::Bound(Namespace(namespace)) && name.1.as_ref() == local
}

/// The character a reference stands for: one by number, or one of the five that XML names.
fn character(reference: &BytesRef<'_>) -> Result<char, BodyError> {
    if let Some(character) = reference.resolve_char_ref().map_err(|_| BodyError::Malformed)? {
        return Ok(character);
    }
    let text = resolve_xml_entity(reference).ok_or(BodyError::Malformed)?;
    text.chars().next().ok_or(BodyError::Malformed)
}

#[cfg(test)]
mod tests;
