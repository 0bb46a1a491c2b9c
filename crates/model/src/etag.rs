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
        // After the seconds of a shorter text.
        if let Some(quotes) = buffer.get_mut(..end).and_then(|text| text.last_chunk_mut()) {
            *quotes = *b"'\"";
        }
        buffer.get(..end).unwrap_or_default()
    }

    /// Appends the text of the tag to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.text(&mut [0; Self::TEXT_BYTES_MAX]));
    }

    /// The same with another spelling of the quotation mark, as in a JSON string.
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
    /// A tag of the service's own form: the entity must be at that version.
    Version(ETag),
}

/// Why the value of an `If-Match` header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IfMatchError {
    /// A weak tag that the service never issues, so no entity can match it (T-5.5).
    #[error("the weak tag is not of the service's own form")]
    Foreign,
    /// Not exactly one weak tag or `*` (T-5.6).
    #[error("the value is not exactly one valid tag")]
    Malformed,
}

impl IfMatch {
    /// Parses a header value.
    pub fn parse(text: &str) -> Result<Self, IfMatchError> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self::Any);
        }
        let weak = text.strip_prefix("W/\"").and_then(|rest| rest.strip_suffix('"'));
        let inner = weak.filter(|inner| !inner.contains('"')).ok_or(IfMatchError::Malformed)?;
        Self::parse_own(inner).map(Self::Version).ok_or(IfMatchError::Foreign)
    }

    /// Accepts `%3A` and `:`, and hexadecimal digits in either case (T-2.48).
    fn parse_own(inner: &str) -> Option<ETag> {
        const TIME_BYTES_MIN: usize = "YYYY-MM-DDThh:mm:ssZ".len();
        let time = inner.strip_prefix("datetime'")?.strip_suffix('\'')?;
        let time = time.replace("%3A", ":").replace("%3a", ":");
        let is_full = time.len() >= TIME_BYTES_MIN && time.ends_with('Z');
        is_full.then(|| Timestamp::parse(&time).map(ETag))?
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
        let expect = Ok(IfMatch::Version(tag));
        assert_eq!(IfMatch::parse(&tag.to_string()), expect);
        assert_eq!(IfMatch::parse(" W/\"datetime'2022-05-06T00%3a36%3a46.068765Z'\" "), expect);
        assert_eq!(IfMatch::parse("W/\"datetime'2022-05-06T00:36:46.0687650Z'\""), expect);
    }

    #[test]
    fn foreign_weak_tags_never_match_and_the_rest_is_malformed() {
        assert_eq!(IfMatch::parse("*"), Ok(IfMatch::Any));
        for inner in ["wrong", "datetime''2022-05-06T00%3A36%3A46Z''", "datetime'2022-05-06'"] {
            let text = format!("W/\"{inner}\"");
            assert_eq!(IfMatch::parse(&text), Err(IfMatchError::Foreign), "{text}");
        }
        for text in ["wrong", "\"strong\"", "", "W/\"a\",W/\"b\"", "W/\"", "*,*"] {
            assert_eq!(IfMatch::parse(text), Err(IfMatchError::Malformed), "{text:?}");
        }
    }
}
