//! Values and types: CS-3, CS-6.

use crate::peer::Peer;
use bytes::Bytes;
use lazuli_client::{ETag, EdmType, Entity, ErrorKind, Guid, TableValue, Timestamp};
use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

crate::scenarios! {
    cs_03_values_of_every_type_come_back
    cs_03_a_double_without_a_fraction_stays_a_double
    cs_06_a_merge_changes_what_it_names
}

/// Values of one Rust type: stored as `edm`, and equal when read back.
fn check<T>(entity: &Entity, name: &str, edm: EdmType, values: &[T])
where
    T: TableValue + PartialEq + Debug,
{
    for (number, expected) in values.iter().enumerate() {
        let name = format!("{name}{number}");
        assert_eq!(entity.value(&name).map(|value| value.as_ref().edm_type()), Some(edm), "{name}");
        assert_eq!(entity.get::<T>(&name).as_ref(), Ok(expected), "{name}");
    }
}

fn put<T: TableValue>(entity: &mut Entity, name: &str, values: &[T]) {
    for (number, value) in values.iter().enumerate() {
        entity.try_set(format!("{name}{number}"), value).unwrap();
    }
}

/// The rows of the table in 5.2, one after the other, at the limits and at zero.
macro_rules! rows {
    ($($name:literal $edm:ident $type:ty: [$($value:expr),* $(,)?];)*) => {
        fn fill(entity: &mut Entity) {
            $( put::<$type>(entity, $name, &[$($value),*]); )*
        }
        fn check_all(entity: &Entity) {
            $( check::<$type>(entity, $name, EdmType::$edm, &[$($value),*]); )*
        }
    };
}

rows! {
    "Bool" Boolean bool: [false, true];
    "I8x" Int32 i8: [i8::MIN, 0, i8::MAX];
    "U8x" Int32 u8: [0, u8::MAX];
    "I16x" Int32 i16: [i16::MIN, 0, i16::MAX];
    "U16x" Int32 u16: [0, u16::MAX];
    "I32x" Int32 i32: [i32::MIN, 0, i32::MAX];
    "U32x" Int64 u32: [0, u32::MAX];
    "I64x" Int64 i64: [i64::MIN, 0, i64::MAX];
    "U64x" Int64 u64: [0, i64::MAX as u64];
    "F32x" Double f32: [0.1, -0.5, f32::INFINITY];
    "F64x" Double f64: [f64::MIN, 0.1, f64::MAX, f64::NEG_INFINITY];
    "Char" String char: ['a', '\u{1f680}'];
    "Text" String String: [String::new(), "it's \u{e9}".to_owned(), "x".repeat(32_768)];
    "Bytes" Binary Vec<u8>: [Vec::new(), (0..=255).collect(), vec![7; 65_536]];
    "Four" Binary [u8; 4]: [[0; 4], [1, 2, 3, 255]];
    "Guid" Guid Guid: [Guid([0; 16]), Guid([255; 16])];
    "Usize" Int64 usize: [0, i64::MAX as usize];
    "Isize" Int64 isize: [isize::MIN, 0, isize::MAX];
    "BoxText" String Box<str>: ["".into(), "it's".into()];
    "ArcText" String Arc<str>: ["".into(), "it's".into()];
    "CowText" String Cow<'static, str>: ["".into(), "it's".into()];
    "Buffer" Binary Bytes: [Bytes::new(), Bytes::from_static(&[0, 255])];
    "Uuid" Guid uuid::Uuid: [uuid::Uuid::nil(), uuid::Uuid::max()];
    "Span" Int64 Duration: [Duration::ZERO, Duration::from_millis(1500)];
    "System" DateTime SystemTime: [UNIX_EPOCH, UNIX_EPOCH + Duration::from_secs(1 << 32)];
    "Etag" String ETag: [ETag::any()];
    "Decimal" String rust_decimal::Decimal: [rust_decimal::Decimal::MIN, rust_decimal::Decimal::MAX];
    "Chrono" DateTime chrono::DateTime<chrono::Utc>: [chrono::DateTime::UNIX_EPOCH];
    "ChronoDay" String chrono::NaiveDate: [chrono::NaiveDate::from_ymd_opt(2014, 8, 22).unwrap()];
    "TimeTime" DateTime time::OffsetDateTime: [time::OffsetDateTime::UNIX_EPOCH];
    "TimeDay" String time::Date: [time::OffsetDateTime::UNIX_EPOCH.date()];
    "Jiff" DateTime jiff::Timestamp: [jiff::Timestamp::UNIX_EPOCH];
    "JiffDay" String jiff::civil::Date: [jiff::civil::date(2014, 8, 22)];
    "Time" DateTime Timestamp: [Timestamp::EDM_MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX];
}

async fn cs_03_values_of_every_type_come_back(peer: Peer) {
    let table = peer.table("Types").await;
    let mut entity = Entity::new("p", "r");
    fill(&mut entity);
    table.insert(&entity).await.unwrap();
    let read = table.get(("p", "r")).required().await.unwrap();
    check_all(&read);
    assert_eq!(read.len(), entity.len());
    assert!(Entity::new("p", "r").try_set("U64", &(i64::MAX as u64 + 1)).is_err());
    let nan = Entity::new("p", "nan").with("NaN", f64::NAN);
    table.insert(&nan).await.unwrap();
    let read = table.get(("p", "nan")).required().await.unwrap();
    assert!(read.get::<f64>("NaN").unwrap().is_nan());
}

async fn cs_03_a_double_without_a_fraction_stays_a_double(peer: Peer) {
    let table = peer.table("Doubles").await;
    let values = [0.0, -1.0, 3.0, f64::from(f32::MIN), 2_f64.powi(53)];
    let mut entity = Entity::new("p", "r");
    put(&mut entity, "F64x", &values);
    table.insert(&entity).await.unwrap();
    let read = table.get(("p", "r")).required().await.unwrap();
    check(&read, "F64x", EdmType::Double, &values);
}

async fn cs_06_a_merge_changes_what_it_names(peer: Peer) {
    let table = peer.table_1().await;
    let faulty = peer.faulty();
    let table = faulty.table(&table);
    let department = table.get(("Marketing", "Department")).required().await.unwrap();
    let count: i32 = department.get("EmployeeCount").unwrap();
    let merge = table.merge(("Marketing", "Department")).if_unchanged(&department);
    merge.set("EmployeeCount", count + 1).await.unwrap();
    let after = table.get(("Marketing", "Department")).required().await.unwrap();
    assert_eq!(after.get::<i32>("EmployeeCount"), Ok(154));
    assert_eq!(after.str("DepartmentName"), Ok("Marketing"));
    let stale = table.merge(("Marketing", "Department")).if_unchanged(&department);
    assert!(stale.set("EmployeeCount", 0).await.unwrap_err().is_precondition_failed());

    // A row without the property is an error before any write.
    faulty.proxy.take();
    let update = table.update_with(("Marketing", "00001"), |entity: &mut Entity| {
        let count: i32 = entity.get("EmployeeCount")?;
        entity.set("EmployeeCount", count + 1);
        Ok(lazuli_client::Change::Write)
    });
    let error = update.await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Refused);
    assert!(format!("{error:#}").contains("EmployeeCount"), "{error:#}");
    assert_eq!(faulty.proxy.methods(), ["GET"]);
}
