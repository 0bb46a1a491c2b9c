use super::*;
use std::fmt::Debug;

#[track_caller]
fn round<T: TableValue + PartialEq + Debug>(values: impl IntoIterator<Item = T>) {
    for value in values {
        let stored = value.to_value().unwrap();
        assert_eq!(stored.as_ref().edm_type(), T::EDM_TYPE, "{value:?}");
        assert_eq!(T::from_value(&stored), Ok(value));
    }
}

#[test]
fn every_type_reads_back_at_its_ends() {
    // CS-3, the types of C-5.2.
    round([false, true]);
    round([i8::MIN, 0, i8::MAX]);
    round([0, u8::MAX]);
    round([i16::MIN, 0, i16::MAX]);
    round([0, u16::MAX]);
    round([i32::MIN, 0, i32::MAX]);
    round([0, u32::MAX]);
    round([i64::MIN, 0, i64::MAX]);
    round([0, i64::MAX as u64]);
    round([isize::MIN, isize::MAX]);
    round([f64::MIN, 0.0, f64::MIN_POSITIVE, f64::MAX, f64::INFINITY]);
    round([f32::MIN, 0.0, f32::MAX, f32::NEG_INFINITY]);
    round(['a', 'é', '🦀']);
    round([String::new(), "a'b".to_owned()]);
    round([Arc::<str>::from("x")]);
    round([vec![], vec![0_u8, 255]]);
    round([bytes::Bytes::from_static(b"ab")]);
    round([[1_u8, 2, 3]]);
    round([Guid([7; 16])]);
    round([Timestamp::EDM_MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX]);
    round([Duration::ZERO, Duration::new(1, 500), Duration::from_secs(900_000_000_000)]);
    let second = Duration::from_secs(1);
    round([
        SystemTime::UNIX_EPOCH,
        SystemTime::UNIX_EPOCH + second,
        SystemTime::UNIX_EPOCH - second,
    ]);
    #[cfg(feature = "uuid")]
    round([uuid::Uuid::from_bytes([9; 16])]);
    assert!(f64::from_value(&f64::NAN.to_value().unwrap()).unwrap().is_nan());
    assert!(f32::from_value(&f32::NAN.to_value().unwrap()).unwrap().is_nan());
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_sent() {
    assert!((i64::MAX as u64 + 1).to_value().is_err());
    assert!(Duration::MAX.to_value().is_err());
    assert_eq!("a\0".to_owned().to_value(), Err(EncodeError::Nul));
    let year_1600 = SystemTime::UNIX_EPOCH - Duration::from_secs(370 * 365 * 86_400);
    assert_eq!(year_1600.to_value(), Err(EncodeError::TimeOutOfRange));
}

#[test]
fn times_are_cut_towards_the_past() {
    let nanos = |n| Duration::from_nanos(n);
    let epoch = SystemTime::UNIX_EPOCH;
    let cut = |time: SystemTime| SystemTime::from_value(&time.to_value().unwrap()).unwrap();
    assert_eq!(cut(epoch + nanos(199)), epoch + nanos(100));
    assert_eq!(cut(epoch - nanos(101)), epoch - nanos(200));
}

#[test]
fn widening_is_allowed_and_narrowing_is_checked() {
    // C-5.11.
    assert_eq!(i64::from_value(&Value::Int32(7)), Ok(7));
    assert_eq!(f64::from_value(&Value::Int32(7)), Ok(7.0));
    assert_eq!(f64::from_value(&Value::Int64(1 << 53)), Ok(9_007_199_254_740_992.0));
    assert_eq!(u8::from_value(&Value::Int64(200)), Ok(200));
    assert_eq!(i32::from_value(&Value::Int64(200)), Ok(200));
    for result in [
        i32::from_value(&Value::Int64(1 << 31)).map(|_| ()),
        f64::from_value(&Value::Int64((1 << 53) + 1)).map(|_| ()),
        f32::from_value(&Value::Double(0.1)).map(|_| ()),
        u8::from_value(&Value::Int32(-1)).map(|_| ()),
        char::from_value(&"ab".into_value()).map(|_| ()),
        <[u8; 2]>::from_value(&vec![1].into_value()).map(|_| ()),
        Guid::from_value(&"c9da6455-213d-42c9-9a79-3e9149a57833".into_value()).map(|_| ()),
        String::from_value(&Value::Int32(1)).map(|_| ()),
        bool::from_value(&"true".into_value()).map(|_| ()),
    ] {
        assert!(result.is_err());
    }
}

#[test]
fn errors_say_what_was_expected_and_found() {
    let reason = String::from_value(&Value::Int32(1)).unwrap_err();
    let error = DecodeError { property: "Age".into(), reason, key: None };
    assert_eq!(error.to_string(), "property Age: expected Edm.String, found Edm.Int32");
}
