//! Pop receipts as text: Base64 of their bytes, standard alphabet with padding.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lazuli_model::PopReceipt;

/// Maximum characters of a receipt: 32 for the 24 bytes from Update Message.
const CHARS_MAX: usize = 32;

/// A text is not the Base64 of a receipt's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Invalid pop receipt format")]
pub struct MalformedReceipt;

/// Reads a receipt. A plus sign that a client left unescaped in its URL has become a space; Base64
/// has no spaces, so it must have been a plus.
pub fn parse(text: &str) -> Result<PopReceipt, MalformedReceipt> {
    if text.len() > CHARS_MAX {
        return Err(MalformedReceipt);
    }
    let bytes = STANDARD.decode(text.replace(' ', "+")).map_err(|_| MalformedReceipt)?;
    PopReceipt::parse_bytes(&bytes).ok_or(MalformedReceipt)
}

/// The text of a receipt.
pub fn to_text(receipt: PopReceipt) -> String {
    STANDARD.encode(receipt.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// QV-19, TQ-30.
    #[test]
    fn recorded_receipts_are_read_and_written() {
        for text in ["AgAAAAMAAAAAAAAATo9G3YHt2AE=", "AwAAAAMAAAAAAAAAIr9K34Ht2AEBAAAA"] {
            assert_eq!(parse(text).map(to_text).as_deref(), Ok(text));
        }
        let next_visible = parse("AgAAAAMAAAAAAAAAz0CDOFDq2AE=").unwrap().next_visible;
        assert_eq!(next_visible.rfc1123(), "Thu, 27 Oct 2022 22:05:27 GMT");
    }

    #[test]
    fn a_plus_sign_may_have_become_a_space() {
        let escaped = parse("AgAAAAMAAAAAAAAAY+umUEFx2QE=").unwrap();
        assert_eq!(parse("AgAAAAMAAAAAAAAAY umUEFx2QE="), Ok(escaped));
    }

    /// TQ-28: the recorded ones, and others.
    #[test]
    fn what_is_no_receipt_is_malformed() {
        for text in [
            "",
            "exist",
            "invalid",
            "AgAAAAMAAAAAAAAADNzHUEFxNQE=Random",
            "AgAAAAMAAAAAAAAATo9G3YHt2AE",
            "AQAAAAMAAAAAAAAATo9G3YHt2AE=",
            "AwAAAAMAAAAAAAAAIr9K34Ht2AE=",
            &"A".repeat(10_000),
        ] {
            assert_eq!(parse(text), Err(MalformedReceipt), "{text}");
        }
    }
}
