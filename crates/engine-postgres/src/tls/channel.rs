//! The hash of the server's certificate to which SCRAM binds a password: `tls-server-end-point` of RFC 5929.

use aws_lc_rs::digest::{Algorithm, SHA256, SHA384, SHA512, digest};

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;

/// RSA signatures: 1.2.840.113549.1.1, then one byte.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
/// ECDSA signatures with SHA-2: 1.2.840.10045.4.3, then one byte.
const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
/// ECDSA with SHA-1: 1.2.840.10045.4.1.
const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];

/// The hash, or `None` for a certificate whose signature does not name one, such as Ed25519.
pub(super) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = hash_of(signature_algorithm(certificate)?)?;
    Some(digest(algorithm, certificate).as_ref().to_vec())
}

/// `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { OBJECT IDENTIFIER, … }, … }`
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    element(algorithm, OBJECT_IDENTIFIER).map(|(identifier, _)| identifier)
}

/// The hash of a signature algorithm; SHA-256 in place of weak ones, as the RFC says.
fn hash_of(identifier: &[u8]) -> Option<&'static Algorithm> {
    if identifier == ECDSA_SHA1 {
        return Some(&SHA256);
    }
    if let Some(last) = identifier.strip_prefix(RSA) {
        return match last {
            // MD5, SHA-1 and SHA-256.
            [4 | 5 | 11] => Some(&SHA256),
            [12] => Some(&SHA384),
            [13] => Some(&SHA512),
            _ => None,
        };
    }
    match identifier.strip_prefix(ECDSA)? {
        [2] => Some(&SHA256),
        [3] => Some(&SHA384),
        [4] => Some(&SHA512),
        _ => None,
    }
}

/// The content of the element at the start of `der`, and what follows it.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(*length), rest),
        // Up to four length bytes follow.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length - 0x80))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[SEQUENCE, 0x81, length], content].concat()
    }

    fn certificate(algorithm: &[u8]) -> Vec<u8> {
        let identifier = [&[OBJECT_IDENTIFIER, algorithm.len() as u8], algorithm].concat();
        sequence(&[sequence(b"to be signed"), sequence(&identifier), vec![3, 1, 0]].concat())
    }

    #[test]
    fn hash_is_that_of_the_signature() {
        let check = |algorithm: &[u8], expect: &'static Algorithm| {
            let certificate = certificate(algorithm);
            assert_eq!(end_point(&certificate).unwrap(), digest(expect, &certificate).as_ref());
        };
        check(&[RSA, &[5]].concat(), &SHA256);
        check(&[RSA, &[11]].concat(), &SHA256);
        check(&[RSA, &[12]].concat(), &SHA384);
        check(&[ECDSA, &[2]].concat(), &SHA256);
        check(&[ECDSA, &[4]].concat(), &SHA512);
        check(ECDSA_SHA1, &SHA256);
    }

    #[test]
    fn what_names_no_hash_is_not_tied() {
        // Ed25519, RSA-PSS, and input that is not a certificate.
        assert_eq!(end_point(&certificate(&[0x2b, 0x65, 0x70])), None);
        assert_eq!(end_point(&certificate(&[RSA, &[10]].concat())), None);
        let whole = certificate(&[RSA, &[11]].concat());
        for length in 0..24 {
            assert_eq!(end_point(whole.get(..length).unwrap()), None);
        }
        assert_eq!(end_point(&[SEQUENCE, 0xff, 0, 0]), None);
    }
}
