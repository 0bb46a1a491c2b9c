//! Sets of bytes, to check every byte of a text.

/// A set built by [`byte_set!`] at compile time.
pub(crate) struct ByteSet(pub(crate) [bool; 256]);

impl ByteSet {
    #[inline]
    pub(crate) fn contains(&self, byte: u8) -> bool {
        self.0.get(usize::from(byte)) == Some(&true)
    }
}

/// The bytes for which an expression holds.
macro_rules! byte_set {
    (|$byte:ident| $holds:expr) => {{
        let mut set = [false; 256];
        let mut index = 0;
        while index < set.len() {
            let $byte = index as u8;
            #[expect(clippy::indexing_slicing, reason = "the compiler runs this")]
            {
                set[index] = $holds;
            }
            index += 1;
        }
        $crate::byte_set::ByteSet(set)
    }};
}

pub(crate) use byte_set;
