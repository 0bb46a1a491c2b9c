use super::*;
use lazuli_model::{Guid, Timestamp};
use proptest::prelude::*;

/// The entry that clients send, around `properties`.
fn entry(properties: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="utf-8" standalone="yes"?>
<entry xmlns:d="{DATA}" xmlns:m="{METADATA}" xmlns="{ATOM}">
<title /><updated>2014-01-02T03:04:05.0000000Z</updated><author><name /></author><id />
<content type="application/xml"><m:properties>
{properties}
</m:properties></content></entry>"#
    )
}

/// The one property `a`, whose element is `element`.
#[track_caller]
fn check(element: &str, expect: Result<Value<'_>, BodyError>) {
    let body = entry(&format!("<d:PartitionKey>p</d:PartitionKey><d:RowKey />{element}"));
    let got = read_entity(body.as_bytes()).map(|entity| {
        assert_eq!(entity.partition_key.as_deref(), Some("p"));
        assert_eq!(entity.row_key.as_deref(), Some(""));
        let [(name, value)] = &entity.properties[..] else {
            panic!("one property: {:?}", entity.properties);
        };
        assert_eq!(name, "a");
        value.clone().into_owned()
    });
    assert_eq!(got, expect.map(Value::into_owned), "{element}");
}

#[track_caller]
fn check_error(body: &str, expect: BodyError) {
    assert_eq!(read_entity(body.as_bytes()), Err(expect), "{body}");
}

#[test]
fn values_of_every_type() {
    check("<d:a>x</d:a>", Ok("x".into()));
    check("<d:a m:type=\"Edm.String\"></d:a>", Ok("".into()));
    check("<d:a m:type=\"Edm.Boolean\">true</d:a>", Ok(Value::Boolean(true)));
    check("<d:a m:type=\"Edm.Int32\"> 23\n</d:a>", Ok(Value::Int32(23)));
    check("<d:a m:type=\"Edm.Int64\">-5</d:a>", Ok(Value::Int64(-5)));
    check("<d:a m:type=\"Edm.Double\">2.5</d:a>", Ok(Value::Double(2.5)));
    check("<d:a m:type=\"Edm.Double\">-INF</d:a>", Ok(Value::Double(f64::NEG_INFINITY)));
    check(
        "<d:a m:type=\"Edm.DateTime\">1970-01-01T00:00:00Z</d:a>",
        Ok(Value::DateTime(Timestamp::UNIX_EPOCH)),
    );
    check(
        "<d:a m:type=\"Edm.Guid\">c9da6455-213d-42c9-9a79-3e9149a57833</d:a>",
        Ok(Value::Guid(Guid::parse("c9da6455-213d-42c9-9a79-3e9149a57833").unwrap())),
    );
    check(
        "<d:a m:type=\"Edm.Binary\">YmluYXJ5</d:a>",
        Ok(Value::Binary(b"binary".to_vec().into())),
    );
}

#[test]
fn text_is_kept_and_references_are_resolved() {
    check("<d:a> x  y </d:a>", Ok(" x  y ".into()));
    check("<d:a>a&lt;b&amp;&#xD;&#49;<![CDATA[<&>]]>ô</d:a>", Ok("a<b&\r1<&>ô".into()));
    check("<d:a>one\r\ntwo<!-- and --> three</d:a>", Ok("one\ntwo three".into()));
}

#[test]
fn prefixes_are_the_clients_choice() {
    let body = format!(
        r#"<a:entry xmlns:a="{ATOM}"><a:content><properties xmlns="{METADATA}"
            xmlns:meta="{METADATA}"><x:a xmlns:x="{DATA}" meta:type="Edm.Int32">1</x:a>
            </properties></a:content></a:entry>"#
    );
    let entity = read_entity(body.as_bytes()).unwrap();
    assert_eq!(entity.properties, [("a".into(), Value::Int32(1))]);
}

#[test]
fn nulls_and_timestamp_are_dropped() {
    let body = entry(
        r#"<d:PartitionKey m:null="true" /><d:Timestamp m:type="Edm.DateTime">x</d:Timestamp>
           <d:Gone m:type="Edm.Int32" m:null="true" />"#,
    );
    assert_eq!(read_entity(body.as_bytes()), Ok(EntityBody::default()));
}

#[test]
fn faults_have_their_own_errors() {
    check("<d:a m:type=\"Edm.Int32\">x</d:a>", Err(BodyError::InvalidValue));
    check("<d:a m:type=\"Edm.DateTime\"></d:a>", Err(BodyError::InvalidValue));
    check("<d:a m:type=\"Edm.Decimal\">1</d:a>", Err(BodyError::UnknownType));
    check("<d:a><d:b /></d:a>", Err(BodyError::Malformed));
    check("<d:a>&unknown;</d:a>", Err(BodyError::Malformed));
    check("<d:a>&#0;</d:a>", Err(BodyError::Malformed));
    check("<d:a>\0</d:a>", Err(BodyError::InvalidValue));
    check("<m:a>x</m:a>", Err(BodyError::Malformed));
    check("<d:a m:type=\"Edm.Int32\" m:type=\"Edm.Int32\">1</d:a>", Err(BodyError::Malformed));
    check("<d:RowKey />", Err(BodyError::DuplicateProperty));
}

#[test]
fn a_key_of_another_type_is_told_of() {
    let body = entry("<d:RowKey m:type=\"Edm.Int32\">1</d:RowKey>");
    assert!(read_entity(body.as_bytes()).unwrap().has_mistyped_key);
}

#[test]
fn what_is_no_entry_is_malformed() {
    let deep = format!("<entry xmlns=\"{ATOM}\">") + &"<x>".repeat(100_000);
    let foreign = entry("").replace("<entry", "<feed").replace("/entry>", "/feed>");
    let open = entry("").replace("</entry>", "");
    let external = entry("").replacen(
        "<entry",
        "<!DOCTYPE entry [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><entry",
        1,
    );
    let without = format!("<entry xmlns=\"{ATOM}\" />");
    for body in ["", "{}", "<entry />", &deep, &foreign, &open, &external, &without] {
        check_error(body, BodyError::Malformed);
    }
    assert_eq!(read_entity(b"\xFF"), Err(BodyError::Malformed));
}

#[test]
fn table_names_are_read_from_their_one_property() {
    let name = |properties: &str| read_table_name(entry(properties).as_bytes());
    assert_eq!(name("<d:TableName>Orders</d:TableName>"), Ok(Some("Orders".into())));
    assert_eq!(name("<d:TableName m:null=\"true\" />"), Ok(None));
    assert_eq!(name(""), Ok(None));
}

proptest! {
    #[test]
    fn reading_never_panics(body in any::<Vec<u8>>(), text in any::<String>()) {
        let _ = read_entity(&body);
        let _ = read_entity(entry(&text).as_bytes());
    }

    #[test]
    fn reading_never_panics_on_near_entries(
        words in proptest::collection::vec(
            proptest::sample::select(vec![
                "<d:a>", "</d:a>", "<d:a", " m:type=\"Edm.Int32\"", " m:null=", "\"true\"", "/>", "<", ">", "&",
                "&amp;", "&#", "x1;", "<![CDATA[", "]]>", "<!--", "-->", "1", "</m:properties>", "<?", "é", "</entry>",
            ]),
            0..12,
        ),
    ) {
        let _ = read_entity(entry(&words.concat()).as_bytes());
    }
}
