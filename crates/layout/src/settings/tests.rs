use super::*;
use crate::table::CatalogRecord;
use proptest::prelude::*;

fn settings() -> TableSettings {
    let index = |number, name: &str, on: &[&str], is_unique, state| TableIndex {
        number,
        definition: IndexDefinition::new(name, on, is_unique).unwrap(),
        state,
        since: Timestamp::UNIX_EPOCH,
        examined: 5,
        is_automatic: number == 3,
        is_cut_short: number == 2,
    };
    TableSettings {
        next_index: 4,
        indexes: vec![
            index(0, "byEmail", &["Email"], true, IndexState::Ready),
            index(2, "byAge", &["PartitionKey", "Age"], false, IndexState::Building),
            index(3, "byName", &["Name"], false, IndexState::Failed("why".into())),
        ],
        expiry: Some(TableExpiry { number: 1, expiry: Expiry::Property("ExpiresAt".into()) }),
        feeds: 2,
        feed: Some(Feed {
            images: Images::Both,
            retention: FeedRetention::from_hours(24).unwrap(),
        }),
    }
}

fn catalog(settings: TableSettings) -> CatalogRecord {
    CatalogRecord {
        id: TableId(7),
        name: TableName::parse("Orders").unwrap(),
        created: Timestamp::UNIX_EPOCH,
        settings,
    }
}

#[test]
fn settings_come_back() {
    let others = [
        settings(),
        TableSettings {
            expiry: Some(TableExpiry { number: 9, expiry: Expiry::Seconds(60) }),
            ..TableSettings::default()
        },
        TableSettings { next_index: 1, ..TableSettings::default() },
        TableSettings::default(),
    ];
    for settings in others {
        let record = catalog(settings.clone());
        assert_eq!(CatalogRecord::decode(&record.encode()), Ok(record.clone()));
        let facts = (TableId(7), Some(settings).filter(|settings| !settings.is_none()));
        assert_eq!(CatalogRecord::decode_facts(&record.encode()), Ok(facts));
    }
}

#[test]
fn a_table_without_settings_is_stored_as_before() {
    let bytes = catalog(TableSettings::default()).encode();
    assert_eq!(bytes.first(), Some(&1));
    assert_eq!(catalog(settings()).encode().first(), Some(&2));
}

fn build() -> BuildRecord {
    BuildRecord {
        account: AccountName::parse("acct").unwrap(),
        table: TableName::parse("Orders").unwrap(),
        from: b"from".to_vec(),
        done: 1,
        total: 2,
        count_from: Some(b"count".to_vec()),
        trouble: None,
    }
}

#[test]
fn progress_and_owners_come_back() {
    for count_from in [None, Some(Vec::new())] {
        let record = BuildRecord { count_from, ..build() };
        assert_eq!(BuildRecord::decode(&record.encode()), Ok(record.clone()));
        let troubled = BuildRecord { trouble: Some("busy".into()), ..record };
        assert_eq!(BuildRecord::decode(&troubled.encode()), Ok(troubled));
    }
    assert_eq!(decode_owner(&encode_owner(b"p\0r")), Ok(&b"p\0r"[..]));
    assert!(decode_owner(b"").is_err());
    assert_eq!(decode_used(&encode_used(Timestamp::MAX)), Ok(Timestamp::MAX));
    let table = TableName::parse("Orders").unwrap();
    let record = ExpiryRecord { account: AccountName::parse("acct").unwrap(), table };
    assert_eq!(ExpiryRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn a_cut_record_is_corrupt() {
    let bytes = catalog(settings()).encode();
    // The name at the end may be shorter.
    let name = "Orders".len();
    for end in 0..bytes.len() - name {
        assert!(CatalogRecord::decode(&bytes[..end]).is_err(), "{end}");
    }
    let bytes = build().encode();
    assert!((0..bytes.len()).all(|end| BuildRecord::decode(&bytes[..end]).is_err()));
}

proptest! {
    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = BuildRecord::decode(&bytes);
        let _ = CatalogRecord::decode(&[&[2], bytes.as_slice()].concat());
        let _ = decode_owner(&bytes);
        let _ = decode_used(&bytes);
    }
}
