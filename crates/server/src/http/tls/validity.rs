//! Reads the expiry of a certificate.
//!
//! ```text
//! Certificate ::= SEQUENCE { tbsCertificate SEQUENCE {
//!     version [0] OPTIONAL, serialNumber INTEGER, signature SEQUENCE, issuer SEQUENCE,
//!     validity SEQUENCE { notBefore Time, notAfter Time }, … }, … }
//! Time ::= UTCTime "YYMMDDhhmmssZ" | GeneralizedTime "YYYYMMDDhhmmssZ"
//! ```

use lazuli_model::Timestamp;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;

/// The end of a certificate's validity; `None` if its structure is unexpected.
pub(super) fn not_after(certificate: &[u8]) -> Option<Timestamp> {
    let mut certificate = Der(certificate);
    let mut signed = Der(Der(certificate.expect(SEQUENCE)?).expect(SEQUENCE)?);
    let (tag, _) = signed.next()?;
    if tag == VERSION {
        signed.expect(INTEGER)?;
    }
    signed.expect(SEQUENCE)?;
    signed.expect(SEQUENCE)?;
    let mut validity = Der(signed.expect(SEQUENCE)?);
    validity.next()?;
    let (tag, text) = validity.next()?;
    let text = std::str::from_utf8(text).ok()?;
    match tag {
        // Two-digit years are 1950 to 2049 (RFC 5280, 4.1.2.5.1).
        UTC_TIME if text.get(..2)? < "50" => parse(&format!("20{text}")),
        UTC_TIME => parse(&format!("19{text}")),
        GENERALIZED_TIME => parse(text),
        _ => None,
    }
}

/// `YYYYMMDDhhmmssZ`
fn parse(text: &str) -> Option<Timestamp> {
    let part = |from, to| text.get(from..to);
    let (date, time) = (
        [part(0, 4)?, part(4, 6)?, part(6, 8)?].join("-"),
        [part(8, 10)?, part(10, 12)?, part(12, 14)?].join(":"),
    );
    Timestamp::parse(&format!("{date}T{time}{}", part(14, text.len())?))
}

/// Values in DER that follow each other.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next value, which must have this tag.
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let ([tag, first], mut rest) = self.0.split_first_chunk()?;
        let length = match first {
            0..=0x7f => usize::from(*first),
            // The long form starts with the number of length bytes.
            0x81..=0x84 => {
                let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = after;
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            _ => return None,
        };
        let (content, after) = rest.split_at_checked(length)?;
        self.0 = after;
        Some((*tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[tag, 0x81, length], content].concat()
    }

    fn certificate(version: bool, tag: u8, not_after: &str) -> Vec<u8> {
        let version = if version { value(VERSION, &[2, 1, 2]) } else { Vec::new() };
        let times = [value(UTC_TIME, b"700101000000Z"), value(tag, not_after.as_bytes())].concat();
        let signed = [
            version,
            value(INTEGER, &[1]),
            value(SEQUENCE, &[]),
            value(SEQUENCE, &[]),
            value(SEQUENCE, &times),
        ];
        value(SEQUENCE, &value(SEQUENCE, &signed.concat()))
    }

    #[test]
    fn both_forms_of_time_are_read() {
        let check = |certificate: Vec<u8>, expect: &str| {
            assert_eq!(not_after(&certificate), Timestamp::parse(expect));
        };
        check(certificate(true, UTC_TIME, "491231235959Z"), "2049-12-31T23:59:59Z");
        check(certificate(false, UTC_TIME, "991231235959Z"), "1999-12-31T23:59:59Z");
        check(certificate(true, GENERALIZED_TIME, "20991231235959Z"), "2099-12-31T23:59:59Z");
    }

    #[test]
    fn nothing_else_is_read_and_nothing_panics() {
        let whole = certificate(true, UTC_TIME, "491231235959Z");
        for end in 0..whole.len() {
            assert_eq!(not_after(&whole[..end]), None, "{end}");
        }
        assert_eq!(not_after(&certificate(true, INTEGER, "491231235959Z")), None);
        assert_eq!(not_after(&certificate(true, UTC_TIME, "ä")), None);
    }
}
