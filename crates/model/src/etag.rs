//! Entity tags and the condition a write may carry.

use crate::time::Timestamp;
use std::fmt;

/// The version of an entity: its Timestamp, spelled `W/"datetime'2021-12-09T00%3A23%3A58.094Z'"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag(pub Timestamp);

impl ETag {
    /// Bytes of the longest text.
    pub const TEXT_BYTES_MAX: usize = 46;
    /// Bytes before the quotation mark, and with it.
    const BEFORE_QUOTE: usize = 2;
    const WITH_QUOTE: usize = 3;

    /// Writes the text of the tag into `buffer`.
    pub fn text(self, buffer: &mut [u8; Self::TEXT_BYTES_MAX]) -> &[u8] {
        let mut time = [b' '; Timestamp::TEXT_BYTES_MAX];
        let len = self.0.text_bytes(&mut time).len();
        let [y0, y1, y2, y3, _, m0, m1, _, d0, d1, _, h0, h1, _, n0, n1, _, seconds @ ..] = time;
        let [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10] = seconds;
        *buffer = [
            b'W', b'/', b'"', b'd', b'a', b't', b'e', b't', b'i', b'm', b'e', b'\'', y0, y1, y2,
            y3, b'-', m0, m1, b'-', d0, d1, b'T', h0, h1, b'%', b'3', b'A', n0, n1, b'%', b'3',
            b'A', s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, b'\'', b'"',
        ];
        let end = Self::TEXT_BYTES_MAX - (Timestamp::TEXT_BYTES_MAX - len);
        // Behind the seconds of a shorter text.
        if let Some(quotes) = buffer.get_mut(..end).and_then(|text| text.last_chunk_mut()) {
            *quotes = *b"'\"";
        }
        buffer.get(..end).unwrap_or_default()
    }

    /// Appends the text of the tag to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text(&mut [0; Self::TEXT_BYTES_MAX]));
    }

    /// The same where a quotation mark is spelled otherwise, as within a JSON string.
    pub fn write_quoted_by(self, out: &mut Vec<u8>, quote: &[u8]) {
        let mut buffer = [0; Self::TEXT_BYTES_MAX];
        let text = self.text(&mut buffer);
        let inner = text.get(Self::WITH_QUOTE..text.len() - 1).unwrap_or_default();
        out.extend_from_slice(text.get(..Self::BEFORE_QUOTE).unwrap_or_default());
        out.extend_from_slice(quote);
        out.extend_from_slice(inner);
        out.extend_from_slice(quote);
    }
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut buffer = [0; Self::TEXT_BYTES_MAX];
        f.write_str(std::str::from_utf8(self.text(&mut buffer)).unwrap_or_default())
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
        let time = Timestamp::parse("2022-05-06T00:36:46Z").unwrap();
        assert_eq!(ETag(time).to_string(), "W/\"datetime'2022-05-06T00%3A36%3A46Z'\"");
        let mut out = Vec::new();
        ETag(time).write_quoted_by(&mut out, b"&quot;");
        assert_eq!(out, b"W/&quot;datetime'2022-05-06T00%3A36%3A46Z'&quot;");
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
