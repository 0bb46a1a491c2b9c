use super::*;
use proptest::prelude::*;

fn timestamp() -> impl Strategy<Value = Timestamp> {
    prop_oneof![Just(Timestamp::MAX), (0..Timestamp::MAX.ticks()).prop_map(at)]
}

fn at(ticks: u64) -> Timestamp {
    Timestamp::from_ticks(ticks).unwrap()
}

fn record() -> impl Strategy<Value = QueueRecord> {
    let metadata = prop::collection::btree_map("[a-z_]{1,4}", "[!-~]{0,9}", 0..4);
    (any::<u64>(), any::<u32>(), metadata).prop_map(|(queue, epoch, metadata)| QueueRecord {
        generation: Generation { queue: QueueId(queue), epoch },
        metadata: Metadata::parse(metadata.iter().map(|(n, v)| (&**n, &**v))).unwrap(),
    })
}

fn message() -> impl Strategy<Value = MessageRecord> {
    let text = prop_oneof![
        Just(StoredText::Apart),
        any::<String>().prop_map(|text| StoredText::Inline(MessageText::new(text).unwrap())),
    ];
    let voided = prop::collection::vec(timestamp(), 0..VOIDED_MAX);
    (timestamp(), timestamp(), any::<u32>(), voided, text).prop_map(
        |(inserted, expires, dequeue_count, voided, text)| MessageRecord {
            inserted,
            expires,
            dequeue_count,
            voided,
            text,
        },
    )
}

fn decode_all(bytes: &[u8]) {
    let _ = QueueRecord::decode(bytes);
    let _ = QueueRecord::decode_generation(bytes);
    let _ = MessageRecord::decode(bytes);
    let _ = MessageRecord::decode_expires(bytes);
    let _ = decode_text(bytes);
}

proptest! {
    #[test]
    fn queue_records_round_trip(record in record()) {
        let bytes = record.encode();
        prop_assert_eq!(QueueRecord::decode_generation(&bytes), Ok(record.generation));
        prop_assert_eq!(QueueRecord::decode(&bytes), Ok(record));
        prop_assert!(QueueRecord::decode(&bytes[..bytes.len() - 1]).is_err());
        prop_assert!(QueueRecord::decode(&[&bytes[..], &[0]].concat()).is_err());
        prop_assert!(QueueRecord::decode(&[&[VERSION + 1], &bytes[1..]].concat()).is_err());
    }

    #[test]
    fn messages_round_trip(message in message()) {
        let bytes = message.encode();
        prop_assert_eq!(MessageRecord::decode_expires(&bytes), Ok(message.expires));
        let is_apart = message.text == StoredText::Apart;
        prop_assert_eq!(MessageRecord::decode(&bytes), Ok(message));
        prop_assert!(!is_apart || MessageRecord::decode(&[&bytes[..], b"x"].concat()).is_err());
        prop_assert!(MessageRecord::decode(&[&[VERSION + 1], &bytes[1..]].concat()).is_err());
    }

    #[test]
    fn texts_round_trip(text in any::<String>()) {
        let text = MessageText::new(text).unwrap();
        prop_assert_eq!(decode_text(&encode_text(&text)), Ok(text));
    }

    #[test]
    fn decoding_survives_any_bytes(bytes in any::<Vec<u8>>()) {
        decode_all(&bytes);
        decode_all(&[&[VERSION], &bytes[..]].concat());
    }

    #[test]
    fn decoding_survives_changed_bytes(
        message in message(), record in record(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        for mut bytes in [message.encode(), record.encode()] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            decode_all(&bytes);
            decode_all(&bytes[..at]);
        }
    }
}

#[test]
fn texts_of_up_to_512_bytes_stay_in_the_message() {
    let of = |bytes: usize| StoredText::of(&MessageText::new("x".repeat(bytes)).unwrap());
    assert!(matches!(of(0), StoredText::Inline(_)) && matches!(of(512), StoredText::Inline(_)));
    assert_eq!(of(513), StoredText::Apart);
}
