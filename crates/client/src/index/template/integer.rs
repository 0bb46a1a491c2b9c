//! Integer types, which determine the width of numbers in keys.

use crate::key_part::{KeyPad, KeyRev};
use std::fmt;

/// How keys store the numbers of one type.
pub(super) struct Integer {
    pub(super) name: &'static str,
    /// The number of digits.
    pub(super) width: usize,
    /// Appends a number; `None` if the type does not have it.
    pub(super) write_pad: Write,
    pub(super) parse_pad: Parse,
    /// The same in reverse order, for the types that support it.
    reverse: Option<(Write, Parse)>,
}

type Write = fn(&mut String, i128) -> Option<()>;
type Parse = fn(&str) -> Option<i128>;

macro_rules! integer {
    ($ty:ident, $reverse:expr) => {
        Integer {
            name: stringify!($ty),
            width: <$ty as KeyPad>::PAD_WIDTH,
            write_pad: |out, number| $ty::try_from(number).ok().map(|number| number.write_pad(out)),
            parse_pad: |text| <$ty as KeyPad>::parse_pad(text).map(i128::from),
            reverse: $reverse,
        }
    };
}

macro_rules! unsigned {
    ($ty:ident) => {
        integer!(
            $ty,
            Some((
                |out, number| $ty::try_from(number).ok()?.write_rev(out).ok(),
                |text| <$ty as KeyRev>::parse_rev(text).map(i128::from),
            ))
        )
    };
}

static INTEGERS: [Integer; 6] = [
    unsigned!(u8),
    unsigned!(u16),
    unsigned!(u32),
    unsigned!(u64),
    integer!(i32, None),
    integer!(i64, None),
];

impl Integer {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        INTEGERS.iter().find(|integer| integer.name == name)
    }

    pub(super) fn write_rev(&self, out: &mut String, number: i128) -> Option<()> {
        self.reverse.and_then(|(write, _)| write(out, number))
    }

    pub(super) fn parse_rev(&self, text: &str) -> Option<i128> {
        self.reverse.and_then(|(_, parse)| parse(text))
    }
}

impl PartialEq for Integer {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Integer {}

impl fmt::Debug for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
