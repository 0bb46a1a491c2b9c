//! Keys as the table stores them: the first 2,000 bytes, and a digest for the rest (K-7.0).
//!
//! An index row of PostgreSQL holds 2,704 bytes, and the services accept keys that are longer. For
//! a bound of at most 2,000 bytes, `key >= bound` is `k >= bound`; longer ones compare `(k, x)`.

use aws_lc_rs::digest::{SHA256, digest};
use lazuli_engine::Key;

/// How many bytes of a key are in the index.
pub(crate) const INDEXED_BYTES: usize = 2000;

/// A key split into its columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey<'k> {
    /// What the index orders by.
    pub(crate) k: &'k [u8],
    /// The rest, nearly always empty.
    pub(crate) x: &'k [u8],
    digest: Option<[u8; 32]>,
}

impl<'k> StoredKey<'k> {
    pub(crate) fn of(key: &'k [u8]) -> Self {
        let (k, x) = split(key);
        let digest = (!x.is_empty()).then(|| digest_of(x));
        Self { k, x, digest }
    }

    /// Empty, or the digest of the rest, which makes the pair unique.
    pub(crate) fn d(&self) -> &[u8] {
        self.digest.as_ref().map_or(&[], |digest| digest.as_slice())
    }
}

impl<'k> From<&'k Key> for StoredKey<'k> {
    fn from(key: &'k Key) -> Self {
        Self::of(key.as_slice())
    }
}

/// The indexed part of a key or bound, and the rest.
pub(crate) fn split(key: &[u8]) -> (&[u8], &[u8]) {
    key.split_at_checked(INDEXED_BYTES).unwrap_or((key, &[]))
}

fn digest_of(rest: &[u8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    // A SHA-256 digest has 32 bytes, so every byte is copied.
    for (to, from) in bytes.iter_mut().zip(digest(&SHA256, rest).as_ref()) {
        *to = *from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_key_is_one_column() {
        let longest = vec![7; INDEXED_BYTES];
        for key in [b"".as_slice(), b"Lkey", &longest] {
            let stored = StoredKey::of(key);
            assert_eq!((stored.k, stored.d(), stored.x), (key, [].as_slice(), [].as_slice()));
        }
    }

    #[test]
    fn long_keys_that_begin_alike_differ_in_their_digest() {
        let long = |last: u8| [vec![7; INDEXED_BYTES], vec![last]].concat();
        let (one, other) = (long(1), long(2));
        let (one, other) = (StoredKey::of(&one), StoredKey::of(&other));
        assert_eq!((one.k, one.x, one.d().len()), (other.k, [1].as_slice(), 32));
        assert_ne!(one.d(), other.d());
    }
}
