//! Continuation tokens: the start of a query's next page, as text that is safe in headers and URLs.
//!
//! A token is `1!{n}!{b}`: `b` is base64 of the bytes with `-` for `=`, `_` for `/` and `*` for `+`;
//! `n` is the length of `b` (T-4.65, T-4.68).

use base64::Engine;
use base64::alphabet::{Alphabet, Symbol};
use base64::engine::general_purpose::{GeneralPurpose, PAD};
use lazuli_model::Timestamp;

/// The longest token accepted: a key of 512 UTF-16 units has at most 1536 bytes.
const TOKEN_BYTES_MAX: usize = 4096;

/// The token for `bytes`: a partition key, a row key.
pub fn encode(bytes: &[u8]) -> String {
    let body = BASE64.encode(bytes);
    format!("1!{}!{body}", body.len())
}

/// The bytes of a token; `None` if we did not write it.
pub fn decode(token: &str) -> Option<Vec<u8>> {
    if token.len() > TOKEN_BYTES_MAX {
        return None;
    }
    let (length, body) = token.strip_prefix("1!")?.split_once('!')?;
    (length.parse() == Ok(body.len())).then_some(())?;
    BASE64.decode(body).ok()
}

/// Like [`decode`], for tokens that contain a key.
pub fn decode_key(token: &str) -> Option<String> {
    String::from_utf8(decode(token)?).ok()
}

/// The token of a query in descending key order, which no other query accepts.
pub fn encode_reverse(key: &str) -> String {
    let body = BASE64.encode(key);
    format!("{REVERSE}{}!{body}", body.len())
}

/// The key in a token of [`encode_reverse`].
pub fn decode_reverse(token: &str) -> Option<String> {
    decode_key(&format!("1!{}", token.strip_prefix(REVERSE)?))
}

/// Prefix of the tokens of queries in descending order.
const REVERSE: &str = "2!";

/// The token of a list of tables: the lower-case name of the first table not yet returned, 0x01,
/// and its time of creation as a FILETIME of 16 hexadecimal digits (T-4.67).
pub fn encode_table(lower_name: &str, created: Timestamp) -> String {
    let filetime = created.ticks().saturating_sub(Timestamp::EDM_MIN.ticks());
    encode(format!("{lower_name}\u{1}{filetime:016x}").as_bytes())
}

/// The table name that a token of [`encode_table`] holds. The time is ignored: the list continues
/// at the name, whether or not that table still exists.
pub fn decode_table(token: &str) -> Option<String> {
    let text = decode_key(token)?;
    let (name, _created) = text.split_once('\u{1}')?;
    Some(name.to_owned())
}

const BASE64: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD);

/// A mistake in these literals does not compile.
const ALPHABET: Alphabet = {
    let Some(padding) = Symbol::new(b'-') else {
        panic!("the padding is a printable character");
    };
    let symbols = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*_";
    match Alphabet::new_with_padding(symbols, padding) {
        Ok(alphabet) => alphabet,
        Err(_) => panic!("64 different characters, none of them the padding"),
    }
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    ///
    #[test]
    fn tokens_of_one_direction_are_none_of_the_other() {
        for key in ["", "pk", "é🦀"] {
            let token = encode_reverse(key);
            assert_eq!(decode_reverse(&token).as_deref(), Some(key));
            assert_eq!(decode_key(&token), None);
            assert_eq!(decode_reverse(&encode(key.as_bytes())), None);
        }
    }

    /// The vectors of T-4.66, all recorded; the last in python test_table_entity suites.
    #[test]
    fn tokens_read_as_recorded() {
        for (key, token) in [
            ("pk", "1!4!cGs-"),
            ("5", "1!4!NQ--"),
            ("1012", "1!8!MTAxMg--"),
            ("contToken", "1!12!Y29udFRva2Vu"),
            ("partition1-ô- -'-\"-%20-%27-pk", "1!40!cGFydGl0aW9uMS3DtC0gLSctIi0lMjAtJTI3LXBr"),
        ] {
            assert_eq!(encode(key.as_bytes()), token);
            assert_eq!(decode_key(token).as_deref(), Some(key));
        }
    }

    #[test]
    fn a_table_token_holds_name_and_time_of_creation() {
        let token = "1!36!bXl0YWJsZTIBMDFkN2M0NmI0YmIwM2ViMw--";
        let ticks = Timestamp::EDM_MIN.ticks() + 0x01d7_c46b_4bb0_3eb3;
        assert_eq!(encode_table("mytable2", Timestamp::from_ticks(ticks).unwrap()), token);
        assert_eq!(decode_table(token).as_deref(), Some("mytable2"));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for token in
            ["", "1!4!", "1!4!cGs=", "1!3!cGs-", "2!4!cGs-", "cGs-", "1!4!c/s-", "1!x!cGs-"]
        {
            assert_eq!(decode(token), None, "{token:?}");
        }
        assert_eq!(decode_key(&encode(b"\xff")), None);
        assert_eq!(decode_table(&encode(b"no separator")), None);
        assert_eq!(decode(&encode(&[0; TOKEN_BYTES_MAX])), None);
    }

    proptest! {
        #[test]
        fn tokens_round_trip_and_need_no_escaping(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let token = encode(&bytes);
            prop_assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b"!-_*".contains(&b)));
            prop_assert_eq!(decode(&token), Some(bytes));
        }

        #[test]
        fn decode_never_panics(token in any::<String>()) {
            let _ = decode_table(&token);
            let _ = decode_table(&format!("1!{}!{token}", token.len()));
        }
    }
}
