//! Serializes sketches, so that they survive a restart: numbers as little-endian groups of seven bits; texts and lists
//! after their length; the fields of a struct in the order given to `stored!`.
//!
//! If the bytes cannot be decoded, all are discarded: advice then starts over, and nothing else is lost.

use std::collections::VecDeque;

/// A part of a sketch that can be stored.
pub(crate) trait Stored: Sized {
    fn write(&self, out: &mut Vec<u8>);

    /// Takes the value from the front of `from`; `None` if there is none.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

/// Implements [`Stored`] for a struct, field by field.
macro_rules! stored {
    ($name:ty { $($field:ident),* $(,)? }) => {
        impl $crate::stored::Stored for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $($crate::stored::Stored::write(&self.$field, out);)*
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::stored::Stored::read(from)?,)* })
            }
        }
    };
}

pub(crate) use stored;

impl Stored for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push((rest & 0x7F) as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = from.split_first()?;
            *from = rest;
            value |= Self::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

impl Stored for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        u64::read(from)?.try_into().ok()
    }
}

impl Stored for bool {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        match u64::read(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Stored for String {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let length = usize::try_from(u64::read(from)?).ok()?;
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        Self::from_utf8(text.to_vec()).ok()
    }
}

impl Stored for Box<str> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        String::read(from).map(String::into_boxed_str)
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        match bool::read(from)? {
            true => T::read(from).map(Some),
            false => Some(None),
        }
    }
}

impl<T: Stored> Stored for VecDeque<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        self.iter().for_each(|value| value.write(out));
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        let length = u64::read(from)?;
        // Each element takes at least one byte: a false length ends here, without reserving memory.
        (0..length).map(|_| T::read(from)).collect()
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}

impl<A: Stored, B: Stored, C: Stored> Stored for (A, B, C) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
        self.2.write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?, C::read(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Value = (Option<String>, VecDeque<u64>, (u32, bool, Box<str>));

    #[test]
    fn what_is_written_is_read() {
        let numbers = [0, 1, 127, 128, u64::MAX].into();
        let value: Value = (Some("h\u{e9}".into()), numbers, (u32::MAX, true, "".into()));
        let mut bytes = Vec::new();
        value.write(&mut bytes);
        assert_eq!(Value::read(&mut bytes.as_slice()), Some(value));
        for cut in 0..bytes.len() {
            assert_eq!(Value::read(&mut &bytes[..cut]), None, "{cut}");
        }
        assert_eq!(u64::read(&mut [0x80; 10].as_slice()), None);
        assert_eq!(VecDeque::<u64>::read(&mut [0xFF, 0xFF, 0xFF, 0x7F].as_slice()), None);
    }
}
