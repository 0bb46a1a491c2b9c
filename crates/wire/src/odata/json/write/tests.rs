use super::*;
use lazuli_model::Guid;
use proptest::prelude::*;

const BASE: &str = "https://account.table.core.windows.net/";

fn context<'a>(table: &'a str, level: MetadataLevel, select: Option<&'a Select>) -> Context<'a> {
    Context { base: BASE, account: "account", table, level, minimal_etag: true, select }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// The entity named in `key` (partition key, row key, Timestamp) is written as `expect`.
#[track_caller]
fn check(context: Context<'_>, key: [&str; 3], properties: &[(&str, ValueRef<'_>)], expect: &str) {
    let mut out = Vec::new();
    let [partition_key, row_key, timestamp] = key;
    write_entity(
        &mut out,
        &context,
        partition_key,
        row_key,
        time(timestamp),
        properties.iter().copied(),
    );
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn minimal_metadata_annotates_what_json_cannot_tell() {
    // storage-node/tableservice-payload-tests.10.
    check(
        context("tablepayloadteststestdata101", MetadataLevel::Minimal, None),
        ["partition1", "row1", "2017-01-05T03:27:08.7040706Z"],
        &[
            ("RegularDouble", ValueRef::Double(4.81516423423)),
            ("NanDouble", ValueRef::Double(f64::NAN)),
            ("DoubleInInt", ValueRef::Double(10.0)),
            ("LargeDouble", ValueRef::Double(123456789012345.12)),
            ("PositiveInfinityDouble", ValueRef::Double(f64::INFINITY)),
            ("NegativeInfinityDouble", ValueRef::Double(f64::NEG_INFINITY)),
            ("MinDouble", ValueRef::Double(5e-324)),
            ("MaxDouble", ValueRef::Double(f64::MAX)),
            ("MaxInt64", ValueRef::Int64(i64::MAX)),
            ("MinInt64", ValueRef::Int64(i64::MIN)),
        ],
        concat!(
            r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#tablepayloadteststestdata101/@Element","##,
            r#""odata.etag":"W/\"datetime'2017-01-05T03%3A27%3A08.7040706Z'\"","#,
            r#""PartitionKey":"partition1","RowKey":"row1","Timestamp":"2017-01-05T03:27:08.7040706Z","#,
            r#""RegularDouble":4.81516423423,"NanDouble@odata.type":"Edm.Double","NanDouble":"NaN","#,
            r#""DoubleInInt":10.0,"LargeDouble":123456789012345.12,"#,
            r#""PositiveInfinityDouble@odata.type":"Edm.Double","PositiveInfinityDouble":"Infinity","#,
            r#""NegativeInfinityDouble@odata.type":"Edm.Double","NegativeInfinityDouble":"-Infinity","#,
            r#""MinDouble":4.94065645841247E-324,"MaxDouble":1.7976931348623157E+308,"#,
            r#""MaxInt64@odata.type":"Edm.Int64","MaxInt64":"9223372036854775807","#,
            r#""MinInt64@odata.type":"Edm.Int64","MinInt64":"-9223372036854775808"}"#,
        ),
    );
}

#[test]
fn full_metadata_names_and_links_the_entity() {
    // storage-node/tableservice-payload-tests.09, shortened.
    check(
        context("tablepayloadteststestdata91", MetadataLevel::Full, None),
        ["partition1", "row1", "2017-01-05T03:27:00.1209953Z"],
        &[("MaxInt64", ValueRef::Int64(i64::MAX))],
        concat!(
            r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#tablepayloadteststestdata91/@Element","##,
            r#""odata.type":"account.tablepayloadteststestdata91","#,
            r#""odata.id":"https://account.table.core.windows.net/tablepayloadteststestdata91(PartitionKey='partition1',RowKey='row1')","#,
            r#""odata.etag":"W/\"datetime'2017-01-05T03%3A27%3A00.1209953Z'\"","#,
            r#""odata.editLink":"tablepayloadteststestdata91(PartitionKey='partition1',RowKey='row1')","#,
            r#""PartitionKey":"partition1","RowKey":"row1","#,
            r#""Timestamp@odata.type":"Edm.DateTime","Timestamp":"2017-01-05T03:27:00.1209953Z","#,
            r#""MaxInt64@odata.type":"Edm.Int64","MaxInt64":"9223372036854775807"}"#,
        ),
    );
}

#[test]
fn no_metadata_is_values_alone() {
    // storage-node/tableservice-payload-tests.08, shortened; then one value of every other type.
    let guid = Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap();
    check(
        context("t", MetadataLevel::None, None),
        ["partition1", "row1", "2017-01-05T03:26:52.3488203Z"],
        &[
            ("NanDouble", ValueRef::Double(f64::NAN)),
            ("MaxInt64", ValueRef::Int64(i64::MAX)),
            ("b", ValueRef::Boolean(false)),
            ("i", ValueRef::Int32(-39)),
            ("d", ValueRef::DateTime(time("1973-10-04T00:00:00Z"))),
            ("g", ValueRef::Guid(guid)),
            ("x", ValueRef::Binary(b"binary")),
            ("s", ValueRef::String("")),
        ],
        concat!(
            r#"{"PartitionKey":"partition1","RowKey":"row1","Timestamp":"2017-01-05T03:26:52.3488203Z","#,
            r#""NanDouble":"NaN","MaxInt64":"9223372036854775807","b":false,"i":-39,"#,
            r#""d":"1973-10-04T00:00:00Z","g":"c9da6455-213d-42c9-9a79-3e9149a57833","#,
            r#""x":"YmluYXJ5","s":""}"#,
        ),
    );
}

#[test]
fn names_and_values_are_escaped_as_recorded() {
    // python/test_table_entity.test_unicode_property_name@2 and test_query_special_chars@2.
    check(
        context("t", MetadataLevel::None, None),
        [":@", "=& ", "2020-12-18T17:09:55.3230546Z"],
        &[
            ("啊齄丂狛狜", ValueRef::String("ꀕ")),
            ("Chars", ValueRef::String("?\"\\{}<>%'/")),
            ("Control", ValueRef::String("\n\r\t\u{8}\u{C}\u{1}\u{1F}\u{7F}\u{80}🦀")),
        ],
        concat!(
            r#"{"PartitionKey":":@","RowKey":"=& ","Timestamp":"2020-12-18T17:09:55.3230546Z","#,
            r#""\u554a\u9f44\u4e02\u72db\u72dc":"\ua015","Chars":"?\"\\{}<>%'/","#,
            r#""Control":"\n\r\t\b\f\u0001\u001f"#,
            "\u{7F}",
            r#"\u0080\ud83e\udd80"}"#,
        ),
    );
}

#[test]
fn keys_in_links_are_percent_encoded() {
    // java/TableClientTest.*WithSingleQuotesInPartitionKey; TR-57.
    let mut out = Vec::new();
    let context = context("t", MetadataLevel::Full, None);
    let timestamp = time("2017-01-05T03:26:52Z");
    write_entity(&mut out, &context, "partition'key", "a\"b é", timestamp, [].into_iter());
    let text = String::from_utf8(out).unwrap();
    let link = "t(PartitionKey='partition''key',RowKey='a%22b%20%C3%A9')";
    assert!(text.contains(&format!("\"odata.id\":\"{BASE}{link}\"")), "{text}");
    assert!(text.contains(&format!("\"odata.editLink\":\"{link}\"")), "{text}");
    assert!(text.contains(r#""PartitionKey":"partition'key","RowKey":"a\"b \u00e9""#), "{text}");
}

#[test]
fn select_shows_what_is_named_and_null_for_what_is_missing() {
    let select = Select::parse("sex, nosuch,age,RowKey").unwrap();
    // TR-13; the metadata of python/test_table_entity_async.test_query_entities_with_select.
    check(
        context("t", MetadataLevel::Minimal, Some(&select)),
        ["p", "r", "2022-05-06T00:44:45.6599055Z"],
        &[
            ("age", ValueRef::Int64(39)),
            ("deceased", ValueRef::Boolean(false)),
            ("sex", ValueRef::String("male")),
        ],
        concat!(
            r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#t/@Element&$select=sex,%20nosuch,age,RowKey","##,
            r#""odata.etag":"W/\"datetime'2022-05-06T00%3A44%3A45.6599055Z'\"","RowKey":"r","#,
            r#""age@odata.type":"Edm.Int64","age":"39","nosuch":null,"sex":"male"}"#,
        ),
    );
}

#[test]
fn an_empty_select_shows_everything_and_its_name() {
    // storage-python/test_table_batch.test_batch_reuse.
    let select = Select::parse("").unwrap();
    check(
        context("tablee3140d5b", MetadataLevel::Minimal, Some(&select)),
        ["003", "r", "2017-08-22T22:08:48Z"],
        &[("test", ValueRef::String("true"))],
        concat!(
            r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#tablee3140d5b/@Element&$select=","##,
            r#""odata.etag":"W/\"datetime'2017-08-22T22%3A08%3A48Z'\"","#,
            r#""PartitionKey":"003","RowKey":"r","Timestamp":"2017-08-22T22:08:48Z","test":"true"}"#,
        ),
    );
}

#[track_caller]
fn check_collection(level: MetadataLevel, select: Option<&str>, rows: &[&str], expect: &str) {
    let select = select.map(|text| Select::parse(text).unwrap());
    let context = context("t", level, select.as_ref());
    let mut out = Vec::new();
    let mut collection = EntityCollection::begin(&mut out, &context);
    for row in rows {
        let age = [("age", ValueRef::Int32(39))].into_iter();
        let timestamp = time("2022-05-06T00:40:27.67375Z");
        collection.entity(&mut out, &context, "p", row, timestamp, age);
    }
    collection.end(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn collections_hold_their_elements() {
    check_collection(
        MetadataLevel::None,
        None,
        &["1", "2"],
        concat!(
            r#"{"value":[{"PartitionKey":"p","RowKey":"1","Timestamp":"2022-05-06T00:40:27.67375Z","age":39},"#,
            r#"{"PartitionKey":"p","RowKey":"2","Timestamp":"2022-05-06T00:40:27.67375Z","age":39}]}"#,
        ),
    );
    check_collection(
        MetadataLevel::Minimal,
        None,
        &[],
        r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#t","value":[]}"##,
    );
    check_collection(
        MetadataLevel::Full,
        Some("RowKey"),
        &["1"],
        concat!(
            r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#t&$select=RowKey","value":["##,
            r#"{"odata.type":"account.t","odata.id":"https://account.table.core.windows.net/t(PartitionKey='p',RowKey='1')","#,
            r#""odata.etag":"W/\"datetime'2022-05-06T00%3A40%3A27.67375Z'\"","#,
            r#""odata.editLink":"t(PartitionKey='p',RowKey='1')","RowKey":"1"}]}"#,
        ),
    );
}

#[test]
fn tables_are_written_alone_and_in_lists() {
    let alone = |level| {
        let mut out = Vec::new();
        write_table(&mut out, BASE, "account", level, None, "Orders");
        String::from_utf8(out).unwrap()
    };
    assert_eq!(alone(MetadataLevel::None), r#"{"TableName":"Orders"}"#);
    assert_eq!(
        alone(MetadataLevel::Minimal),
        r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#Tables/@Element","TableName":"Orders"}"##
    );
    let mut out = Vec::new();
    let level = MetadataLevel::Full;
    let mut tables = TableCollection::begin(&mut out, BASE, level, None);
    tables.table(&mut out, BASE, "account", level, "Orders");
    tables.end(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        concat!(
            r##"{"odata.metadata":"https://account.table.core.windows.net/$metadata#Tables","value":["##,
            r#"{"odata.type":"account.Tables","odata.id":"https://account.table.core.windows.net/Tables('Orders')","#,
            r#""odata.editLink":"Tables('Orders')","TableName":"Orders"}]}"#,
        )
    );
}

#[test]
fn errors_have_one_shape() {
    let mut out = Vec::new();
    write_error(&mut out, "ResourceNotFound", "It is not.\nRequestId:1\nTime:2");
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"odata.error":{"code":"ResourceNotFound","message":{"lang":"en-US","value":"It is not.\nRequestId:1\nTime:2"}}}"#
    );
}

proptest! {
    #[test]
    fn strings_read_back(text in any::<String>()) {
        let mut out = b"{\"TableName\":".to_vec();
        write_string(&mut out, &text);
        out.push(b'}');
        prop_assert!(out.is_ascii());
        let read = super::super::read_table_name(&out).unwrap();
        prop_assert_eq!(read.as_deref(), Some(&*text));
    }
}
