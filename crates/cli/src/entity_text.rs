//! Entities as text: JSON as on the wire, `Name:Type=Value` pairs, cells of a table.

use crate::failure::usage;
use crate::input::{not_read, objects};
use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazuli_client::{EdmType, Entity, Loaded, TableEntity, Value};
use lazuli_model::{EntityError, PropertyLimits, ValueRef};
use lazuli_wire::odata::body::value_from_text;
use lazuli_wire::odata::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::Read;

/// The entity of pairs such as `PartitionKey=Sales RowKey=7 Age:Int32=42`. A value without a type is a string.
pub(crate) fn from_pairs(pairs: &[String]) -> Result<Entity> {
    let (mut partition_key, mut row_key) = (None, None);
    let mut properties = Vec::new();
    for pair in pairs {
        let (name, edm_type, value) = split_pair(pair)?;
        let key = match name {
            "PartitionKey" => Some(&mut partition_key),
            "RowKey" => Some(&mut row_key),
            _ => None,
        };
        match key {
            Some(_) if edm_type != EdmType::String => {
                return Err(usage(format!("{name} is a text"), format!("write {name}={value}")));
            }
            Some(Some(_)) => {
                return Err(usage(format!("{name} is given twice"), "name each property once"));
            }
            None if name == "Timestamp" => {
                let advice = "the service sets it, to the time of the write";
                return Err(usage("Timestamp cannot be written", advice));
            }
            Some(key) => *key = Some(value),
            None => {
                let value = value_from_text(value.into(), edm_type).map_err(|_| {
                    let problem = format!("{name}: {value:?} is not of type {}", edm_type.name());
                    usage(problem, "Name:Type=Value, such as Age:Int32=42 or Hired:DateTime=2026-01-31T00:00:00Z")
                })?;
                properties.push((Cow::Owned(name.to_owned()), value.into_owned()));
            }
        }
    }
    let (Some(partition_key), Some(row_key)) = (partition_key, row_key) else {
        return Err(usage(
            "an entity needs both keys",
            "add PartitionKey=… and RowKey=…; either may be empty",
        ));
    };
    entity(partition_key, row_key, properties)
}

/// Whether a word is a pair rather than a file name.
pub(crate) fn is_pair(word: &str) -> bool {
    word.contains('=')
}

fn split_pair(pair: &str) -> Result<(&str, EdmType, &str)> {
    let wrong = |problem: String| usage(problem, "a property is Name=Text or Name:Type=Value");
    let (name, value) =
        pair.split_once('=').ok_or_else(|| wrong(format!("{pair:?} is not a property")))?;
    let Some((name, type_name)) = name.split_once(':') else {
        return Ok((name, EdmType::String, value));
    };
    let short = |edm_type: EdmType| edm_type.name().trim_start_matches("Edm.");
    let is_meant = |edm_type: &EdmType| {
        [edm_type.name(), short(*edm_type)].iter().any(|name| name.eq_ignore_ascii_case(type_name))
    };
    let found = EdmType::ALL.into_iter().find(is_meant);
    let edm_type = found.ok_or_else(|| {
        let known = EdmType::ALL.map(short).join(", ");
        wrong(format!("{type_name:?} is not a type; the types are {known}"))
    })?;
    Ok((name, edm_type, value))
}

/// The entities in a text: any number of JSON objects, one after another.
pub(crate) fn from_json(reader: impl Read) -> impl Iterator<Item = Result<Entity>> {
    let mut number = 0_u64;
    objects::<Box<RawValue>>(reader).map(move |object| {
        number += 1;
        let object = object.map_err(|error| not_read(&error, "the input", ONE_OBJECT))?;
        let parsed = from_object(object.get().as_bytes());
        parsed.with_context(|| format!("entity {number} of the input"))
    })
}

const ONE_OBJECT: &str = "write one object per entity, such as {\"PartitionKey\":\"Sales\",\"RowKey\":\"7\",\"Age\":42}; \
     `jq -c '.[]'` takes an array apart";

/// The entity that a JSON object is, as in the body of a request.
pub(crate) fn from_object(object: &[u8]) -> Result<Entity> {
    let body = json::read_entity(object).map_err(|error| usage(error.to_string(), ONE_OBJECT))?;
    let (Some(partition_key), Some(row_key), false) =
        (body.partition_key, body.row_key, body.has_mistyped_key)
    else {
        return Err(usage("it lacks PartitionKey or RowKey, or one is not a text", ONE_OBJECT));
    };
    let properties = body.properties.into_iter();
    let properties =
        properties.map(|(name, value)| (Cow::Owned(name.into_owned()), value.into_owned()));
    entity(&partition_key, &row_key, properties.collect())
}

/// Refuses an entity that the service would refuse, before anything is sent.
fn entity(
    partition_key: &str,
    row_key: &str,
    properties: Vec<(Cow<'static, str>, Value)>,
) -> Result<Entity> {
    let refused =
        |error: EntityError| usage(error.to_string(), "docs/spec/table.md lists the limits");
    PropertyLimits::Service.check(&properties).map_err(refused)?;
    let count = properties.len();
    let mut entity = Entity::new(partition_key, row_key);
    for (name, value) in properties {
        entity.set(name, value);
    }
    if entity.len() < count {
        return Err(usage("a property is given twice", "name each property once"));
    }
    let key = entity.key().map_err(|error| usage(error.to_string(), KEY_RULES))?;
    let values = entity.properties().map(|(name, value)| (name, value.as_ref()));
    let values: Vec<_> = values.collect();
    lazuli_model::entity::check_size(&key, values.iter().copied()).map_err(refused)?;
    Ok(entity)
}

pub(crate) const KEY_RULES: &str =
    "a key has at most 1 KiB, and none of / \\ # ? or control characters";

/// Appends an entity as JSON with minimal metadata, in the service's format, and a line feed.
pub(crate) fn write_json(out: &mut Vec<u8>, entity: &Loaded<Entity>) {
    let timestamp = entity.timestamp().to_string();
    let system = [
        ("odata.etag", entity.etag().as_str()),
        ("PartitionKey", entity.partition_key()),
        ("RowKey", entity.row_key()),
        ("Timestamp", &timestamp),
    ];
    let system = system.into_iter().map(|(name, text)| (name, ValueRef::String(text)));
    let own = entity.properties().map(|(name, value)| (name, value.as_ref()));
    json::write_request(out, None, system.chain(own));
    out.push(b'\n');
}

/// A value for people.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone().into_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Double(value) => double(*value),
        Value::DateTime(value) => value.to_string(),
        Value::Guid(value) => value.to_string(),
        Value::Binary(bytes) => STANDARD.encode(bytes),
    }
}

/// A number as short as it reads back, with the names of the wire for those that are none.
fn double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    // Without an exponent, 1e300 has 301 digits.
    let text = format!("{value:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// The name of a type without `Edm.`.
pub(crate) fn type_name(value: &Value) -> &'static str {
    value.as_ref().edm_type().name().trim_start_matches("Edm.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Result<Entity> {
        from_pairs(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn pairs_have_types() {
        let entity = pairs(
            "PartitionKey=Sales RowKey= Name=O'Neill Note=a=b Age:Int32=42 Big:edm.int64=7 \
             Rate:double=1 Active:Boolean=true Hired:DateTime=2026-01-31T00:00:00Z Raw:Binary=AAE=",
        );
        let entity = entity.unwrap();
        assert_eq!((entity.partition_key(), entity.row_key()), ("Sales", ""));
        assert_eq!(entity.str("Note").unwrap(), "a=b");
        assert_eq!(entity.value("Age"), Some(&Value::Int32(42)));
        assert_eq!(entity.value("Big"), Some(&Value::Int64(7)));
        assert_eq!(entity.value("Rate"), Some(&Value::Double(1.0)));
        assert_eq!(entity.value("Raw"), Some(&Value::Binary(vec![0, 1].into())));
        let cells: Vec<_> = entity.properties().map(|(_, v)| (type_name(v), cell(v))).collect();
        assert_eq!(cells[2], ("Int32", "42".to_owned()));
        assert_eq!(cells[6], ("DateTime", "2026-01-31T00:00:00Z".to_owned()));
        assert_eq!(cells[7], ("Binary", "AAE=".to_owned()));
    }

    #[test]
    fn doubles_are_short_and_named_as_on_the_wire() {
        let texts = [1.0, -0.5, 1e300, 1e-7, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1 + 0.2];
        let texts = texts.map(|number| cell(&Value::Double(number)));
        let expect =
            ["1", "-0.5", "1e300", "1e-7", "Infinity", "-Infinity", "NaN", "0.30000000000000004"];
        assert_eq!(texts, expect);
        for text in texts {
            assert!(pairs(&format!("PartitionKey=a RowKey=b D:Double={text}")).is_ok(), "{text}");
        }
    }

    #[track_caller]
    fn refused(result: Result<Entity>, word: &str) {
        let error = format!("{:#}", result.unwrap_err());
        assert!(error.contains(word), "{error}");
    }

    #[test]
    fn wrong_pairs_are_refused() {
        refused(pairs("PartitionKey=a"), "both keys");
        refused(pairs("PartitionKey=a RowKey=b Age:Int32=old"), "Edm.Int32");
        refused(pairs("PartitionKey=a RowKey=b Age:Int16=1"), "Int16");
        refused(pairs("PartitionKey=a RowKey=b word"), "word");
        refused(pairs("PartitionKey=a RowKey=b A=1 A=2"), "twice");
        refused(pairs("PartitionKey=a RowKey=b RowKey=c"), "RowKey is given twice");
        refused(pairs("PartitionKey:Int32=1 RowKey=b"), "PartitionKey is a text");
        refused(pairs("PartitionKey=a/b RowKey=b"), "");
        refused(pairs("PartitionKey=a RowKey=b Timestamp=x"), "Timestamp cannot be written");
        refused(pairs("PartitionKey=a RowKey=b 1-2=x"), "");
    }

    #[test]
    fn json_is_read_object_by_object() {
        let text = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"A\":1}\n\n \
                    {\"PartitionKey\":\"p\",\n\"RowKey\":\"2\",\"B@odata.type\":\"Edm.Int64\",\"B\":\"2\"}";
        let entities: Result<Vec<_>> = from_json(text.as_bytes()).collect();
        let entities = entities.unwrap();
        assert_eq!(entities.len(), 2);
        assert_eq!(entities[0].value("A"), Some(&Value::Int32(1)));
        assert_eq!(entities[1].value("B"), Some(&Value::Int64(2)));
    }

    #[test]
    fn wrong_json_names_its_place() {
        let read = |text: &str| from_json(text.as_bytes()).collect::<Result<Vec<_>>>();
        let problem = |text| format!("{:#}", read(text).unwrap_err());
        assert!(problem("{\"PartitionKey\":").contains("not JSON"));
        assert!(problem("{\"PartitionKey\":\"p\"}").contains("entity 1 of the input: it lacks"));
        let second = "{\"PartitionKey\":\"p\",\"RowKey\":\"1\"}[]";
        assert!(problem(second).contains("entity 2"), "{}", problem(second));
        assert!(read("").unwrap().is_empty());
    }
}
