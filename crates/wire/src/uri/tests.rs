use super::*;
use proptest::prelude::*;

#[track_caller]
fn check_uri(partition: &str, row: &str, expect: &str) {
    let mut out = Vec::new();
    write_entity_uri(&mut out, "Orders", partition, row);
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

/// The pairs of T-1.29, recorded by the Python suites.
#[test]
fn emitted_keys_are_encoded_as_recorded() {
    check_uri(":@", "+,$", "Orders(PartitionKey='%3A%40',RowKey='%2B%2C%24')");
    check_uri(
        "=& ",
        "table@storage.com0",
        "Orders(PartitionKey='%3D%26%20',RowKey='table%40storage.com0')",
    );
    check_uri(
        "partition1-ô- -'-\"-%20-%27-pk",
        "",
        "Orders(PartitionKey='partition1-%C3%B4-%20-''-%22-%2520-%2527-pk',RowKey='')",
    );
}

#[test]
fn a_path_is_decoded_once() {
    assert_eq!(percent_decode("a%2520b+c").unwrap(), "a%20b+c");
    assert_eq!(percent_decode("%C3%B4").unwrap(), "ô");
    assert_eq!(percent_decode("plain"), Ok(Cow::Borrowed("plain")));
    assert_eq!(percent_decode("100%"), Err(UriError::BadEscape));
    assert_eq!(percent_decode("%zz"), Err(UriError::BadEscape));
    assert_eq!(percent_decode("%E4"), Err(UriError::NotUtf8));
}

#[test]
fn inner_uris_are_decoded_leniently() {
    assert_eq!(percent_decode_lenient("100% %25 %2"), "100% % %2");
    assert_eq!(percent_decode_lenient("%E4"), "%E4");
}

#[test]
fn parameters_are_decoded_and_found_by_exact_name() {
    let query = Query::parse("%24filter=a+eq+%27%2B%27&$top=2&&comp&$TOP=3").unwrap();
    assert_eq!(query.get("$filter"), Some("a eq '+'"));
    assert_eq!(query.get("$top"), Some("2"));
    assert_eq!(query.get("comp"), Some(""));
    assert_eq!(query.get("$Filter"), None);
    assert!(matches!(Query::parse("a=%"), Err(UriError::BadEscape)));
    assert_eq!(Query::parse_lenient("a=%&b=%FF").unwrap().get("b"), Some("%FF"));
    let many = "a=1&".repeat(QUERY_PARAMETERS_MAX + 1);
    assert!(matches!(Query::parse(&many), Err(UriError::TooManyParameters)));
}

#[test]
fn targets_may_be_absolute_or_relative() {
    let check = |text, path, query| assert_eq!(Target::parse(text), Target { path, query });
    check("https://a.table.core.windows.net/Orders?$format=x", "/Orders", Some("$format=x"));
    check("https://a.table.core.windows.net", "", None);
    check("/devstoreaccount1/Orders", "/devstoreaccount1/Orders", None);
    check("Orders(PartitionKey='a://b',RowKey='')", "Orders(PartitionKey='a://b',RowKey='')", None);
}

#[test]
fn accounts_are_split_from_their_location_and_the_path() {
    assert_eq!(split_location("acct1-secondary"), ("acct1", Location::Secondary));
    assert_eq!(split_location("acct1"), ("acct1", Location::Primary));
    assert_eq!(split_account("/acct1/Tables"), ("acct1", "/Tables"));
    assert_eq!(split_account("/acct1"), ("acct1", ""));
    assert_eq!(split_account("/"), ("", ""));
}

#[track_caller]
fn check_path(path: &str, expect: ResourcePath<'_>) {
    assert_eq!(ResourcePath::parse(path), Ok(expect));
}

#[track_caller]
fn check_refused(path: &str, expect: &str) {
    let error = ResourcePath::parse(path).unwrap_err();
    assert_eq!(error.message("acct1"), expect);
}

fn entity<'a>(table: &'a str, partition: &'a str, row: &'a str) -> ResourcePath<'a> {
    ResourcePath::Entity { table, partition_key: partition.into(), row_key: row.into() }
}

#[test]
fn paths_name_resources() {
    check_path("", ResourcePath::Service);
    check_path("/", ResourcePath::Service);
    check_path("/Tables", ResourcePath::Tables);
    check_path("/Tables()", ResourcePath::Tables);
    check_path("/Tables('Orders')", ResourcePath::Table { name: "Orders".into() });
    check_path("/Tables(TableName='Orders')", ResourcePath::Table { name: "Orders".into() });
    check_path("/Orders", ResourcePath::Entities { table: "Orders" });
    check_path("Orders()", ResourcePath::Entities { table: "Orders" });
    check_path("/Orders/", ResourcePath::Entities { table: "Orders" });
    check_path("/$batch", ResourcePath::Batch);
}

#[test]
fn keys_are_read_in_either_order_and_with_doubled_quotes() {
    check_path("/Orders(PartitionKey='',RowKey='')", entity("Orders", "", ""));
    check_path("/Orders(RowKey='r', PartitionKey='p')", entity("Orders", "p", "r"));
    check_path("/Orders(PartitionKey='a''b''',RowKey='''')", entity("Orders", "a'b'", "'"));
    check_path("/Orders(PartitionKey='a,b)',RowKey='(=')", entity("Orders", "a,b)", "(="));
    check_path("/Orders(PartitionKey='a/b',RowKey='/')", entity("Orders", "a/b", "/"));
}

#[test]
fn odd_paths_of_two_segments() {
    let nested = |table, keyed| ResourcePath::Nested { table, keyed };
    // Recorded in java TableAsyncClientTest.canUseSasTokenToCreateValidTableClient: an insert.
    check_path("/tablename/tablename", nested("tablename", false));
    check_path("/Orders/Tables", nested("Orders", false));
    check_path("/Orders/Orders(PartitionKey='p',RowKey='r')", nested("Orders", true));
    // Recorded in python test_table_client.test_table_name_errors: the name is `a`, too short.
    check_path("/a//", ResourcePath::Entities { table: "a" });
    check_path("/a//(PartitionKey='foo',RowKey='foo')", nested("a", true));
    for path in ["/Orders/$count", "/Orders()/$count", "/Orders/$count/"] {
        check_path(path, ResourcePath::Count { table: "Orders" });
    }
    check_path("/Orders/$count/more", ResourcePath::Unsupported);
    check_path("/Orders(PartitionKey='p',RowKey='r')/$count", ResourcePath::Unsupported);
    check_path("/Orders(PartitionKey='p',RowKey='r')/Name", ResourcePath::Unsupported);
}

#[test]
fn predicates_that_do_not_lex_name_the_character() {
    check_refused(
        "/Orders(PartitionKey=\"p\",RowKey='r')",
        "Syntax error: character '\"' is not valid at position 13 in 'PartitionKey=\"p\",RowKey='r''.",
    );
    check_refused(
        "/Orders(PartitionKey='🦀',RowKey=%)",
        "Syntax error: character '%' is not valid at position 25 in 'PartitionKey='🦀',RowKey=%'.",
    );
    check_refused(
        "/Orders(PartitionKey='p',RowKey='r)",
        "Unterminated string literal at position 26 in 'PartitionKey='p',RowKey='r'.",
    );
}

#[test]
fn predicates_that_do_not_parse_are_errors_in_syntax() {
    let text = "Bad Request - Error in query syntax.";
    for predicate in [
        "PartitionKey='p',RowKey='r",
        "PartitionKey='p',RowKey='r',)",
        "PartitionKey='p' RowKey='r')",
        "PartitionKey='p',PartitionKey='r')",
        "PartitionKey='p','r')",
        "PartitionKey='p',RowKey=5)",
        "PartitionKey='p',Row='r')",
        ",)",
    ] {
        check_refused(&format!("/Orders({predicate}"), text);
    }
}

#[test]
fn too_few_or_too_many_keys() {
    let text = "The number of keys specified in the URI does not match number of key properties for \
                the resource 'acct1.Orders'.";
    check_refused("/Orders('p')", text);
    check_refused("/Orders('p','r')", text);
    check_refused("/Orders(PartitionKey='p')", text);
    check_refused("/Orders(PartitionKey='p',RowKey='r',Third='t')", text);
}

proptest! {
    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = ResourcePath::parse(&text);
        let _ = Query::parse(&text);
        let _ = Query::parse_lenient(&text);
        let _ = percent_decode_lenient(&text);
        let _ = Target::parse(&text);
        let _ = split_account(&text);
    }

    #[test]
    fn predicates_of_many_quotes_never_panic(text in "[(),='/ aé\"]{0,12}") {
        let _ = ResourcePath::parse(&text);
        let _ = parse_key_predicate(&text);
    }

    #[test]
    fn emitted_uris_parse_back(partition in any::<String>(), row in any::<String>()) {
        let mut out = Vec::new();
        write_entity_uri(&mut out, "Orders", &partition, &row);
        let text = String::from_utf8(out).unwrap();
        let path = percent_decode(&text).unwrap();
        let (inner, expect) = (path.strip_prefix("Orders(").unwrap(), (partition, row));
        let keys = parse_key_predicate(inner.strip_suffix(')').unwrap()).unwrap();
        prop_assert_eq!((keys.0.as_ref(), keys.1.as_ref()), (expect.0.as_str(), expect.1.as_str()));
    }
}

/// C-17.5.
#[test]
fn blob_names_are_escaped_by_segment_and_lone_dots_too() {
    let path = |name| {
        let mut out = Vec::new();
        write_blob_path(&mut out, name);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(path("a b/c+d/é"), "a%20b/c%2Bd/%C3%A9");
    assert_eq!(path("a//../.b/./..."), "a//%2E%2E/.b/%2E/...");
    assert_eq!(path("/\\'?#"), "/%5C%27%3F%23");
}
