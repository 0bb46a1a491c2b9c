use super::*;
use proptest::prelude::*;

fn catalog() -> CatalogRecord {
    CatalogRecord {
        id: TableId(7),
        name: TableName::parse("Orders").unwrap(),
        created: Timestamp::UNIX_EPOCH,
        settings: Default::default(),
    }
}

fn policies() -> AccessPolicies {
    let policy = |id: &str, start, expiry, permissions: Option<&str>| AccessPolicy {
        id: id.into(),
        start,
        expiry,
        permissions: permissions.map(Into::into),
    };
    let time = Some(Timestamp::UNIX_EPOCH);
    let policies = vec![
        policy("all", time, time, Some("raud")),
        policy("none", None, None, None),
        policy("é", None, time, Some("")),
    ];
    AccessPolicies::new(policies).unwrap()
}

fn properties() -> ServiceProperties {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    ServiceProperties {
        logging: Logging { read: true, write: false, delete: true, retention: Retention(Some(7)) },
        hour_metrics: Metrics {
            enabled: true,
            include_apis: Some(false),
            retention: Retention(Some(365)),
        },
        minute_metrics: Metrics::default(),
        cors: vec![
            CorsRule {
                allowed_origins: texts(&["http://a", "*"]),
                allowed_methods: texts(&["GET"]),
                allowed_headers: texts(&[]),
                exposed_headers: texts(&["x-ms-*", ""]),
                max_age_seconds: 200,
            },
            CorsRule::default(),
        ],
    }
}

#[track_caller]
fn check<T: PartialEq + std::fmt::Debug>(
    value: T,
    encode: impl Fn(&T) -> Vec<u8>,
    decode: impl Fn(&[u8]) -> Result<T, CorruptRecord>,
) {
    let mut bytes = encode(&value);
    assert_eq!(decode(&bytes).as_ref(), Ok(&value));
    let another_version = [&[VERSION + 1], &bytes[1..]].concat();
    assert!(decode(&another_version).is_err());
    assert!(decode(&bytes[..bytes.len() - 1]).ok().as_ref() != Some(&value));
    bytes.push(0);
    assert!(decode(&bytes).is_err());
}

#[test]
fn catalog_records_round_trip() {
    check(catalog(), CatalogRecord::encode, CatalogRecord::decode);
    assert_eq!(CatalogRecord::decode_facts(&catalog().encode()), Ok((TableId(7), None)));
}

#[test]
fn access_policies_round_trip() {
    check(policies(), encode_access_policies, decode_access_policies);
    check(AccessPolicies::default(), encode_access_policies, decode_access_policies);
}

#[test]
fn service_properties_round_trip() {
    check(properties(), encode_service_properties, decode_service_properties);
    check(ServiceProperties::default(), encode_service_properties, decode_service_properties);
}

#[test]
fn table_ids_and_marks_round_trip() {
    check(TableId(u64::MAX), |id| encode_next_table_id(*id), decode_next_table_id);
    for is_swept in [false, true] {
        let mark = ReclaimMark { dropped: Timestamp::MAX, is_swept };
        let encoded = mark.encode();
        assert_eq!(ReclaimMark::decode(&encoded), Ok(mark));
        let another_version = [&[3], &encoded[1..]].concat();
        assert!(ReclaimMark::decode(&another_version).is_err());
    }
}

fn decode_all(bytes: &[u8]) {
    let _ = CatalogRecord::decode(bytes);
    let _ = CatalogRecord::decode_facts(bytes);
    let _ = decode_access_policies(bytes);
    let _ = decode_service_properties(bytes);
    let _ = decode_next_table_id(bytes);
    let _ = ReclaimMark::decode(bytes);
}

proptest! {
    #[test]
    fn decoding_survives_any_bytes(bytes in any::<Vec<u8>>()) {
        decode_all(&bytes);
        decode_all(&[&[VERSION], &bytes[..]].concat());
    }

    #[test]
    fn decoding_survives_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let encoded = [
            catalog().encode(),
            encode_access_policies(&policies()),
            encode_service_properties(&properties()),
        ];
        for mut bytes in encoded {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            decode_all(&bytes);
            decode_all(&bytes[..at]);
        }
    }
}
