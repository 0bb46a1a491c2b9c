//! Deserializes properties into a type.

use crate::entity::Entity;
use crate::value::Value;
use lazuli_model::Timestamp;
use serde::de::value::MapDeserializer;
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use std::fmt;

/// Why properties cannot be deserialized.
#[derive(Debug)]
pub(super) struct ReadError(pub(super) String);

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ReadError {}

impl serde::de::Error for ReadError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// The properties as a map.
pub(super) fn row<'e>(
    entity: &'e Entity,
) -> MapDeserializer<'e, impl Iterator<Item = (&'e str, One<'e>)>, ReadError> {
    MapDeserializer::new(entity.properties().map(|(name, value)| (name, One(value))))
}

/// One property.
pub(super) struct One<'e>(&'e Value);

impl<'de> IntoDeserializer<'de, ReadError> for One<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for One<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::String(text) => visitor.visit_str(text),
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::Int32(value) => visitor.visit_i32(*value),
            Value::Int64(value) => visitor.visit_i64(*value),
            Value::Double(value) => visitor.visit_f64(*value),
            Value::Binary(bytes) => visitor.visit_bytes(bytes),
            // As text, which types of other crates can read.
            Value::Guid(guid) => visitor.visit_str(&guid.to_string()),
            Value::DateTime(time) => {
                visitor.visit_str(time.text(&mut [0; Timestamp::TEXT_BYTES_MAX]))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.0 {
            Value::String(text) => visitor.visit_enum((&**text).into_deserializer()),
            _ => self.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
