//! Continuation tokens as text that may be stored indefinitely (C-8.4).

use crate::error::{Error, ErrorKind};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use lazuli_wire::shared_key::{Signature, SigningKey};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

const PREFIX: &str = "lzp1.";

/// The position after a page. Its text contains no secret; it identifies the query it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    pub(crate) table: String,
    pub(crate) partition: Option<String>,
    pub(crate) row: Option<String>,
    /// Hash of the filter, the selection and the number of parts.
    pub(crate) fingerprint: u64,
    /// The part of the query to continue with (C-7.5).
    pub(crate) part: u32,
    /// The signature, if tokens are signed.
    pub(crate) mac: Option<String>,
}

/// A key that signs page tokens (C-8.4). Its `Debug` does not show it.
#[derive(Clone)]
pub struct TokenKey(Arc<SigningKey>);

impl TokenKey {
    /// Makes a key from these bytes; 32 random ones are best.
    pub fn new(secret: &[u8]) -> Result<Self, Error> {
        SigningKey::from_base64(&STANDARD.encode(secret))
            .map(|key| Self(Arc::new(key)))
            .map_err(|_| Error::config("the key of page tokens is empty"))
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey(..)")
    }
}

impl PageToken {
    /// Fails unless the token belongs to this query, and is signed if there is a key.
    pub(crate) fn check(
        &self,
        table: &str,
        fingerprint: u64,
        key: Option<&TokenKey>,
    ) -> Result<(), Error> {
        let is_signed = key.is_none_or(|key| {
            let mac = self.mac.as_deref().and_then(Signature::parse);
            mac.is_some_and(|mac| key.0.verify(&[&self.fields()], &mac))
        });
        if self.table.eq_ignore_ascii_case(table) && self.fingerprint == fingerprint && is_signed {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TokenMismatch).at("query", Some(table), None))
    }

    /// The same token, signed if there is a key.
    pub(crate) fn signed(self, key: Option<&TokenKey>) -> Self {
        let mac = key.map(|key| key.0.sign(&[&self.fields()]).to_string());
        Self { mac, ..self }
    }

    /// All fields except the signature, as signed.
    fn fields(&self) -> Vec<u8> {
        let mut bytes = self.fingerprint.to_be_bytes().to_vec();
        for field in [Some(&self.table), self.partition.as_ref(), self.row.as_ref()] {
            // Zero is an absent field; a present one has its length plus one.
            let length = field.map_or(0, |text| text.len() as u64 + 1);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(field.map_or(&[], |text| text.as_bytes()));
        }
        bytes.extend_from_slice(&self.part.to_be_bytes());
        bytes
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(self.fields()))?;
        match &self.mac {
            // In the URL-safe alphabet, like the rest.
            Some(mac) => write!(f, ".{}", mac.replace('+', "-").replace('/', "_")),
            None => Ok(()),
        }
    }
}

impl FromStr for PageToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error::new(ErrorKind::TokenMismatch))
    }
}

fn parse(text: &str) -> Option<PageToken> {
    let text = text.strip_prefix(PREFIX)?;
    let (text, mac) = match text.split_once('.') {
        Some((text, mac)) => (text, Some(mac.replace('-', "+").replace('_', "/"))),
        None => (text, None),
    };
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (fingerprint, mut rest) = bytes.split_first_chunk()?;
    let mut field = || {
        let (length, after) = rest.split_first_chunk()?;
        let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
        let (text, after) = after.split_at_checked(length.saturating_sub(1))?;
        rest = after;
        let text = String::from_utf8(text.to_vec()).ok()?;
        Some((length > 0).then_some(text))
    };
    let (table, partition, row) = (field()??, field()?, field()?);
    let fingerprint = u64::from_be_bytes(*fingerprint);
    let part = u32::from_be_bytes(rest.try_into().ok()?);
    Some(PageToken { table, partition, row, fingerprint, part, mac })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_read_back(
            table in "[A-Za-z]{3,9}",
            partition in prop::option::of(any::<String>()),
            row in prop::option::of(any::<String>()),
            fingerprint in any::<u64>(),
            part in any::<u32>(),
            secret in prop::option::of(prop::collection::vec(any::<u8>(), 1..40)),
        ) {
            let token = PageToken { table, partition, row, fingerprint, part, mac: None };
            let key = secret.map(|secret| TokenKey::new(&secret).unwrap());
            let token = token.signed(key.as_ref());
            let text = token.to_string();
            prop_assert!(text.bytes().all(|b| b.is_ascii_graphic()));
            prop_assert_eq!(text.parse::<PageToken>().unwrap(), token);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in any::<String>(), bytes in any::<Vec<u8>>()) {
            let _ = text.parse::<PageToken>();
            let _ = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)).parse::<PageToken>();
        }
    }

    fn token() -> PageToken {
        let (table, row) = ("People".into(), Some("r".into()));
        PageToken { table, partition: None, row, fingerprint: 7, part: 0, mac: None }
    }

    #[test]
    fn a_token_of_another_query_is_refused() {
        assert!(token().check("people", 7, None).is_ok());
        assert!(token().check("Orders", 7, None).is_err());
        assert!(token().check("People", 8, None).is_err());
    }

    #[test]
    fn a_token_that_somebody_else_made_is_refused() {
        let [ours, theirs] = [b"ours", b"them"].map(|secret| TokenKey::new(secret).unwrap());
        let signed = token().signed(Some(&ours));
        let sent: PageToken = signed.to_string().parse().unwrap();
        assert!(sent.check("People", 7, Some(&ours)).is_ok());
        assert!(sent.check("People", 7, Some(&theirs)).is_err());
        assert!(token().check("People", 7, Some(&ours)).is_err(), "it is not signed");
        let moved = PageToken { row: Some("s".into()), ..sent };
        assert!(moved.check("People", 7, Some(&ours)).is_err());
        assert!(!format!("{ours:?}").contains("ours"));
    }
}
