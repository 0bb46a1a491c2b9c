//! The value of an entity: its custom properties, laid out so that one can be read without the
//! others.
//!
//! ```text
//! version u8 = 1 │ flags u8 = 0 │ count u16 │ count × header │ names │ values
//! header: type « 12 │ bytes of the name, u16 │ end of the value within the values, u32
//! ```
//!
//! Numbers are little-endian. Names and values are stored without gaps, in header order, which is
//! the order of the given properties. Keys and Timestamp are not included: the key contains the
//! former, and the engine's revision is the latter.

use crate::CorruptRecord;
use lazuli_model::limits::{STORED_NAME_BYTES_MAX, STORED_PROPERTIES_MAX};
use lazuli_model::{EdmType, Guid, Timestamp, ValueRef};

const VERSION: u8 = 1;
const FLAGS: u8 = 0;
const PREAMBLE_BYTES: usize = 4;
const HEADER_BYTES: usize = 6;
const NAME_BITS: u32 = 12;
const NAME_BYTES_MAX: usize = (1 << NAME_BITS) - 1;
const CORRUPT: CorruptRecord = CorruptRecord("entity");
const _: () = assert!(STORED_NAME_BYTES_MAX <= NAME_BYTES_MAX);
const _: () = assert!(STORED_PROPERTIES_MAX <= u16::MAX as usize);

/// Writes `properties` in the given order.
///
/// The model's limits ensure that they fit the fields.
pub fn encode<'a>(properties: impl Iterator<Item = (&'a str, ValueRef<'a>)> + Clone) -> Vec<u8> {
    let (mut count, mut names_bytes, mut values_bytes) = (0, 0, 0);
    for (name, value) in properties.clone() {
        assert!(name.len() <= NAME_BYTES_MAX, "the name fits its field");
        count += 1;
        names_bytes += name.len();
        values_bytes += value_bytes(value);
    }
    assert!(u16::try_from(count).is_ok(), "the count fits its field");
    assert!(u32::try_from(values_bytes).is_ok(), "the ends fit theirs");
    let total = PREAMBLE_BYTES + count * HEADER_BYTES + names_bytes + values_bytes;
    let mut out = vec![0; total];
    let mut headers = out.as_mut_slice();
    put(&mut headers, &[VERSION, FLAGS]);
    put(&mut headers, &(count as u16).to_le_bytes());
    // Three write positions, so that one pass suffices.
    let mut names = headers.split_off_mut(count * HEADER_BYTES..).unwrap_or_default();
    let mut values = names.split_off_mut(names_bytes..).unwrap_or_default();
    let mut end = 0;
    for (name, value) in properties {
        end += value_bytes(value);
        let kind = type_code(value.edm_type()) << NAME_BITS | name.len() as u16;
        put(&mut headers, &kind.to_le_bytes());
        put(&mut headers, &(end as u32).to_le_bytes());
        put(&mut names, name.as_bytes());
        put_value(&mut values, value);
    }
    out
}

/// Writes `bytes` at the front of `room`, which is then the rest of it.
fn put(room: &mut &mut [u8], bytes: &[u8]) {
    if let Some(place) = room.split_off_mut(..bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// A stored entity, read in place.
///
/// Its headers are valid: every name and value is within the bytes and has the width of its type.
/// Names and values are checked when they are read; [`verify`] and [`decode`] check all of them,
/// and one of the two must be called before an entity is served.
///
/// [`verify`]: EntityRecord::verify
/// [`decode`]: EntityRecord::decode
#[derive(Clone, Copy, Debug, Default)]
pub struct EntityRecord<'a> {
    headers: &'a [[u8; HEADER_BYTES]],
    names: &'a [u8],
    values: &'a [u8],
}

impl<'a> EntityRecord<'a> {
    pub fn parse(bytes: &'a [u8]) -> Result<Self, CorruptRecord> {
        Self::split(bytes).ok_or(CORRUPT)
    }

    /// Number of properties.
    pub fn len(&self) -> usize {
        self.headers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// The properties, in the order stored. Those that [`verify`](Self::verify) would refuse are
    /// left out.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, ValueRef<'a>)> + Clone + use<'a> {
        let record = *self;
        record.slots().filter_map(move |slot| Some((record.name(&slot)?, record.value(&slot)?)))
    }

    /// The property called `name`. Reads only its own value.
    pub fn find(&self, name: &str) -> Option<ValueRef<'a>> {
        let name = name.as_bytes();
        let named = |slot: &Slot| {
            slot.name_len() == name.len()
                && self.names.get(slot.name_start..slot.name_end) == Some(name)
        };
        let slot = self.slots().find(named)?;
        self.value(&slot)
    }

    /// The properties, in the order stored, all checked; refuses what [`verify`](Self::verify)
    /// refuses.
    pub fn decode(&self) -> Result<Vec<(&'a str, ValueRef<'a>)>, CorruptRecord> {
        // Checking all names as one text, and each end, is cheaper than checking each name.
        let names = std::str::from_utf8(self.names).map_err(|_| CORRUPT)?;
        let mut properties = Vec::with_capacity(self.len());
        for slot in self.slots() {
            let name = names.get(slot.name_start..slot.name_end).ok_or(CORRUPT)?;
            properties.push((name, self.value(&slot).ok_or(CORRUPT)?));
        }
        Ok(properties)
    }

    /// Refuses a record with a name that is not UTF-8, or a value that is invalid for its type.
    pub fn verify(&self) -> Result<(), CorruptRecord> {
        let whole = |slot: Slot| self.name(&slot).is_some() && self.value(&slot).is_some();
        if self.slots().all(whole) { Ok(()) } else { Err(CORRUPT) }
    }

    fn split(bytes: &'a [u8]) -> Option<Self> {
        let ([version, flags, count @ ..], rest) = bytes.split_first_chunk::<PREAMBLE_BYTES>()?;
        if (*version, *flags) != (VERSION, FLAGS) {
            return None;
        }
        let headers_bytes = usize::from(u16::from_le_bytes(*count)) * HEADER_BYTES;
        let (headers, rest) = rest.split_at_checked(headers_bytes)?;
        let (headers, _) = headers.as_chunks();
        // One pass, without a branch per header: a scan runs it for every entity.
        let (mut names_bytes, mut values_bytes, mut sound) = (0, 0, true);
        for header in headers.iter().map(Header::of) {
            let width = header.value_end.wrapping_sub(values_bytes);
            sound &= header.value_end >= values_bytes && width_fits(header.type_code, width);
            names_bytes += header.name_len;
            values_bytes = header.value_end;
        }
        let (names, values) = rest.split_at_checked(names_bytes)?;
        (sound && values.len() == values_bytes).then_some(Self { headers, names, values })
    }

    fn slots(&self) -> impl Iterator<Item = Slot> + Clone + use<'a> {
        let (mut name_end, mut value_end) = (0, 0);
        self.headers.iter().map(move |header| {
            let header = Header::of(header);
            let (name_start, value_start) = (name_end, value_end);
            name_end += header.name_len;
            value_end = header.value_end;
            Slot { type_code: header.type_code, name_start, name_end, value_start, value_end }
        })
    }

    fn name(&self, slot: &Slot) -> Option<&'a str> {
        std::str::from_utf8(self.names.get(slot.name_start..slot.name_end)?).ok()
    }

    fn value(&self, slot: &Slot) -> Option<ValueRef<'a>> {
        let bytes = self.values.get(slot.value_start..slot.value_end)?;
        read_value(type_of(slot.type_code)?, bytes)
    }
}

/// One decoded header.
struct Header {
    type_code: u16,
    name_len: usize,
    value_end: usize,
}

impl Header {
    fn of(&[a, b, end @ ..]: &[u8; HEADER_BYTES]) -> Self {
        let kind = u16::from_le_bytes([a, b]);
        Self {
            type_code: kind >> NAME_BITS,
            name_len: usize::from(kind) & NAME_BYTES_MAX,
            value_end: u32::from_le_bytes(end) as usize,
        }
    }
}

/// The positions of a property's name and value.
struct Slot {
    type_code: u16,
    name_start: usize,
    name_end: usize,
    value_start: usize,
    value_end: usize,
}

impl Slot {
    fn name_len(&self) -> usize {
        self.name_end - self.name_start
    }
}

/// Zero is not a type, so that zeroed bytes are not mistaken for a record.
const fn type_code(edm_type: EdmType) -> u16 {
    match edm_type {
        EdmType::String => 1,
        EdmType::Boolean => 2,
        EdmType::Int32 => 3,
        EdmType::Int64 => 4,
        EdmType::Double => 5,
        EdmType::DateTime => 6,
        EdmType::Guid => 7,
        EdmType::Binary => 8,
    }
}

const fn type_of(code: u16) -> Option<EdmType> {
    Some(match code {
        1 => EdmType::String,
        2 => EdmType::Boolean,
        3 => EdmType::Int32,
        4 => EdmType::Int64,
        5 => EdmType::Double,
        6 => EdmType::DateTime,
        7 => EdmType::Guid,
        8 => EdmType::Binary,
        _ => return None,
    })
}

/// Bytes of every value of the type; `None` where they vary.
const fn fixed_width(edm_type: EdmType) -> Option<usize> {
    match edm_type {
        EdmType::String | EdmType::Binary => None,
        EdmType::Boolean => Some(1),
        EdmType::Int32 => Some(4),
        EdmType::Int64 | EdmType::Double | EdmType::DateTime => Some(8),
        EdmType::Guid => Some(16),
    }
}

/// Whether a value of the type can have this many bytes.
fn width_fits(type_code: u16, width: usize) -> bool {
    let fixed = WIDTHS.get(usize::from(type_code));
    fixed.is_some_and(|&fixed| fixed == width || fixed == VARIES)
}

/// The bytes of a value of each type code: [`fixed_width`] as a table, for the pass over headers.
#[expect(clippy::indexing_slicing, reason = "the compiler runs this")]
const WIDTHS: [usize; 1 << (u16::BITS - NAME_BITS)] = {
    let mut widths = [NO_TYPE; _];
    let mut code = 0;
    while code < widths.len() {
        widths[code] = match type_of(code as u16) {
            None => NO_TYPE,
            Some(edm_type) => match fixed_width(edm_type) {
                Some(fixed) => fixed,
                None => VARIES,
            },
        };
        code += 1;
    }
    widths
};
const VARIES: usize = usize::MAX;
/// No value has this many bytes.
const NO_TYPE: usize = usize::MAX - 1;

fn value_bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::String(v) => v.len(),
        ValueRef::Binary(v) => v.len(),
        other => fixed_width(other.edm_type()).unwrap_or_default(),
    }
}

fn put_value(room: &mut &mut [u8], value: ValueRef<'_>) {
    match value {
        ValueRef::String(v) => put(room, v.as_bytes()),
        ValueRef::Boolean(v) => put(room, &[v.into()]),
        ValueRef::Int32(v) => put(room, &v.to_le_bytes()),
        ValueRef::Int64(v) => put(room, &v.to_le_bytes()),
        ValueRef::Double(v) => put(room, &v.to_le_bytes()),
        ValueRef::DateTime(v) => put(room, &v.ticks().to_le_bytes()),
        ValueRef::Guid(v) => put(room, &v.0),
        ValueRef::Binary(v) => put(room, v),
    }
}

fn read_value(edm_type: EdmType, bytes: &[u8]) -> Option<ValueRef<'_>> {
    Some(match edm_type {
        EdmType::String => ValueRef::String(std::str::from_utf8(bytes).ok()?),
        EdmType::Boolean => match bytes {
            [0] => ValueRef::Boolean(false),
            [1] => ValueRef::Boolean(true),
            _ => return None,
        },
        EdmType::Int32 => ValueRef::Int32(i32::from_le_bytes(bytes.try_into().ok()?)),
        EdmType::Int64 => ValueRef::Int64(i64::from_le_bytes(bytes.try_into().ok()?)),
        EdmType::Double => ValueRef::Double(f64::from_le_bytes(bytes.try_into().ok()?)),
        EdmType::DateTime => {
            let ticks = u64::from_le_bytes(bytes.try_into().ok()?);
            ValueRef::DateTime(Timestamp::from_ticks(ticks)?)
        }
        EdmType::Guid => ValueRef::Guid(Guid(bytes.try_into().ok()?)),
        EdmType::Binary => ValueRef::Binary(bytes),
    })
}

#[cfg(test)]
mod tests;
