use super::*;
use lazuli_model::AccessPolicy;
use proptest::prelude::*;
use std::net::IpAddr;

const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const ACCOUNT: &str = "devstoreaccount1";
const TABLE: TableSas<'_> = TableSas {
    version: "2019-02-02",
    table: "Orders",
    start: "",
    expiry: "2030-01-01T00:00:00Z",
    permissions: "r",
    policy: "",
    addresses: "",
    protocol: "",
    start_partition_key: None,
    start_row_key: None,
    end_partition_key: None,
    end_row_key: None,
    signature: "",
};
const WHOLE_ACCOUNT: AccountSas<'_> = AccountSas {
    version: "2019-02-02",
    services: "t",
    resource_types: "sco",
    permissions: "rwdlacu",
    start: "",
    expiry: "2030-01-01T00:00:00Z",
    addresses: "",
    protocol: "https",
    encryption_scope: "",
    signature: "",
};

fn key() -> SigningKey {
    SigningKey::from_base64(KEY).unwrap()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn caller() -> Caller {
    let address = "192.168.1.7".parse().unwrap();
    Caller { now: time("2026-11-15T00:00:00Z"), address, https: true }
}

#[track_caller]
fn check_table(sas: TableSas<'_>, text: &str, signature: &str) {
    assert_eq!(sas.string_to_sign(ACCOUNT).unwrap(), text);
    let signed = TableSas { signature, ..sas };
    assert_eq!(signed.verify(ACCOUNT, &[key()]), Ok(()));
    assert_eq!(signed.verify("other", &[key()]), Err(SasError::Signature));
}

#[track_caller]
fn check_account(sas: AccountSas<'_>, text: &str, signature: &str) {
    assert_eq!(sas.string_to_sign(ACCOUNT).unwrap(), text);
    let signed = AccountSas { signature, ..sas };
    assert_eq!(signed.verify(ACCOUNT, &[key()]), Ok(()));
}

#[test]
fn av_4_table_sas_without_ranges() {
    check_table(
        TABLE,
        "r\n\n2030-01-01T00:00:00Z\n/table/devstoreaccount1/orders\n\n\n\n2019-02-02\n\n\n\n",
        "J3O14Ug0GfliJhgJBEC6UvLVxz/aab4xrvXdZOyjH60=",
    );
}

#[test]
fn av_5_table_sas_with_ranges() {
    check_table(
        TableSas {
            permissions: "raud",
            start: "2029-01-01T00:00:00Z",
            protocol: "https",
            start_partition_key: Some("a"),
            start_row_key: Some("1"),
            end_partition_key: Some("b"),
            end_row_key: Some("2"),
            ..TABLE
        },
        "raud\n2029-01-01T00:00:00Z\n2030-01-01T00:00:00Z\n/table/devstoreaccount1/orders\n\n\n\
         https\n2019-02-02\na\n1\nb\n2",
        "x7d+QrWKTcjcQyK10r13QTv2gUFDgNTXWFXPmTF13h0=",
    );
}

#[test]
fn av_6_table_sas_of_an_old_version_with_a_policy() {
    check_table(
        TableSas { version: "2014-02-14", permissions: "", expiry: "", policy: "pol", ..TABLE },
        "\n\n\n/devstoreaccount1/orders\npol\n2014-02-14\n\n\n\n",
        "HhKVPQ1YLvTOLztMSePDyttteA+4Lf8hvEnCvJtsPs4=",
    );
}

#[test]
fn av_7_account_sas() {
    check_account(
        WHOLE_ACCOUNT,
        "devstoreaccount1\nrwdlacu\nt\nsco\n\n2030-01-01T00:00:00Z\n\nhttps\n2019-02-02\n",
        "270b9KlqYpBUfIOx0mjxh47ZJsBg7ehSuCwaUcwt6XU=",
    );
}

#[test]
fn av_8_account_sas_with_a_line_for_the_encryption_scope() {
    check_account(
        AccountSas { version: "2020-12-06", ..WHOLE_ACCOUNT },
        "devstoreaccount1\nrwdlacu\nt\nsco\n\n2030-01-01T00:00:00Z\n\nhttps\n2020-12-06\n\n",
        "Bb3i7BtYTLcn2F3MnzyNSTPnKpo+PYRcy14DA7iYzsY=",
    );
}

#[test]
fn tokens_parse_back_and_verify() {
    let sas = TableSas { start_partition_key: Some(""), policy: "p+/ é", ..TABLE };
    let token = sas.token(ACCOUNT, &key()).unwrap();
    let query = Query::parse(&token).unwrap();
    let Some(TableToken::Service(parsed)) = TableToken::parse(&query).unwrap() else {
        panic!("{token}")
    };
    assert_eq!(parsed.verify(ACCOUNT, &[key()]), Ok(()));
    assert_eq!(parsed.start_partition_key, Some(""));
    assert_eq!((parsed.table, parsed.policy), ("Orders", "p+/ é"));

    let token = WHOLE_ACCOUNT.token(ACCOUNT, &key()).unwrap();
    let query = Query::parse(&token).unwrap();
    let Some(TableToken::Account(parsed)) = TableToken::parse(&query).unwrap() else {
        panic!("{token}")
    };
    assert_eq!(parsed.verify(ACCOUNT, &[key()]), Ok(()));
}

#[track_caller]
fn check_parse(text: &str, expect: Option<SasError>) {
    let query = Query::parse(text).unwrap();
    assert_eq!(TableToken::parse(&query).err(), expect, "{text}");
}

/// The first three are queries recorded by the Python suites' tests of shared access signatures.
#[test]
fn kinds_are_told_apart_by_their_parameters() {
    check_parse("se=end&sp=a&sv=2019-02-02&tn=t&spk=test&srk=test1&sig=x", None);
    check_parse("$filter=PartitionKey%20eq%20%27p%27&sv=2019-02-02&si=testid&tn=t&sig=x", None);
    check_parse("st=start&se=end&sp=r&sv=2019-02-02&ss=t&srt=o&sig=x", None);
    check_parse("$top=1&sv=2019-02-02", None);
    check_parse("tn=t&sig=x", Some(SasError::Missing("sv")));
    check_parse("sv=2019-02-02&sig=x", Some(SasError::Missing("tn")));
    check_parse("sv=2019-02-02&tn=t&sig=", Some(SasError::Missing("sig")));
    check_parse("sv=2019-02-02&ss=t&sp=r&se=e&sig=x", Some(SasError::Missing("srt")));
    check_parse("sv=2019-02-02&ss=t&srt=o&sp=r&se=e&si=p&sig=x", Some(SasError::Malformed("si")));
    check_parse("sv=2011-08-18&tn=t&sig=x", Some(SasError::Version));
    check_parse("sv=2015-02-21&ss=t&srt=o&sp=r&se=e&sig=x", Some(SasError::Version));
    check_parse("sv=nonsense&tn=t&sig=x", Some(SasError::Version));
}

#[test]
fn user_delegation_is_recognised() {
    let query = Query::parse("sv=2025-07-05&tn=T&sp=r&se=e&skoid=o&sktid=t&spk=a&sig=x").unwrap();
    let Some(TableToken::UserDelegation(sas)) = TableToken::parse(&query).unwrap() else {
        panic!()
    };
    let text = sas.string_to_sign("acct1").unwrap();
    assert_eq!(text, "r\n\ne\n/table/acct1/t\no\nt\n\n\n\n\n\n\n\n\n2025-07-05\na\n\n\n");
}

const DELEGATED: UserDelegationSas<'_> = UserDelegationSas {
    table: TableSas { version: "2025-07-05", permissions: "raud", ..TABLE },
    key: UserDelegationKey {
        object_id: "oid",
        tenant_id: "tid",
        start: "2026-11-14T00:00:00Z",
        expiry: "2026-11-16T00:00:00.5Z",
        service: "t",
        version: "2025-07-05",
    },
    delegate: [""; 2],
};

#[test]
fn a_user_delegation_token_is_read_as_it_was_signed() {
    let token = DELEGATED.token(ACCOUNT, &key()).unwrap();
    let query = Query::parse(&token).unwrap();
    let Some(TableToken::UserDelegation(sas)) = TableToken::parse(&query).unwrap() else {
        panic!("{token}")
    };
    assert_eq!(sas.verify(ACCOUNT, &key()), Ok(()));
    assert_eq!(sas.verify("other", &key()), Err(SasError::Signature));
    let grant = sas.grant(&caller()).unwrap().within(Permissions::READ | Permissions::LIST);
    assert_eq!(grant.permissions(), Permissions::READ);
    let query = Query::parse("sv=2015-02-21&tn=T&sp=r&se=e&skoid=o&sig=x").unwrap();
    assert_eq!(TableToken::parse(&query).err(), Some(SasError::Version));
    let query = Query::parse("sv=2025-07-05&tn=T&si=p&skoid=o&sig=x").unwrap();
    assert_eq!(TableToken::parse(&query).err(), Some(SasError::Malformed("si")));
}

#[test]
fn a_user_delegation_token_lives_no_longer_than_its_key() {
    let grant = |sas: UserDelegationSas<'_>, now| {
        sas.grant(&Caller { now: time(now), ..caller() }).map(drop)
    };
    let (start, expiry) = (time("2026-11-14T00:00:00Z"), time("2026-11-16T00:00:00Z"));
    assert_eq!(grant(DELEGATED, "2026-11-14T00:00:00Z"), Ok(()));
    assert_eq!(grant(DELEGATED, "2026-11-13T23:59:59Z"), Err(SasError::NotStarted(start)));
    assert_eq!(grant(DELEGATED, "2026-11-15T23:59:59Z"), Ok(()));
    assert_eq!(grant(DELEGATED, "2026-11-16T00:00:00Z"), Err(SasError::Expired(expiry)));
    let now = "2026-11-15T00:00:00Z";
    let with_key = |key| UserDelegationSas { key, ..DELEGATED };
    let blob = with_key(UserDelegationKey { service: "b", ..DELEGATED.key });
    assert_eq!(grant(blob, now), Err(SasError::Service));
    let endless = with_key(UserDelegationKey { expiry: "", ..DELEGATED.key });
    assert_eq!(grant(endless, now), Err(SasError::Missing("ske")));
    let bound = UserDelegationSas { delegate: ["", "oid2"], ..DELEGATED };
    assert_eq!(grant(bound, now), Err(SasError::Malformed("sduoid")));
    let ended = TableSas { expiry: "2026-11-01", ..DELEGATED.table };
    assert!(grant(UserDelegationSas { table: ended, ..DELEGATED }, now).is_err());
}

#[test]
fn sets_name_their_letters() {
    assert_eq!(Permissions::parse("duar").letters(), "raud");
    assert_eq!(ResourceTypes::parse("os").letters(), "so");
    assert_eq!(Permissions::default().letters(), "");
}

#[track_caller]
fn check_grant(sas: TableSas<'_>, caller: Caller, expect: Option<SasError>) {
    assert_eq!(sas.grant(None, &caller).err(), expect);
}

#[test]
fn a_token_is_valid_from_its_start_until_its_expiry() {
    let sas = TableSas { start: "2026-01-01", expiry: "2026-02-01T00:00Z", ..TABLE };
    let at = |text| Caller { now: time(text), ..caller() };
    check_grant(sas, at("2026-01-01T00:00:00Z"), None);
    check_grant(sas, at("2026-01-31T23:59:59.9999999Z"), None);
    let (start, expiry) = (time("2026-01-01T00:00:00Z"), time("2026-02-01T00:00:00Z"));
    check_grant(sas, at("2025-12-31T23:59:59Z"), Some(SasError::NotStarted(start)));
    check_grant(sas, at("2026-02-01T00:00:00Z"), Some(SasError::Expired(expiry)));
    check_grant(TableSas { expiry: "end", ..TABLE }, caller(), Some(SasError::Malformed("se")));
}

#[test]
fn a_token_may_demand_https() {
    let http = Caller { https: false, ..caller() };
    check_grant(TableSas { protocol: "https", ..TABLE }, caller(), None);
    check_grant(TableSas { protocol: "https", ..TABLE }, http, Some(SasError::Protocol));
    check_grant(TableSas { protocol: "https,http", ..TABLE }, http, None);
    check_grant(TableSas { protocol: "http", ..TABLE }, caller(), Some(SasError::Malformed("spr")));
}

#[test]
fn a_token_may_demand_addresses() {
    let check = |addresses, address: &str, expect| {
        let caller = Caller { address: address.parse::<IpAddr>().unwrap(), ..caller() };
        check_grant(TableSas { addresses, ..TABLE }, caller, expect);
    };
    let refused = Some(SasError::SourceIp);
    check("192.168.1.7", "192.168.1.7", None);
    check("192.168.1.7", "::ffff:192.168.1.7", None);
    check("192.168.1.7", "192.168.1.8", refused);
    check("192.168.1.5-192.168.1.10", "192.168.1.10", None);
    check("192.168.1.5-192.168.1.10", "192.168.1.4", refused);
    check("192.168.1.5-192.168.1.10", "::1", refused);
    check("fe80::1-fe80::9", "fe80::5", None);
    check("fe80::1-192.168.1.1", "fe80::5", Some(SasError::Malformed("sip")));
    check("everywhere", "::1", Some(SasError::Malformed("sip")));
}

/// A-4.15a.
#[test]
fn a_parameter_given_twice_is_refused() {
    let query =
        |text: &str| TableToken::parse(&Query::parse(text).unwrap()).map(|_| ()).unwrap_err();
    let token = "sv=2019-02-02&tn=t&sp=r&se=2030-01-01&sig=AAAA";
    for (repeated, name) in [("sig=BBBB", "sig"), ("sp=raud", "sp"), ("%73e=2040-01-01", "se")] {
        let text = format!("{token}&{repeated}");
        assert_eq!(query(&text), SasError::Repeated(name));
        assert_eq!(query(&text).code(), ErrorCode::AuthenticationFailed);
    }
}

#[test]
fn a_line_feed_within_a_field_is_refused() {
    let sas = TableSas { policy: "a\nb", ..TABLE };
    assert!(matches!(sas.string_to_sign(ACCOUNT), Err(SasError::Malformed(_))));
}

/// They are not signed in such a token, so they cannot count.
#[test]
fn old_tokens_know_neither_protocol_nor_addresses() {
    let sas = TableSas { version: "2014-02-14", protocol: "https", addresses: "x", ..TABLE };
    check_grant(sas, Caller { https: false, ..caller() }, None);
}

fn policy() -> AccessPolicy {
    AccessPolicy {
        id: "pol".to_owned(),
        start: None,
        expiry: Some(time("2027-01-01T00:00:00Z")),
        permissions: Some("ar".to_owned()),
    }
}

#[track_caller]
fn check_policy(sas: TableSas<'_>, policy: Option<&AccessPolicy>, expect: Result<(), SasError>) {
    let grant = sas.grant(policy, &caller());
    let permits = grant.and_then(|grant| grant.check_permissions(Permissions::READ));
    assert_eq!(permits, expect);
}

#[test]
fn a_stored_policy_completes_the_token() {
    let sas = TableSas { policy: "pol", permissions: "", expiry: "", ..TABLE };
    check_policy(sas, Some(&policy()), Ok(()));
    let without_expiry = AccessPolicy { expiry: None, ..policy() };
    check_policy(sas, Some(&without_expiry), Err(SasError::Missing("se")));
    check_policy(TableSas { expiry: "2027-01-01", ..sas }, Some(&without_expiry), Ok(()));
    let without_letters = AccessPolicy { permissions: None, ..policy() };
    check_policy(sas, Some(&without_letters), Err(SasError::Missing("sp")));
}

#[test]
fn no_field_is_taken_from_both_token_and_policy() {
    let sas = TableSas { policy: "pol", permissions: "", expiry: "", ..TABLE };
    let twice = |name| Err(SasError::GivenTwice(name));
    check_policy(TableSas { expiry: "2028-01-01", ..sas }, Some(&policy()), twice("se"));
    check_policy(TableSas { permissions: "r", ..sas }, Some(&policy()), twice("sp"));
    let with_start = AccessPolicy { start: Some(time("2020-01-01T00:00:00Z")), ..policy() };
    check_policy(TableSas { start: "2020-01-01", ..sas }, Some(&with_start), twice("st"));
}

#[test]
fn an_unknown_policy_authorises_nothing() {
    let sas = TableSas { policy: "pol", ..TABLE };
    check_policy(sas, None, Err(SasError::UnknownPolicy));
    let other = AccessPolicy { id: "other".to_owned(), ..policy() };
    check_policy(sas, Some(&other), Err(SasError::UnknownPolicy));
    // A policy that the token does not name does not apply.
    check_policy(TABLE, Some(&policy()), Ok(()));
}

#[test]
fn permissions_of_a_table_token_are_ordered() {
    for letters in ["r", "raud", "au", "d"] {
        check_grant(TableSas { permissions: letters, ..TABLE }, caller(), None);
    }
    for permissions in ["ar", "rr", "rw", "R"] {
        let expect = Some(SasError::Malformed("sp"));
        check_grant(TableSas { permissions, ..TABLE }, caller(), expect);
    }
    let grant = TableSas { permissions: "au", ..TABLE }.grant(None, &caller()).unwrap();
    assert_eq!(grant.check_permissions(Permissions::ADD | Permissions::UPDATE), Ok(()));
    let with_delete = Permissions::ADD | Permissions::DELETE;
    assert_eq!(grant.check_permissions(with_delete), Err(SasError::Permission));
}

#[test]
fn tr_92_a_token_is_for_its_table_in_any_case() {
    let grant = TABLE.grant(None, &caller()).unwrap();
    assert_eq!(grant.check_table("oRDERS"), Ok(()));
    assert_eq!(grant.check_table("Orders2"), Err(SasError::Resource));
}

#[track_caller]
fn check_range(range: [Option<&str>; 4], inside: &[(&str, &str)], outside: &[(&str, &str)]) {
    let [start_partition_key, start_row_key, end_partition_key, end_row_key] = range;
    let sas =
        TableSas { start_partition_key, start_row_key, end_partition_key, end_row_key, ..TABLE };
    let grant = sas.grant(None, &caller()).unwrap();
    for (partition, row) in inside {
        assert_eq!(grant.check_key(partition, row), Ok(()), "{partition} {row}");
    }
    for (partition, row) in outside {
        assert_eq!(grant.check_key(partition, row), Err(SasError::KeyRange), "{partition} {row}");
    }
}

#[test]
fn ranges_of_keys_include_their_ends() {
    check_range(
        [Some("b"), Some("2"), Some("d"), Some("4")],
        &[("b", "2"), ("b", "9"), ("c", ""), ("d", "4")],
        &[("b", "1"), ("a", "9"), ("d", "41"), ("e", "")],
    );
    check_range(
        [Some("b"), None, Some("b"), None],
        &[("b", ""), ("b", "z")],
        &[("a", "z"), ("c", "")],
    );
    check_range([Some("b"), None, None, None], &[("z", "")], &[("a", "")]);
    check_range([None; 4], &[("", ""), ("z", "z")], &[]);
    // Order is that of UTF-16: a supplementary character stands before U+E000.
    check_range([Some("\u{E000}"), None, None, None], &[("\u{E000}", "")], &[("🦀", "")]);
}

#[test]
fn a_row_key_needs_its_partition_key() {
    let sas = TableSas { start_row_key: Some("a"), ..TABLE };
    check_grant(sas, caller(), Some(SasError::Missing("spk")));
    let sas = TableSas { end_row_key: Some("a"), ..TABLE };
    check_grant(sas, caller(), Some(SasError::Missing("epk")));
}

#[track_caller]
fn check_account_grant(
    sas: AccountSas<'_>,
    types: ResourceTypes,
    any_of: &[Permissions],
    expect: Result<(), SasError>,
) {
    let grant = sas.grant(&caller(), 't');
    assert_eq!(grant.and_then(|grant| grant.check(types, any_of)), expect);
}

#[test]
fn account_tokens_check_service_then_type_then_permission() {
    let (object, container) = (ResourceTypes::OBJECT, ResourceTypes::CONTAINER);
    let create = [Permissions::CREATE, Permissions::WRITE];
    let sas = AccountSas { resource_types: "c", permissions: "wx", ..WHOLE_ACCOUNT };
    check_account_grant(sas, container, &create, Ok(()));
    check_account_grant(sas, object | container, &create, Ok(()));
    check_account_grant(sas, container, &[Permissions::LIST], Err(SasError::Permission));
    check_account_grant(sas, object, &[Permissions::LIST], Err(SasError::ResourceType));
    let blobs = AccountSas { services: "bq", ..sas };
    check_account_grant(blobs, object, &create, Err(SasError::Service));
    let upsert = [Permissions::ADD | Permissions::UPDATE];
    check_account_grant(WHOLE_ACCOUNT, object, &upsert, Ok(()));
    let update_only = AccountSas { permissions: "u", ..WHOLE_ACCOUNT };
    check_account_grant(update_only, object, &upsert, Err(SasError::Permission));
}

#[test]
fn the_window_is_checked_before_the_rest() {
    let sas = AccountSas { services: "b", expiry: "2020-01-01", ..WHOLE_ACCOUNT };
    let http = Caller { https: false, ..caller() };
    let expired = SasError::Expired(time("2020-01-01T00:00:00Z"));
    assert_eq!(sas.grant(&http, 't'), Err(expired));
    let sas = AccountSas { services: "b", ..WHOLE_ACCOUNT };
    assert_eq!(sas.grant(&http, 't'), Err(SasError::Protocol));
}

#[test]
fn failures_have_the_codes_of_the_service() {
    assert_eq!(SasError::Signature.code(), ErrorCode::AuthenticationFailed);
    assert_eq!(SasError::KeyRange.code(), ErrorCode::AuthorizationFailure);
    assert_eq!(SasError::Permission.code(), ErrorCode::AuthorizationPermissionMismatch);
}

proptest! {
    #[test]
    fn parsing_never_panics(values in prop::collection::vec(any::<String>(), 12)) {
        let names = ["sv", "tn", "st", "se", "sp", "si", "sip", "spr", "spk", "srk", "sig", "ss"];
        let mut text = Vec::new();
        for (name, value) in names.iter().zip(&values) {
            text.extend_from_slice(format!("&{name}=").as_bytes());
            percent_encode(&mut text, value);
        }
        let text = String::from_utf8(text).unwrap();
        let _ = TableToken::parse(&Query::parse(&text).unwrap());
        let query = text.replace("&ss=", "&x=");
        let _ = TableToken::parse(&Query::parse(&query).unwrap());
    }

    #[test]
    fn grants_never_panic(texts in prop::collection::vec("[0-9a-z:.,TZ-]{0,12}", 5)) {
        let [start, expiry, permissions, addresses, protocol] = &texts[..] else { unreachable!() };
        let _ = TableSas { start, expiry, permissions, addresses, protocol, ..TABLE }.grant(None, &caller());
    }

    #[test]
    fn any_change_breaks_the_signature(table in "[a-z]{3,8}", spk in "[^\n]{0,8}", permissions in "r?a?u?d?") {
        let sas = TableSas { table: &table, start_partition_key: Some(&spk), permissions: &permissions, ..TABLE };
        let token = sas.token(ACCOUNT, &key()).unwrap();
        let query = Query::parse(&token).unwrap();
        let Some(TableToken::Service(parsed)) = TableToken::parse(&query).unwrap() else { panic!() };
        prop_assert_eq!(parsed.verify(ACCOUNT, &[key()]), Ok(()));
        let changed = TableSas { expiry: "2031-01-01T00:00:00Z", ..parsed };
        prop_assert_eq!(changed.verify(ACCOUNT, &[key()]), Err(SasError::Signature));
    }
}
