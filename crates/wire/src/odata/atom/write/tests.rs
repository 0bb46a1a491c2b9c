use super::super::{read_entity, read_table_name};
use super::*;
use crate::media::MetadataLevel;

use lazuli_model::{Guid, Value};
use proptest::prelude::*;

const BASE: &str = "https://acct1.table.core.windows.net/";

fn context<'a>(table: &'a str, select: Option<&'a Select>) -> Context<'a> {
    Context {
        base: BASE,
        account: "acct1",
        table,
        level: MetadataLevel::Full,
        minimal_etag: true,
        select,
    }
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn envelope(form: AtomForm, updated: &str) -> Envelope {
    Envelope { form, updated: time(updated) }
}

/// An entity with a value of most types.
fn lone_entity(form: AtomForm) -> String {
    let mut out = Vec::new();
    write_entity(
        &mut out,
        &context("Orders", None),
        envelope(form, "2013-05-06T07:08:09.5Z"),
        "p1",
        "r1",
        time("2013-05-06T07:08:09.123456Z"),
        [
            ("Age", ValueRef::Int32(23)),
            ("Ratio", ValueRef::Double(3.1)),
            ("Paid", ValueRef::Boolean(false)),
            ("Name", ValueRef::String("Jane Roe")),
            ("Due", ValueRef::DateTime(time("2013-06-01T00:00:00.500Z"))),
        ]
        .into_iter(),
    );
    String::from_utf8(out).unwrap()
}

fn feed_of_tables(form: AtomForm, names: &[&str]) -> String {
    let mut out = Vec::new();
    let envelope = envelope(form, "2013-05-06T07:08:09Z");
    let mut feed = TableCollection::begin(&mut out, BASE, envelope);
    names.iter().for_each(|name| feed.table(&mut out, BASE, "acct1", name));
    feed.end(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn names_that_xml_cannot_hold_are_encoded() {
    for (name, expect) in [
        ("Total", "Total"),
        ("é\u{301}_1", "é\u{301}_1"),
        ("a b", "a_x0020_b"),
        ("1st", "_x0031_st"),
        ("a><b/", "a_x003E__x003C_b_x002F_"),
    ] {
        assert_eq!(element_name(name), expect);
    }
}

#[test]
fn a_lone_entity_is_an_entry() {
    // The shape is that of public recordings of version 2011-08-18.
    let expect = r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<entry xml:base="https://acct1.table.core.windows.net/" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" m:etag="W/&quot;datetime'2013-05-06T07%3A08%3A09.123456Z'&quot;" xmlns="http://www.w3.org/2005/Atom">
  <id>https://acct1.table.core.windows.net/Orders(PartitionKey='p1',RowKey='r1')</id>
  <title type="text"></title>
  <updated>2013-05-06T07:08:09Z</updated>
  <author>
    <name />
  </author>
  <link rel="edit" title="Orders" href="Orders(PartitionKey='p1',RowKey='r1')" />
  <category term="acct1.Orders" scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" />
  <content type="application/xml">
    <m:properties>
      <d:PartitionKey>p1</d:PartitionKey>
      <d:RowKey>r1</d:RowKey>
      <d:Timestamp m:type="Edm.DateTime">2013-05-06T07:08:09.123456Z</d:Timestamp>
      <d:Age m:type="Edm.Int32">23</d:Age>
      <d:Ratio m:type="Edm.Double">3.1</d:Ratio>
      <d:Paid m:type="Edm.Boolean">false</d:Paid>
      <d:Name>Jane Roe</d:Name>
      <d:Due m:type="Edm.DateTime">2013-06-01T00:00:00.5Z</d:Due>
    </m:properties>
  </content>
</entry>"#;
    assert_eq!(lone_entity(AtomForm::Indented), expect.replace('\n', "\r\n"));
}

/// The shape is that of public recordings of version 2014-02-14 (2.9).
#[test]
fn from_2013_on_an_entry_is_one_line() {
    let expect = concat!(
        r#"<?xml version="1.0" encoding="utf-8"?>"#,
        r#"<entry xml:base="https://acct1.table.core.windows.net/" "#,
        r#"xmlns="http://www.w3.org/2005/Atom" "#,
        r#"xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" "#,
        r#"xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" "#,
        r#"m:etag="W/&quot;datetime'2013-05-06T07%3A08%3A09.123456Z'&quot;">"#,
        r#"<id>https://acct1.table.core.windows.net/Orders(PartitionKey='p1',RowKey='r1')</id>"#,
        r#"<category term="acct1.Orders" "#,
        r#"scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" />"#,
        r#"<link rel="edit" title="Orders" href="Orders(PartitionKey='p1',RowKey='r1')" />"#,
        r#"<title /><updated>2013-05-06T07:08:09Z</updated><author><name /></author>"#,
        r#"<content type="application/xml"><m:properties>"#,
        r#"<d:PartitionKey>p1</d:PartitionKey><d:RowKey>r1</d:RowKey>"#,
        r#"<d:Timestamp m:type="Edm.DateTime">2013-05-06T07:08:09.123456Z</d:Timestamp>"#,
        r#"<d:Age m:type="Edm.Int32">23</d:Age><d:Ratio m:type="Edm.Double">3.1</d:Ratio>"#,
        r#"<d:Paid m:type="Edm.Boolean">false</d:Paid><d:Name>Jane Roe</d:Name>"#,
        r#"<d:Due m:type="Edm.DateTime">2013-06-01T00:00:00.5Z</d:Due>"#,
        r#"</m:properties></content></entry>"#,
    );
    assert_eq!(lone_entity(AtomForm::Compact), expect);
}

/// The shape is that of public recordings of version 2014-02-14; the empty feed is a guess (T-2.64a).
#[test]
fn from_2013_on_a_feed_is_one_line() {
    let head = concat!(
        r#"<?xml version="1.0" encoding="utf-8"?>"#,
        r#"<feed xml:base="https://acct1.table.core.windows.net/" "#,
        r#"xmlns="http://www.w3.org/2005/Atom" "#,
        r#"xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" "#,
        r#"xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata">"#,
        r#"<id>https://acct1.table.core.windows.net/Tables</id><title type="text">Tables</title>"#,
        r#"<updated>2013-05-06T07:08:09Z</updated>"#,
        r#"<link rel="self" title="Tables" href="Tables" />"#,
    );
    let entry = concat!(
        r#"<entry><id>https://acct1.table.core.windows.net/Tables('Orders')</id>"#,
        r#"<category term="acct1.Tables" "#,
        r#"scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" />"#,
        r#"<link rel="edit" title="Tables" href="Tables('Orders')" /><title />"#,
        r#"<updated>2013-05-06T07:08:09Z</updated><author><name /></author>"#,
        r#"<content type="application/xml"><m:properties><d:TableName>Orders</d:TableName>"#,
        r#"</m:properties></content></entry>"#,
    );
    assert_eq!(feed_of_tables(AtomForm::Compact, &["Orders"]), format!("{head}{entry}</feed>"));
    let author = "<author><name /></author></feed>";
    assert_eq!(feed_of_tables(AtomForm::Compact, &[]), format!("{head}{author}"));
}

#[test]
fn tables_are_entries_of_a_feed() {
    // The shape is that of public recordings of version 2011-08-18.
    let expect = r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<feed xml:base="https://acct1.table.core.windows.net/" xmlns:d="http://schemas.microsoft.com/ado/2007/08/dataservices" xmlns:m="http://schemas.microsoft.com/ado/2007/08/dataservices/metadata" xmlns="http://www.w3.org/2005/Atom">
  <title type="text">Tables</title>
  <id>https://acct1.table.core.windows.net/Tables</id>
  <updated>2013-05-06T07:08:09Z</updated>
  <link rel="self" title="Tables" href="Tables" />
  <entry>
    <id>https://acct1.table.core.windows.net/Tables('Orders')</id>
    <title type="text"></title>
    <updated>2013-05-06T07:08:09Z</updated>
    <author>
      <name />
    </author>
    <link rel="edit" title="Tables" href="Tables('Orders')" />
    <category term="acct1.Tables" scheme="http://schemas.microsoft.com/ado/2007/08/dataservices/scheme" />
    <content type="application/xml">
      <m:properties>
        <d:TableName>Orders</d:TableName>
      </m:properties>
    </content>
  </entry>
</feed>"#;
    let feed = feed_of_tables(AtomForm::Indented, &["Orders"]);
    assert_eq!(feed, expect.replace('\n', "\r\n"));
}

#[test]
fn an_empty_feed_has_an_author_of_its_own() {
    let mut out = Vec::new();
    let context = context("Orders", None);
    let envelope = envelope(AtomForm::Indented, "2013-05-06T07:08:09Z");
    EntityCollection::begin(&mut out, &context, envelope).end(&mut out, &context);
    let text = String::from_utf8(out).unwrap();
    let tail = "<updated>2013-05-06T07:08:09Z</updated>\r\n  <author>\r\n    <name />\r\n  </author>\
                \r\n  <link rel=\"self\" title=\"Orders\" href=\"Orders\" />\r\n</feed>";
    assert!(text.ends_with(tail), "{text}");
}

#[test]
fn select_shows_nulls_for_what_is_missing() {
    let select = Select::parse("nosuch,RowKey,age").unwrap();
    let context = context("Orders", Some(&select));
    let mut out = Vec::new();
    let now = time("2013-05-06T07:08:09Z");
    let envelope = envelope(AtomForm::Indented, "2013-05-06T07:08:09Z");
    let mut feed = EntityCollection::begin(&mut out, &context, envelope);
    let age = [("age", ValueRef::Int32(39)), ("sex", ValueRef::String("male"))];
    feed.entity(&mut out, &context, "p", "r", now, age.into_iter());
    feed.end(&mut out, &context);
    let text = String::from_utf8(out).unwrap();
    let expect = "<m:properties>\r\n        <d:RowKey>r</d:RowKey>\r\n        \
                  <d:age m:type=\"Edm.Int32\">39</d:age>\r\n        \
                  <d:nosuch m:null=\"true\" />\r\n      </m:properties>";
    assert!(text.contains(expect), "{text}");
}

#[track_caller]
fn check_value(value: ValueRef<'_>, expect: &str) {
    let mut out = Vec::new();
    write_property(&mut out, Indent::None, "a", value);
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

#[test]
fn values_are_spelled_as_xml_spells_them() {
    check_value(ValueRef::Double(f64::NAN), "<d:a m:type=\"Edm.Double\">NaN</d:a>");
    check_value(ValueRef::Double(f64::INFINITY), "<d:a m:type=\"Edm.Double\">INF</d:a>");
    check_value(ValueRef::Double(f64::NEG_INFINITY), "<d:a m:type=\"Edm.Double\">-INF</d:a>");
    check_value(ValueRef::Double(3.0), "<d:a m:type=\"Edm.Double\">3</d:a>");
    check_value(ValueRef::Int64(i64::MIN), "<d:a m:type=\"Edm.Int64\">-9223372036854775808</d:a>");
    check_value(ValueRef::String(""), "<d:a></d:a>");
    check_value(ValueRef::String(" x"), "<d:a xml:space=\"preserve\"> x</d:a>");
    check_value(
        ValueRef::String("a<b>&\"'\r\n\u{1}ô"),
        "<d:a>a&lt;b&gt;&amp;\"'&#xD;\n&#x1;ô</d:a>",
    );
}

fn any_value() -> impl Strategy<Value = Value<'static>> {
    prop_oneof![
        "[^\0]*".prop_map(|v| Value::String(v.into())),
        any::<bool>().prop_map(Value::Boolean),
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>()
            .prop_filter("NaN is unequal to itself", |v| !v.is_nan())
            .prop_map(Value::Double),
        (0..=Timestamp::MAX.ticks())
            .prop_map(|v| Value::DateTime(Timestamp::from_ticks(v).unwrap())),
        any::<[u8; 16]>().prop_map(|v| Value::Guid(Guid(v))),
        any::<Vec<u8>>().prop_map(|v| Value::Binary(v.into())),
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_back(
        keys in ["[^\0]*", "[^\0]*"],
        values in proptest::collection::vec(any_value(), 0..5),
        form in prop_oneof![Just(AtomForm::Indented), Just(AtomForm::Compact)],
    ) {
        let names: Vec<String> = (0..values.len()).map(|i| format!("é_{i}")).collect();
        let properties = names.iter().zip(&values).map(|(n, v)| (n.as_str(), v.as_ref()));
        let mut out = Vec::new();
        let [partition_key, row_key] = &keys;
        let now = Timestamp::UNIX_EPOCH;
        let envelope = Envelope { form, updated: now };
        let context = context("t", None);
        write_entity(&mut out, &context, envelope, partition_key, row_key, now, properties);
        let entity = read_entity(&out).unwrap();
        prop_assert_eq!(entity.partition_key.as_deref(), Some(partition_key.as_str()));
        prop_assert_eq!(entity.row_key.as_deref(), Some(row_key.as_str()));
        let read: Vec<_> = entity.properties.iter().map(|(n, v)| (n.to_string(), v.clone())).collect();
        let expect: Vec<_> = names.into_iter().zip(values).collect();
        prop_assert_eq!(read, expect);
    }

    #[test]
    fn table_names_read_back(name in "[^\0]*") {
        let mut out = Vec::new();
        let envelope = Envelope { form: AtomForm::Compact, updated: Timestamp::UNIX_EPOCH };
        write_table(&mut out, BASE, "acct1", envelope, &name);
        let read = read_table_name(&out).unwrap();
        prop_assert_eq!(read.as_deref(), Some(&*name));
    }
}
