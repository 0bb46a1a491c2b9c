//! Shared by the tests of this module: the data of the specification's test vectors.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests may")]

mod envelopes;

use super::cek::Cek;
use super::local_keys::AesKey;
use base64::Engine as _;
use lazuli_model::EntityKey;

/// `first`, `first + 1`, and so on.
fn counting<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first + u8::try_from(at).unwrap())
}

pub(super) fn kek() -> AesKey {
    AesKey::new("key1", &counting::<32>(0)[..]).unwrap()
}

pub(super) fn cek() -> Cek {
    Cek::from_bytes(counting(0x40))
}

pub(super) fn iv() -> [u8; 16] {
    counting(0xA0)
}

pub(super) fn key() -> EntityKey {
    EntityKey::parse("Sales", "empid_000223").unwrap()
}

pub(super) fn base64(text: &str) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.bytes().map(|digit| (digit as char).to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
