//! Values over 64 KiB in several properties: `Name`, `Name_1`, `Name_2` (C-5.14).

use crate::entity::Properties;
use crate::value::{Value, ValueError, wrong_type};
use lazuli_model::limits::{BINARY_BYTES_MAX, STRING_UTF16_UNITS_MAX};
use std::borrow::Cow;

/// The reassembled parts of a value.
pub(crate) struct Chunked {
    value: Value,
    count: usize,
}

impl Chunked {
    pub(crate) fn new(first: Value) -> Self {
        Self { value: first, count: 1 }
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The name of the part with this number.
    pub(crate) fn name(name: &str, index: usize) -> String {
        match index {
            0 => name.to_owned(),
            index => format!("{name}_{index}"),
        }
    }

    pub(crate) fn push(&mut self, more: Value) -> Result<(), ValueError> {
        match (&mut self.value, more) {
            (Value::String(text), Value::String(more)) => text.to_mut().push_str(&more),
            (Value::Binary(bytes), Value::Binary(more)) => bytes.to_mut().extend_from_slice(&more),
            (first, more) => return Err(wrong_type(first.as_ref().edm_type(), &more)),
        }
        self.count += 1;
        Ok(())
    }

    pub(crate) fn join(self) -> Value {
        self.value
    }
}

/// Appends a value, in as many properties as it needs. All except the last are full.
pub fn push_chunked(out: &mut Properties, name: Cow<'static, str>, value: Value) {
    let parts: Vec<Value> = match value {
        Value::String(text) => {
            split_text(&text).into_iter().map(|part| Value::String(Cow::Owned(part))).collect()
        }
        Value::Binary(bytes) if bytes.len() > BINARY_BYTES_MAX => {
            bytes.chunks(BINARY_BYTES_MAX).map(|part| Value::Binary(part.to_vec().into())).collect()
        }
        other => vec![other],
    };
    for (index, part) in parts.into_iter().enumerate() {
        out.push(Chunked::name(&name, index), part);
    }
}

/// Parts that fit into a property (by UTF-16 units); at least one part, which may be empty.
fn split_text(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut units = 0;
    for character in text.chars() {
        if units + character.len_utf16() > STRING_UTF16_UNITS_MAX {
            parts.push(String::new());
            units = 0;
        }
        units += character.len_utf16();
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts
}
