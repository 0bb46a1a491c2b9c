//! Serializes a type to properties.

use super::{GUID, TIMESTAMP};
use crate::value::{IntoValue, TableValue, Value};
use lazuli_model::{Guid, Timestamp};
use serde::ser::{Error as _, Impossible, Serialize, SerializeMap, SerializeStruct, Serializer};
use std::fmt;

/// Why a value cannot be serialized.
#[derive(Debug)]
pub(super) struct WriteError(pub(super) String);

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

impl serde::ser::Error for WriteError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

type Properties = Vec<(String, Value)>;
type None<T> = Impossible<T, WriteError>;

/// Methods of a serializer that return an error.
macro_rules! refuse {
    ($why:expr; $($method:ident($($argument:ty),*) -> $result:ty;)*) => {$(
        fn $method(self, $(_: $argument),*) -> Result<$result, WriteError> {
            Err(WriteError::custom($why))
        }
    )*};
}

/// The whole value: a struct or a map.
pub(super) struct Row;

const NOT_A_ROW: &str = "an entity is a struct or a map";

impl Serializer for Row {
    type Ok = Properties;
    type Error = WriteError;
    type SerializeSeq = None<Properties>;
    type SerializeTuple = None<Properties>;
    type SerializeTupleStruct = None<Properties>;
    type SerializeTupleVariant = None<Properties>;
    type SerializeMap = RowFields;
    type SerializeStruct = RowFields;
    type SerializeStructVariant = None<Properties>;

    refuse! { NOT_A_ROW;
        serialize_bool(bool) -> Properties;
        serialize_i8(i8) -> Properties;
        serialize_i16(i16) -> Properties;
        serialize_i32(i32) -> Properties;
        serialize_i64(i64) -> Properties;
        serialize_u8(u8) -> Properties;
        serialize_u16(u16) -> Properties;
        serialize_u32(u32) -> Properties;
        serialize_u64(u64) -> Properties;
        serialize_f32(f32) -> Properties;
        serialize_f64(f64) -> Properties;
        serialize_char(char) -> Properties;
        serialize_str(&str) -> Properties;
        serialize_bytes(&[u8]) -> Properties;
        serialize_none() -> Properties;
        serialize_unit() -> Properties;
        serialize_unit_struct(&'static str) -> Properties;
        serialize_unit_variant(&'static str, u32, &'static str) -> Properties;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Properties, WriteError> {
        value.serialize(self)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Properties, WriteError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Properties, WriteError> {
        Err(WriteError::custom(NOT_A_ROW))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<RowFields, WriteError> {
        Ok(RowFields::default())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<RowFields, WriteError> {
        Ok(RowFields::default())
    }
}

/// The fields of a struct or a map.
#[derive(Default)]
pub(super) struct RowFields {
    properties: Properties,
    key: Option<String>,
}

impl RowFields {
    fn add<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), WriteError> {
        let value =
            value.serialize(One).map_err(|error| WriteError(format!("field {name}: {error}")))?;
        self.properties.extend(value.map(|value| (name.to_owned(), value)));
        Ok(())
    }
}

impl SerializeStruct for RowFields {
    type Ok = Properties;
    type Error = WriteError;

    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), WriteError> {
        self.add(name, value)
    }

    fn end(self) -> Result<Properties, WriteError> {
        Ok(self.properties)
    }
}

impl SerializeMap for RowFields {
    type Ok = Properties;
    type Error = WriteError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), WriteError> {
        match key.serialize(One)? {
            Some(Value::String(name)) => {
                self.key = Some(name.into_owned());
                Ok(())
            }
            _ => Err(WriteError::custom("the name of a property is text")),
        }
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), WriteError> {
        let name = self.key.take().unwrap_or_default();
        self.add(&name, value)
    }

    fn end(self) -> Result<Properties, WriteError> {
        Ok(self.properties)
    }
}

/// One property; `None` is not written (C-5.10).
struct One;

const NESTED: &str = "a property holds no nested value";

/// Methods that write a plain value.
macro_rules! plain {
    ($($method:ident: $rust:ty;)*) => {$(
        fn $method(self, value: $rust) -> Result<Option<Value>, WriteError> {
            value.to_value().map(Some).map_err(WriteError::custom)
        }
    )*};
}

impl Serializer for One {
    type Ok = Option<Value>;
    type Error = WriteError;
    type SerializeSeq = None<Option<Value>>;
    type SerializeTuple = None<Option<Value>>;
    type SerializeTupleStruct = None<Option<Value>>;
    type SerializeTupleVariant = None<Option<Value>>;
    type SerializeMap = None<Option<Value>>;
    type SerializeStruct = None<Option<Value>>;
    type SerializeStructVariant = None<Option<Value>>;

    plain! {
        serialize_bool: bool;
        serialize_i8: i8;
        serialize_i16: i16;
        serialize_i32: i32;
        serialize_i64: i64;
        serialize_u8: u8;
        serialize_u16: u16;
        serialize_u32: u32;
        serialize_u64: u64;
        serialize_f32: f32;
        serialize_f64: f64;
        serialize_char: char;
    }

    refuse! { NESTED;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }

    fn serialize_str(self, text: &str) -> Result<Option<Value>, WriteError> {
        text.to_owned().to_value().map(Some).map_err(WriteError::custom)
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<Option<Value>, WriteError> {
        Ok(Some(bytes.into_value()))
    }

    fn serialize_none(self) -> Result<Option<Value>, WriteError> {
        Ok(None)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<Option<Value>, WriteError> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<Option<Value>, WriteError> {
        Ok(None)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<Option<Value>, WriteError> {
        Ok(None)
    }

    fn serialize_unit_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
    ) -> Result<Option<Value>, WriteError> {
        Ok(Some(variant.into_value()))
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<Option<Value>, WriteError> {
        let value = value.serialize(self)?;
        let passed = match (name, &value) {
            (GUID, Some(Value::String(text))) => Guid::parse(text).map(Value::Guid),
            (TIMESTAMP, Some(Value::String(text))) => Timestamp::parse(text).map(Value::DateTime),
            _ => None,
        };
        Ok(passed.or(value))
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Option<Value>, WriteError> {
        Err(WriteError::custom(NESTED))
    }
}
