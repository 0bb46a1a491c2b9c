//! Pop receipts, byte by byte: the service returns one with a message and requires it to change the
//! message.

use crate::time::Timestamp;

/// A pop receipt. Together with the id it names one state of a message: each Get and Update issues
/// a new one and invalidates the old one.
///
/// | bytes | from Put and Get | from Update |
/// | --- | --- | --- |
/// | 0-3 | `02 00 00 00` | `03 00 00 00` |
/// | 4-7 | `03 00 00 00` | `03 00 00 00` |
/// | 8-11 | zero | zero |
/// | 12-19 | next-visible time as file time, little-endian | same |
/// | 20-23 | absent | dequeue count, little-endian |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PopReceipt {
    /// When the message becomes visible again, exact to the tick.
    pub next_visible: Timestamp,
    /// Only receipts from Update carry it.
    pub dequeue_count: Option<u32>,
}

const HEAD_OF_GET: [u8; 12] = [2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
const HEAD_OF_UPDATE: [u8; 12] = [3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];

impl PopReceipt {
    /// The receipt from Put or Get.
    pub const fn of_get(next_visible: Timestamp) -> Self {
        Self { next_visible, dequeue_count: None }
    }

    /// The receipt from Update.
    pub const fn of_update(next_visible: Timestamp, dequeue_count: u32) -> Self {
        Self { next_visible, dequeue_count: Some(dequeue_count) }
    }

    /// 20 or 24 bytes; the wire form is their Base64.
    pub fn bytes(self) -> Vec<u8> {
        let ticks = self.next_visible.ticks().saturating_sub(Timestamp::EDM_MIN.ticks());
        let head = if self.dequeue_count.is_some() { HEAD_OF_UPDATE } else { HEAD_OF_GET };
        let mut bytes = [&head[..], &ticks.to_le_bytes()].concat();
        if let Some(count) = self.dequeue_count {
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes
    }

    /// Reads what [`bytes`](Self::bytes) writes; `None` for any other bytes. A time after
    /// the year 9999 names no message, and is read as the end of that year.
    pub fn parse_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<12>()?;
        let (ticks, rest) = rest.split_first_chunk()?;
        let ticks = u64::from_le_bytes(*ticks).saturating_add(Timestamp::EDM_MIN.ticks());
        let dequeue_count = match (*head, rest) {
            (HEAD_OF_GET, []) => None,
            (HEAD_OF_UPDATE, &[a, b, c, d]) => Some(u32::from_le_bytes([a, b, c, d])),
            _ => return None,
        };
        let next_visible = Timestamp::from_ticks(ticks).unwrap_or(Timestamp::MAX);
        Some(Self { next_visible, dequeue_count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `AgAAAAMAAAAAAAAATo9G3YHt2AE=` was recorded with TimeNextVisible Mon, 31 Oct 2022 23:38:22 GMT.
    #[test]
    fn a_recorded_receipt_of_put_holds_the_time() {
        let bytes = [2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 78, 143, 70, 221, 129, 237, 216, 1];
        let receipt = PopReceipt::parse_bytes(&bytes).unwrap();
        assert_eq!(receipt.next_visible.rfc1123(), "Mon, 31 Oct 2022 23:38:22 GMT");
        assert_eq!((receipt.dequeue_count, receipt.bytes()), (None, bytes.to_vec()));
    }

    /// `AwAAAAMAAAAAAAAAIr9K34Ht2AEBAAAA`, of a message that was dequeued once.
    #[test]
    fn a_recorded_receipt_of_update_holds_the_dequeue_count() {
        let bytes =
            [3, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 34, 191, 74, 223, 129, 237, 216, 1, 1, 0, 0, 0];
        let receipt = PopReceipt::parse_bytes(&bytes).unwrap();
        assert_eq!((receipt.dequeue_count, receipt.bytes()), (Some(1), bytes.to_vec()));
    }

    #[test]
    fn a_time_past_the_year_9999_is_well_formed() {
        let bytes = [&HEAD_OF_GET[..], &[0xFF; 8]].concat();
        let receipt = PopReceipt::parse_bytes(&bytes);
        assert_eq!(receipt, Some(PopReceipt::of_get(Timestamp::MAX)));
    }

    proptest! {
        #[test]
        fn receipts_round_trip(
            ticks in Timestamp::EDM_MIN.ticks()..=Timestamp::MAX.ticks(),
            dequeue_count in any::<Option<u32>>(),
        ) {
            let next_visible = Timestamp::from_ticks(ticks).unwrap();
            let receipt = PopReceipt { next_visible, dequeue_count };
            prop_assert_eq!(PopReceipt::parse_bytes(&receipt.bytes()), Some(receipt));
        }

        #[test]
        fn only_bytes_of_the_form_are_receipts(bytes in any::<Vec<u8>>(), cut in 0_usize..24) {
            prop_assert_eq!(PopReceipt::parse_bytes(&bytes), None);
            let receipt = PopReceipt::of_update(Timestamp::UNIX_EPOCH, 7).bytes();
            prop_assert_eq!(PopReceipt::parse_bytes(&receipt[..cut]), None);
            prop_assert_eq!(PopReceipt::parse_bytes(&[&receipt[..], b"Random"].concat()), None);
        }
    }
}
