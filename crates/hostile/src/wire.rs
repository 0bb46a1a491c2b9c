//! Targets for the protocol: everything a client can send.

use crate::Target;
use crate::forged;
use lazuli_model::{EntityKey, Filter, Properties, Row, Timestamp, Value, ValueRef};
use lazuli_wire::media::{self, AtomForm, MetadataLevel};
use lazuli_wire::multipart::{self, BatchBody};
use lazuli_wire::odata::{self, Context, EntityBody, Select, atom, filter, json};
use lazuli_wire::sas::TableToken;
use lazuli_wire::shared_key::{Authorization, SignedRequest};
use lazuli_wire::uri::{self, Query, ResourcePath};
use lazuli_wire::version::ApiVersion;
use lazuli_wire::{continuation, xml};

pub(crate) const FILTER: Target = Target {
    name: "filter",
    run: filter_text,
    words: &[
        "PartitionKey",
        "RowKey",
        "Timestamp",
        "a",
        " eq ",
        " ne ",
        " gt ",
        " ge ",
        " lt ",
        " le ",
        " and ",
        " or ",
        "not ",
        "(",
        ")",
        "'x'",
        "''",
        "5",
        "5L",
        "-1",
        "1.5",
        "1e9",
        "true",
        "false",
        "null",
        "datetime'2020-01-01T00:00:00Z'",
        "guid'",
        "X'0a'",
        "binary'",
        " ",
        "é",
    ],
};

/// A parsed filter keeps its meaning when it is printed and parsed again.
fn filter_text(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = Select::parse(text);
    let Ok(parsed) = filter::parse(text) else { return };
    let printed = filter::print(&parsed);
    let again = filter::parse(&printed);
    assert!(again.as_ref().is_ok_and(|again| same(again, &parsed)), "{parsed:?} {again:?}");
    assert_eq!(parsed.matches(&SomeRow), parsed.matches(&SomeRow));
}

/// Not-a-number equals itself here, which `==` denies.
fn same(one: &Filter, other: &Filter) -> bool {
    one == other || format!("{one:?}") == format!("{other:?}")
}

/// An entity with a property of every type, to evaluate filters on.
struct SomeRow;

impl Row for SomeRow {
    fn partition_key(&self) -> &str {
        "p"
    }

    fn row_key(&self) -> &str {
        "é"
    }

    fn timestamp(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn custom(&self, name: &str) -> Option<ValueRef<'_>> {
        match name {
            "a" => Some(ValueRef::String("x")),
            "b" => Some(ValueRef::Boolean(true)),
            "c" => Some(ValueRef::Int32(-1)),
            "d" => Some(ValueRef::Int64(i64::MAX)),
            "e" => Some(ValueRef::Double(f64::NAN)),
            "f" => Some(ValueRef::Binary(&[0, 255])),
            "g" => Some(ValueRef::DateTime(Timestamp::MAX)),
            _ => None,
        }
    }
}

pub(crate) const MULTIPART: Target = Target {
    name: "multipart",
    run: batch_body,
    words: &[
        "--b\r\n",
        "--b--\r\n",
        "--c\r\n",
        "--c--\r\n",
        "\r\n",
        "\n",
        "boundary=",
        "Content-Type: multipart/mixed; boundary=c\r\n",
        "Content-Type: application/http\r\n",
        "Content-Transfer-Encoding: binary\r\n",
        "POST /a/T HTTP/1.1\r\n",
        "GET T() HTTP/1.1\r\n",
        "If-Match: *\r\n",
        "Content-ID: 1\r\n",
        "{}",
        "HTTP/1.1 204 No Content\r\n",
        ":",
        ";",
        "\"",
    ],
};

/// The first line is the content type, the rest the body.
fn batch_body(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    let (content_type, body) = input.split_at_checked(end).unwrap_or_default();
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    let content_type = std::str::from_utf8(content_type).unwrap_or_default();
    let boundary = multipart::boundary(content_type.trim_end()).unwrap_or("b");
    for part in multipart::parse_batch_response(body, boundary).unwrap_or_default() {
        let _ = part.split();
    }
    let parts = match multipart::parse_batch(body, boundary) {
        Err(_) => return,
        Ok(BatchBody::Query(part)) => vec![part],
        Ok(BatchBody::ChangeSet(parts)) => parts,
    };
    assert!(parts.len() <= 101, "at most one operation too many is kept");
    let mut bytes = 0;
    for part in &parts {
        bytes += part.body.len() + part.target.len();
        let _ = (part.header("if-match"), part.headers.iter().count());
        url(part.target.as_bytes());
    }
    assert!(bytes <= body.len(), "no byte belongs to two parts");
}

pub(crate) const JSON: Target = Target {
    name: "json",
    run: json_body,
    words: &[
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\u0000",
        "\\ud83d\\ude00",
        "\\ud800",
        "null",
        "true",
        "1",
        "-0.0",
        "1e308",
        "9223372036854775807",
        "\"PartitionKey\":\"p\"",
        "\"RowKey\":\"r\"",
        "\"a@odata.type\":\"Edm.Int64\"",
        "\"a\":\"5\"",
        "Edm.Double",
        "Edm.Guid",
        "Edm.Binary",
        "Edm.DateTime",
        "Edm.Boolean",
        "INF",
        "-Infinity",
        "NaN",
        "\"odata.etag\":\"x\"",
        "\"TableName\":\"t\"",
        "\u{FEFF}",
    ],
};

fn json_body(input: &[u8]) {
    let _ = json::read_table_name(input);
    let Ok(body) = json::read_entity(input) else { return };
    rewrite(&body, |out, body, properties| {
        let now = Timestamp::UNIX_EPOCH;
        let (partition, row) = keys(body);
        json::write_entity(out, &context(), partition, row, now, properties.iter());
    });
}

pub(crate) const ATOM: Target = Target {
    name: "atom",
    run: atom_body,
    words: &[
        "<entry>",
        "</entry>",
        "<content type=\"application/xml\">",
        "</content>",
        "<m:properties>",
        "</m:properties>",
        "<d:PartitionKey>",
        "</d:PartitionKey>",
        "<d:RowKey/>",
        "<d:a m:type=\"Edm.Int32\">",
        "</d:a>",
        " m:null=\"true\"",
        "&amp;",
        "&#x41;",
        "&#0;",
        "<![CDATA[",
        "]]>",
        "<!--",
        "-->",
        "<?xml version=\"1.0\"?>",
        "<!DOCTYPE a [",
        "xmlns:d=",
        "\"http://schemas.microsoft.com/ado/2007/08/dataservices\"",
        "<",
        ">",
        "/",
        "\u{FEFF}",
    ],
};

fn atom_body(input: &[u8]) {
    let _ = atom::read_table_name(input);
    let Ok(body) = atom::read_entity(input) else { return };
    for form in [AtomForm::Indented, AtomForm::Compact] {
        rewrite_atom(&body, form);
    }
}

fn rewrite_atom(body: &EntityBody<'_>, form: AtomForm) {
    rewrite(body, |out, body, properties| {
        let now = Timestamp::UNIX_EPOCH;
        let (partition, row) = keys(body);
        let envelope = atom::Envelope { form, updated: now };
        atom::write_entity(out, &context(), envelope, partition, row, now, properties.iter());
    });
}

/// A storable entity, written as a response, reads back as sent.
fn rewrite(body: &EntityBody<'_>, write: impl Fn(&mut Vec<u8>, &EntityBody<'_>, &Properties<'_>)) {
    let Ok(properties) = Properties::new(body.properties.clone()) else { return };
    let (partition, row) = keys(body);
    if EntityKey::parse(partition, row).is_err() {
        return;
    }
    let mut out = Vec::new();
    write(&mut out, body, &properties);
    let read = match out.first() {
        Some(b'{') => odata::json::read_entity(&out),
        _ => odata::atom::read_entity(&out),
    };
    let read = read.unwrap_or_else(|error| {
        panic!("{error}, of what we wrote: {}", String::from_utf8_lossy(&out));
    });
    // A NaN is not equal to itself, so texts are compared. Negative zero is written without its sign.
    let shown = |pairs: &[(std::borrow::Cow<'_, str>, Value<'_>)]| {
        let unsigned = |(name, value): &(std::borrow::Cow<'_, str>, Value<'_>)| match value {
            Value::Double(double) if *double == 0.0 => format!("{name:?} 0.0"),
            value => format!("{name:?} {value:?}"),
        };
        pairs.iter().map(unsigned).collect::<Vec<_>>()
    };
    assert_eq!(shown(&read.properties), shown(&body.properties));
    let key = |key: &Option<std::borrow::Cow<'_, str>>| key.as_deref().unwrap_or("").to_owned();
    assert_eq!(key(&read.partition_key), key(&body.partition_key));
    assert_eq!(key(&read.row_key), key(&body.row_key));
    crate::stored::stores(&properties);
}

fn keys<'b>(body: &'b EntityBody<'_>) -> (&'b str, &'b str) {
    let key = |key: &'b Option<std::borrow::Cow<'_, str>>| key.as_deref().unwrap_or_default();
    (key(&body.partition_key), key(&body.row_key))
}

const fn context() -> Context<'static> {
    Context {
        base: "http://localhost/a/",
        account: "a",
        table: "t",
        level: MetadataLevel::Full,
        minimal_etag: true,
        select: None,
    }
}

pub(crate) const XML: Target = Target {
    name: "xml",
    run: xml_document,
    words: &[
        "<SignedIdentifiers>",
        "</SignedIdentifiers>",
        "<SignedIdentifier>",
        "</SignedIdentifier>",
        "<Id>",
        "</Id>",
        "<AccessPolicy>",
        "</AccessPolicy>",
        "<AccessPolicy/>",
        "<Start>",
        "</Start>",
        "<Expiry>",
        "</Expiry>",
        "<Permission>raud</Permission>",
        "2030-01-01T00:00:00Z",
        "<StorageServiceProperties>",
        "</StorageServiceProperties>",
        "<Cors>",
        "</Cors>",
        "<CorsRule>",
        "</CorsRule>",
        "<AllowedOrigins>*</AllowedOrigins>",
        "<AllowedMethods>GET</AllowedMethods>",
        "<MaxAgeInSeconds>5</MaxAgeInSeconds>",
        "<ExposedHeaders/>",
        "<AllowedHeaders/>",
        "<Logging>",
        "</Logging>",
        "&amp;",
        "&lt;",
        "&x;",
        "<![CDATA[x]]>",
        "<!--x-->",
        "<?x?>",
        "<!DOCTYPE a>",
        "\u{FEFF}",
    ],
};

/// An accepted document is accepted again after we write it.
fn xml_document(input: &[u8]) {
    let mut out = Vec::new();
    if let Ok(policies) = xml::read_signed_identifiers(input) {
        xml::write_signed_identifiers(&mut out, &policies);
        assert_eq!(xml::read_signed_identifiers(&out).as_ref(), Ok(&policies));
    }
    let versions = ["2012-02-12", "2019-02-02"].into_iter().filter_map(ApiVersion::parse);
    for version in versions {
        let Ok(patch) = xml::read_service_properties(input, version) else { continue };
        let properties = lazuli_model::ServiceProperties::default().patched(patch);
        out.clear();
        xml::write_service_properties(&mut out, &properties, version);
        let again = xml::read_service_properties(&out, version);
        assert!(again.is_ok(), "{again:?}: {}", String::from_utf8_lossy(&out));
        // The service sorts some lists as it writes, so only the second writing must agree.
        let mut second = Vec::new();
        let again = properties.patched(again.unwrap_or_default());
        xml::write_service_properties(&mut second, &again, version);
        assert_eq!(String::from_utf8_lossy(&second), String::from_utf8_lossy(&out));
    }
    let _ = xml::read_service_stats(input);
}

pub(crate) const URL: Target = Target {
    name: "url",
    run: url,
    words: &[
        "http://h/",
        "/a/",
        "T",
        "Tables",
        "$batch",
        "(",
        ")",
        "PartitionKey=",
        "RowKey=",
        "'",
        "''",
        ",",
        "%27",
        "%2F",
        "%",
        "%C3%A9",
        "%FF",
        "+",
        "?",
        "&",
        "=",
        "$filter=",
        "$top=",
        "comp=acl",
        "restype=service",
        "$count",
        "é",
        "//",
        "\"",
        ";",
        "#",
    ],
};

/// Paths, key predicates and queries.
fn url(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let target = uri::Target::parse(text);
    let query = target.query.unwrap_or_default();
    if let Ok(parsed) = Query::parse(query) {
        let _ = (parsed.get("comp"), parsed.iter().count());
    }
    let _ = Query::parse_lenient(query);
    let lenient = uri::percent_decode_lenient(target.path);
    let decoded = uri::percent_decode(target.path).unwrap_or(lenient);
    let (account, rest) = uri::split_account(&decoded);
    let _ = uri::split_location(account);
    for path in [&*decoded, rest] {
        match ResourcePath::parse(path) {
            Err(error) => assert!(!error.message(account).is_empty()),
            Ok(ResourcePath::Entity { table, partition_key, row_key }) => {
                let mut out = Vec::new();
                uri::write_entity_uri(&mut out, table, &partition_key, &row_key);
                let written = String::from_utf8_lossy(&out).into_owned();
                let again = uri::percent_decode(&written).map(std::borrow::Cow::into_owned);
                let again = again.as_deref().map(ResourcePath::parse);
                let expected = ResourcePath::Entity {
                    table,
                    partition_key: partition_key.clone(),
                    row_key: row_key.clone(),
                };
                // A name that needs escaping is written unchanged, because no table has one.
                if table.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
                    assert_eq!(again, Ok(Ok(expected)));
                }
            }
            Ok(_) => {}
        }
    }
    let _ = uri::parse_key_predicate(text);
}

pub(crate) const CREDENTIAL: Target = Target {
    name: "credential",
    run: credential,
    words: &[
        "SharedKey ",
        "SharedKeyLite ",
        "Bearer ",
        "a:",
        "sv=2019-02-02",
        "sv=2014-02-14",
        "&tn=T",
        "&sp=raud",
        "&se=2030-01-01",
        "&st=2020-01-01T00:00Z",
        "&sig=",
        "&si=p",
        "&sip=1.1.1.1-2.2.2.2",
        "&spr=https",
        "&spk=a",
        "&srk=b",
        "&epk=c",
        "&erk=d",
        "&ss=bqtf",
        "&srt=sco",
        "&ses=x",
        "&skoid=x",
        "&sktid=y",
        "&skt=2020-01-01",
        "&ske=2030-01-01",
        "&sks=t",
        "&skv=2025-07-05",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA%3D",
        "%0A",
        "\n",
        "=",
        "&",
    ],
};

/// No generated credential is accepted.
fn credential(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Some(keys) = forged::keys() else { return };
    if let Ok(Authorization::Signed { scheme, account, signature }) = Authorization::parse(text) {
        let request = SignedRequest {
            method: "GET",
            content_md5: "",
            content_type: text,
            date: text,
            account,
            path: text,
            comp: Some(text),
        };
        assert!(!request.is_signed_by(&keys, scheme, signature), "forged");
    }
    let _ = media::negotiate(Some(text), Some(text));
    let Ok(query) = Query::parse(text) else { return };
    let caller = forged::caller();
    match TableToken::parse(&query) {
        Ok(Some(TableToken::Service(sas))) => {
            assert!(sas.verify("a", &keys).is_err(), "forged");
            let _ = sas.grant(None, &caller).map(|grant| grant.check_key("p", "r"));
        }
        Ok(Some(TableToken::Account(sas))) => {
            forged::account_token(&sas, &keys, 't');
        }
        Ok(Some(TableToken::UserDelegation(sas))) => {
            let _ = sas.string_to_sign("a");
        }
        Ok(None) | Err(_) => {}
    }
}

pub(crate) const CONTINUATION: Target = Target {
    name: "continuation",
    run: continuation_token,
    words: &[
        "1!",
        "4!",
        "!",
        "cGs-",
        "bXl0YWJsZTIBMDFkN2M0NmI0YmIwM2ViMw--",
        "-",
        "_",
        "*",
        "=",
        "0",
    ],
};

/// A token has only one spelling.
fn continuation_token(input: &[u8]) {
    let Ok(token) = std::str::from_utf8(input) else { return };
    let _ = (continuation::decode_key(token), continuation::decode_table(token));
    let Some(bytes) = continuation::decode(token) else { return };
    let again = continuation::encode(&bytes);
    // The length may be spelled with leading zeros or a sign; the rest may not vary.
    let body = |token: &str| token.rsplit('!').next().map(str::to_owned);
    assert_eq!(body(&again), body(token));
    assert_eq!(continuation::decode(&again), Some(bytes));
}
