//! The members of an entity, in a request or a response.

use super::super::body::{set_key, string, value_from_text};
use super::super::{BodyError, EntityBody};
use super::cursor::{Cursor, Scalar};
use crate::words::find_byte;
use lazuli_model::{EdmType, Value};
use std::borrow::Cow;

/// The members of an entity while it is read: an annotation may come before or after its property
/// (T-3.24), so no value is converted before the end.
#[derive(Default)]
pub(super) struct Members<'a> {
    partition_key: Option<Cow<'a, str>>,
    row_key: Option<Cow<'a, str>>,
    has_mistyped_key: bool,
    properties: Vec<Property<'a>>,
    /// Annotations whose property has not been read yet, or was read long before.
    annotations: Vec<(Cow<'a, str>, EdmType)>,
}

struct Property<'a> {
    name: Cow<'a, str>,
    value: Scalar<'a>,
    edm_type: Option<EdmType>,
}

/// The kind of a member, by its name.
pub(super) enum Kind {
    PartitionKey,
    RowKey,
    /// Set only by the service; ignored in a request (T-3.49).
    Timestamp,
    /// Likewise (T-2.47).
    ETag,
    Property,
    /// The type of the property whose name has this many bytes.
    Annotation {
        target: usize,
    },
    /// Ignored, whatever its value (T-2.47, T-3.23).
    Ignored,
}

impl Kind {
    #[inline(always)]
    pub(super) fn of(name: &str) -> Self {
        match name {
            "PartitionKey" => return Self::PartitionKey,
            "RowKey" => return Self::RowKey,
            "Timestamp" => return Self::Timestamp,
            "odata.etag" => return Self::ETag,
            control if control.starts_with("odata.") => return Self::Ignored,
            _ => {}
        }
        let annotated = find_byte(b'@', name.as_bytes());
        let Some((target, term)) = annotated.and_then(|at| name.split_at_checked(at)) else {
            return Self::Property;
        };
        match term.strip_prefix("@odata.") {
            Some("type") => Self::Annotation { target: target.len() },
            Some(_) => Self::Ignored,
            None => Self::Property,
        }
    }
}

impl<'a> Members<'a> {
    /// With capacity for the properties of most entities, to avoid a second allocation.
    pub(super) fn with_room() -> Self {
        Self { properties: Vec::with_capacity(16), ..Self::default() }
    }

    /// Adds a member whose value begins at `cursor`.
    // Inlined into both readers: a call for each property cost 1.5 % of an entity's insert.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        kind: Kind,
        name: Cow<'a, str>,
        cursor: &mut Cursor<'a>,
    ) -> Result<(), BodyError> {
        match kind {
            Kind::PartitionKey => {
                add_key(&mut self.partition_key, cursor.scalar()?, &mut self.has_mistyped_key)
            }
            Kind::RowKey => {
                add_key(&mut self.row_key, cursor.scalar()?, &mut self.has_mistyped_key)
            }
            Kind::Annotation { target } => {
                let edm_type = cursor.scalar()?;
                self.annotate(shortened(name, target), edm_type)
            }
            Kind::Timestamp | Kind::ETag | Kind::Ignored => cursor.scalar().map(|_| ()),
            Kind::Property => {
                let value = cursor.scalar()?;
                self.add_property(name, value);
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn add_property(&mut self, name: Cow<'a, str>, value: Scalar<'a>) {
        // .NET clients annotate just before the property.
        let edm_type = self
            .annotations
            .pop_if(|(annotated, _)| *annotated == name)
            .map(|(_, edm_type)| edm_type);
        self.properties.push(Property { name, value, edm_type });
    }

    fn annotate(&mut self, target: Cow<'a, str>, value: Scalar<'a>) -> Result<(), BodyError> {
        let Scalar::String(edm_type) = value else {
            return Err(BodyError::Malformed);
        };
        let edm_type = EdmType::from_name(&edm_type).ok_or(BodyError::UnknownType)?;
        match &*target {
            "PartitionKey" | "RowKey" => {
                self.has_mistyped_key |= edm_type != EdmType::String;
                return Ok(());
            }
            "Timestamp" => return Ok(()),
            _ => {}
        }
        // Python and JavaScript clients annotate just after the property.
        match self.properties.last_mut() {
            Some(last) if last.name == target => last.edm_type = Some(edm_type),
            _ => self.annotations.push((target, edm_type)),
        }
        Ok(())
    }

    // Inlined, like `add`: half a percent of an insert was spent on moving the members.
    #[inline(always)]
    pub(super) fn finish(mut self) -> Result<EntityBody<'a>, BodyError> {
        // Sorted, so that a body full of stray annotations costs only a sort.
        self.annotations.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let has_stray = !self.annotations.is_empty();
        let mut properties = Vec::with_capacity(self.properties.len());
        for property in self.properties {
            let stray = || {
                let found = (self.annotations).binary_search_by(|(a, _)| a.cmp(&property.name));
                Some(self.annotations.get(found.ok()?)?.1)
            };
            let edm_type =
                if has_stray { property.edm_type.or_else(stray) } else { property.edm_type };
            if let Some(value) = convert(property.value, edm_type)? {
                properties.push((property.name, value));
            }
        }
        let Self { partition_key, row_key, has_mistyped_key, .. } = self;
        Ok(EntityBody { partition_key, row_key, has_mistyped_key, properties })
    }
}

/// Fills `slot`, the place of a key.
fn add_key<'a>(
    slot: &mut Option<Cow<'a, str>>,
    value: Scalar<'a>,
    is_mistyped: &mut bool,
) -> Result<(), BodyError> {
    match value {
        Scalar::Null => Ok(()),
        Scalar::String(text) => set_key(slot, text),
        Scalar::Boolean(_) | Scalar::Number(_) => {
            *is_mistyped = true;
            Ok(())
        }
    }
}

/// The first `len` bytes of a name.
fn shortened(name: Cow<'_, str>, len: usize) -> Cow<'_, str> {
    match name {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..len).unwrap_or(text)),
        Cow::Owned(mut text) => {
            text.truncate(len);
            Cow::Owned(text)
        }
    }
}

/// The stored value; `None` for a null, even with an annotation (T-3.48).
fn convert(value: Scalar<'_>, edm_type: Option<EdmType>) -> Result<Option<Value<'_>>, BodyError> {
    match value {
        Scalar::Null => return Ok(None),
        Scalar::Boolean(value) => match edm_type {
            None | Some(EdmType::Boolean) => Ok(Value::Boolean(value)),
            Some(_) => Err(BodyError::InvalidValue),
        },
        Scalar::Number(text) => convert_number(text, edm_type),
        // Text without an escape has no control characters, so it is valid.
        Scalar::String(Cow::Borrowed(text)) if edm_type.is_none() => Ok(text.into()),
        Scalar::String(text) => match edm_type {
            None => string(text),
            Some(edm_type) => value_from_text(text, edm_type),
        },
    }
    .map(Some)
}

fn convert_number(text: &str, edm_type: Option<EdmType>) -> Result<Value<'_>, BodyError> {
    // A JSON number always parses, though it may be too large (T-3.33).
    let finite = |number: &f64| number.is_finite();
    let double = || text.parse().ok().filter(finite).map(Value::Double);
    let value = match edm_type {
        Some(EdmType::Int32) => text.parse().ok().map(Value::Int32),
        Some(EdmType::Int64) => text.parse().ok().map(Value::Int64),
        Some(EdmType::Double) => double(),
        Some(_) => None,
        // Only an integer's spelling parses as one: `3.0` and `3e0` are Doubles, and so is what an
        // Int32 cannot hold (section 3.5).
        None => text.parse().ok().map(Value::Int32).or_else(double),
    };
    value.ok_or(BodyError::InvalidValue)
}
