//! Entity tags and the condition a write may carry.

use crate::time::Timestamp;
use std::fmt;
use std::ops::Range;

/// The version of an entity: its Timestamp, spelled `W/"datetime'2021-12-09T00%3A23%3A58.094Z'"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag(pub Timestamp);

impl ETag {
    /// Appends the text of the tag to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        self.write_quoted_by(out, b"\"");
    }

    /// The same where a quotation mark is spelled otherwise, as within a JSON string.
    pub fn write_quoted_by(self, out: &mut Vec<u8>, quote: &[u8]) {
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        let text = self.0.text(&mut buffer);
        out.extend_from_slice(b"W/");
        out.extend_from_slice(quote);
        out.extend_from_slice(b"datetime'");
        // Hours, minutes and seconds stand at fixed places, each two characters and a colon long.
        let piece = |range: Range<usize>| text.as_bytes().get(range).unwrap_or_default();
        out.extend_from_slice(piece(0..13));
        out.extend_from_slice(b"%3A");
        out.extend_from_slice(piece(14..16));
        out.extend_from_slice(b"%3A");
        out.extend_from_slice(piece(17..text.len()));
        out.push(b'\'');
        out.extend_from_slice(quote);
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Vec::with_capacity(48);
        self.write(&mut out);
        f.write_str(&String::from_utf8_lossy(&out))
    }
}

/// The value of an `If-Match` header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: the entity must exist.
    Any,
    /// One of our own tags: the entity must be at that version.
    Version(ETag),
    /// A well-formed weak tag that we never issued: no entity can match it (T-5.5).
    Foreign,
}

impl IfMatch {
    /// Parses a header value; `None` when it is not exactly one valid tag (T-5.6).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "*" {
            return Some(Self::Any);
        }
        let inner = text.strip_prefix("W/\"")?.strip_suffix('"')?;
        if inner.contains('"') {
            return None;
        }
        Some(Self::parse_own(inner).map_or(Self::Foreign, Self::Version))
    }

    /// Both `%3A` and `:` are taken, and either case of the digits (T-2.48).
    fn parse_own(inner: &str) -> Option<ETag> {
        let time = inner.strip_prefix("datetime'")?.strip_suffix('\'')?;
        let time = time.replace("%3A", ":").replace("%3a", ":");
        Timestamp::parse(&time).map(ETag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_timestamp_with_escaped_colons() {
        let time = Timestamp::parse("2022-05-06T00:36:46.0687650Z").unwrap();
        assert_eq!(ETag(time).to_string(), "W/\"datetime'2022-05-06T00%3A36%3A46.068765Z'\"");
    }

    #[test]
    fn own_tags_parse_back_in_every_spelling() {
        let tag = ETag(Timestamp::parse("2022-05-06T00:36:46.068765Z").unwrap());
        let expect = Some(IfMatch::Version(tag));
        assert_eq!(IfMatch::parse(&tag.to_string()), expect);
        assert_eq!(IfMatch::parse(" W/\"datetime'2022-05-06T00%3a36%3a46.068765Z'\" "), expect);
        assert_eq!(IfMatch::parse("W/\"datetime'2022-05-06T00:36:46.0687650Z'\""), expect);
    }

    #[test]
    fn foreign_weak_tags_never_match_and_the_rest_is_malformed() {
        assert_eq!(IfMatch::parse("*"), Some(IfMatch::Any));
        assert_eq!(IfMatch::parse("W/\"wrong\""), Some(IfMatch::Foreign));
        for text in ["wrong", "\"strong\"", "", "W/\"a\",W/\"b\"", "W/\"", "*,*"] {
            assert_eq!(IfMatch::parse(text), None, "{text:?}");
        }
    }
}
