//! Searches text eight bytes at a time.

/// Bytes that are examined in one step.
const WORD: usize = 8;

/// The number of plain bytes before the first byte that `special` finds.
///
/// `special` examines eight bytes at a time and sets the high bit of the first special byte among
/// them, and no other bit below it; what it sets above that byte does not count. See [`ascii`] and
/// [`or_not_ascii`].
#[inline]
pub(crate) fn plain_prefix(bytes: &[u8], special: impl Fn(u64) -> u64) -> usize {
    let special = |word: &[u8; WORD]| special(u64::from_le_bytes(*word));
    let Some(last) = bytes.last_chunk() else {
        // Bytes missing from the word are zero, and perhaps special, but they lie after the end.
        return first_byte(special(&short_word(bytes))).min(bytes.len());
    };
    let (words, _) = bytes.as_chunks::<WORD>();
    // Most texts are short. For the rest, four words per step take fewer instructions than one.
    let (front, back) = words.split_at(words.len().min(4));
    for (index, word) in front.iter().enumerate() {
        let found = special(word);
        if found != 0 {
            return index * WORD + first_byte(found);
        }
    }
    let is_plain =
        |block: &&[[u8; WORD]; 4]| block.iter().fold(0, |found, word| found | special(word)) == 0;
    let skipped = 4 * back.as_chunks::<4>().0.iter().take_while(is_plain).count();
    for (index, word) in back.iter().enumerate().skip(skipped) {
        let found = special(word);
        if found != 0 {
            return (front.len() + index) * WORD + first_byte(found);
        }
    }
    // Some of the last eight bytes were already known to be plain.
    bytes.len() - WORD + first_byte(special(last))
}

/// Where `byte`, an ASCII character, first occurs in `text`, which should be short: for longer texts use
/// `memchr`.
#[inline]
pub(crate) fn find_byte(byte: u8, text: &[u8]) -> Option<usize> {
    let (words, tail) = text.as_chunks::<WORD>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = ascii(word, equal(word, byte));
        if found != 0 {
            return Some(index * WORD + first_byte(found));
        }
    }
    let at = tail.iter().position(|other| *other == byte)?;
    Some(text.len() - tail.len() + at)
}

/// Sets the high bits of bytes less than `limit`, and of some that are not ASCII.
#[inline]
pub(crate) const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(every(limit))
}

/// Sets the high bits of bytes equal to `byte`, and of some that are not ASCII.
#[inline]
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ every(byte), 1)
}

/// Only the marks of bytes that are ASCII.
#[inline]
pub(crate) const fn ascii(word: u64, marks: u64) -> u64 {
    marks & !word & every(0x80)
}

/// The marks, and one for each byte that is not ASCII.
#[inline]
pub(crate) const fn or_not_ascii(word: u64, marks: u64) -> u64 {
    (marks | word) & every(0x80)
}

/// A word of eight times the same byte.
const fn every(byte: u8) -> u64 {
    byte as u64 * 0x0101_0101_0101_0101
}

/// The index of the lowest marked byte; one past the word if none is marked.
const fn first_byte(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

/// Fewer than eight bytes, padded with zeros.
fn short_word(bytes: &[u8]) -> [u8; WORD] {
    if let (Some(front), Some(back)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // The two may overlap, and agree where they do.
        let back = u64::from(u32::from_le_bytes(*back)) << (8 * (bytes.len() - 4));
        return (u64::from(u32::from_le_bytes(*front)) | back).to_le_bytes();
    }
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_mark_names_the_first_special_byte() {
        for (byte, len) in
            (0..=u8::MAX).flat_map(|byte| [1, 3, 7, 8, 13, 90].map(|len| (byte, len)))
        {
            for at in 0..len {
                let mut bytes = vec![b'x'; len];
                bytes[at] = byte;
                let special = |w: u64| or_not_ascii(w, below(w, b' ') | equal(w, b'"'));
                let is_special = byte < b' ' || byte == b'"' || byte >= 0x80;
                let expect = if is_special { at } else { bytes.len() };
                assert_eq!(plain_prefix(&bytes, special), expect, "{byte} {at}");
            }
        }
    }

    #[test]
    fn a_byte_is_found_where_it_stands_first() {
        assert_eq!(find_byte(b':', b"a: b: c"), Some(1));
        assert_eq!(find_byte(b':', b"a b c"), None);
        assert_eq!(find_byte(b':', b""), None);
        assert_eq!(find_byte(0, b"abc"), None);
    }

    proptest! {
        #[test]
        fn plain_text_ends_before_the_first_special_byte(
            bytes in prop::collection::vec(prop_oneof![0..0x30u8, b'['..b'a', any::<u8>()], 0..80),
        ) {
            let special = |w: u64| ascii(w, below(w, b' ') | equal(w, b'"') | equal(w, b'\\'));
            let is_special = |b: &u8| *b < b' ' || matches!(b, b'"' | b'\\');
            let expect = bytes.iter().position(is_special).unwrap_or(bytes.len());
            prop_assert_eq!(plain_prefix(&bytes, special), expect);
        }
    }
}
