//! Continuation tokens as text that may be stored for ever (C-8.4).

use crate::error::{Error, ErrorKind};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "lzp1.";

/// The place after a page. Its text holds no secret; it names the query it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    pub(crate) table: String,
    pub(crate) partition: Option<String>,
    pub(crate) row: Option<String>,
    /// Of the filter and the selection.
    pub(crate) fingerprint: u64,
}

impl PageToken {
    /// Fails unless the token is of this query.
    pub(crate) fn check(&self, table: &str, fingerprint: u64) -> Result<(), Error> {
        if self.table.eq_ignore_ascii_case(table) && self.fingerprint == fingerprint {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TokenMismatch).at("query", Some(table), None))
    }
}

impl fmt::Display for PageToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.fingerprint.to_be_bytes().to_vec();
        for field in [Some(&self.table), self.partition.as_ref(), self.row.as_ref()] {
            // A length of zero is an absent field, one more than the length a present one.
            let length = field.map_or(0, |text| text.len() as u64 + 1);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(field.map_or(&[], |text| text.as_bytes()));
        }
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for PageToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text).ok_or_else(|| Error::new(ErrorKind::TokenMismatch))
    }
}

fn parse(text: &str) -> Option<PageToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
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
    rest.is_empty().then_some(PageToken { table, partition, row, fingerprint })
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
        ) {
            let token = PageToken { table, partition, row, fingerprint };
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

    #[test]
    fn a_token_of_another_query_is_refused() {
        let token = PageToken {
            table: "People".into(),
            partition: None,
            row: Some("r".into()),
            fingerprint: 7,
        };
        assert!(token.check("people", 7).is_ok());
        assert!(token.check("Orders", 7).is_err() && token.check("People", 8).is_err());
    }
}
