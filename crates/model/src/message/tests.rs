use super::*;
use proptest::prelude::*;

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn seconds(seconds: u64) -> TimeToLive {
    TimeToLive::Seconds(NonZeroU64::new(seconds).unwrap())
}

/// The example of RFC 9562 for version 6: 2022-02-22T14:22:22-05:00.
#[test]
fn ids_are_guids_of_version_6() {
    let id = MessageId::new(time("2022-02-22T19:22:22Z"), 0xCF21_E7B7_829B_7A18);
    assert_eq!(id.to_string(), "1ec9414c-232a-6b00-b3c8-79ede0a6de86");
    assert_eq!(MessageId::parse(&id.to_string().to_uppercase()), Some(id));
    assert_eq!(MessageId::from_bytes(id.bytes()), id);
    assert_eq!(MessageId::parse("orders"), None);
}

proptest! {
    #[test]
    fn ids_order_by_insertion(
        a in Timestamp::EDM_MIN.ticks()..Timestamp::UNIX_EPOCH.plus_seconds(1 << 35).ticks(),
        ahead in 1_u64..1 << 40,
        random in any::<[u64; 2]>(),
    ) {
        let at = |ticks| Timestamp::from_ticks(ticks).unwrap();
        let (first, second) = (MessageId::new(at(a), random[0]), MessageId::new(at(a + ahead), random[1]));
        prop_assert!(first < second);
        prop_assert!(first.to_string() < second.to_string());
    }
}

/// TQ-44: 64 KiB counts the bytes of the text.
#[test]
fn a_text_has_at_most_64_kib_of_utf8() {
    assert!(MessageText::new("a".repeat(65_536)).is_ok());
    let too_large = Err(MessageTooLarge { bytes_max: 65_536 });
    assert_eq!(MessageText::new("a".repeat(65_537)), too_large);
    assert_eq!(MessageText::new("é".repeat(32_769)), too_large);
    assert_eq!(MessageText::within(2, "abc"), Err(MessageTooLarge { bytes_max: 2 }));
    assert_eq!(MessageText::within(usize::MAX, "a".repeat(65_537)), too_large);
    assert_eq!(MessageText::new(" ").unwrap().as_str(), " ");
}

/// TQ-36: Put and Update from 0, Get from 1.
#[test]
fn visibility_timeouts_have_ranges_by_operation() {
    for (seconds, of_put, of_get) in
        [(-1, false, false), (0, true, false), (1, true, true), (604_800, true, true)]
    {
        assert_eq!(VisibilityTimeout::of_put_or_update(seconds).is_some(), of_put, "{seconds}");
        assert_eq!(VisibilityTimeout::of_get(seconds).is_some(), of_get, "{seconds}");
    }
    assert_eq!(VisibilityTimeout::of_put_or_update(604_801), None);
    assert_eq!(VisibilityTimeout::of_get(i64::MAX), None);
}

#[test]
fn time_to_live_is_positive_or_never() {
    assert_eq!(TimeToLive::parse(-1), Some(TimeToLive::Never));
    assert_eq!(TimeToLive::parse(1), Some(seconds(1)));
    assert_eq!(TimeToLive::parse(0), None);
    assert_eq!(TimeToLive::parse(-2), None);
    assert_eq!(TimeToLive::default(), seconds(604_800));
}

/// TQ-41: a message that never expires shows the last second of the year 9999.
#[test]
fn an_expiry_past_the_year_9999_reads_as_its_end() {
    let now = time("2026-11-16T00:00:00Z");
    for forever in [TimeToLive::Never, TimeToLive::parse(i64::MAX).unwrap()] {
        assert_eq!(forever.end_after(now).rfc1123(), "Fri, 31 Dec 9999 23:59:59 GMT");
    }
    assert_eq!(seconds(60).end_after(now), time("2026-11-16T00:01:00Z"));
}

#[test]
fn visibility_must_be_below_the_time_to_live() {
    let put = |visibility, time_to_live| {
        PutTimes::new(VisibilityTimeout::of_put_or_update(visibility).unwrap(), time_to_live)
    };
    assert!(put(29, seconds(30)).is_ok());
    assert_eq!(put(30, seconds(30)), Err(VisibilityNotBelowTimeToLive));
    assert!(put(604_800, TimeToLive::Never).is_ok());
}
