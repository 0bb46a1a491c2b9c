//! What recordings of clients from 2011 to 2018 show: the frame around Atom, preferences of updates,
//! status lines.

use super::atom::entry;
use crate::harness::{ACCOUNT, Lazuli, Op, Request, Response, order};

const ATOM_ENTRY: &str = "application/atom+xml;type=entry;charset=utf-8";
const ATOM_FEED: &str = "application/atom+xml;type=feed;charset=utf-8";
const ATOM_OF_2011: &str = "application/atom+xml;charset=utf-8";
const MINIMAL: &str = "application/json;odata=minimalmetadata;streaming=true;charset=utf-8";
const NOT_FOUND: &str = "The specified resource does not exist.";

/// A request of the Python client of 2015, which sends `Accept: */*`.
fn python(method: &str, target: &str) -> Request {
    Request::new(method, target)
        .version("2014-02-14")
        .with("DataServiceVersion", "2.0;NetFx")
        .with("MaxDataServiceVersion", "2.0;NetFx")
        .accept("*/*")
}

fn keyed(row: &str) -> String {
    entry(&format!("<d:PartitionKey>p</d:PartitionKey><d:RowKey>{row}</d:RowKey>"))
}

fn create(request: Request) -> Request {
    request.body("application/atom+xml", &entry("<d:TableName>Other</d:TableName>"))
}

/// 2.4, T-2.64.
#[test]
fn any_format_is_atom_as_long_as_there_is_atom() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let content_type = |request: Request, status: u16| {
        lazuli.send(&request).expect(status).header("content-type").unwrap().to_owned()
    };
    let insert = python("POST", "/Orders").body("application/atom+xml", &keyed("new"));
    assert_eq!(content_type(create(python("POST", "/Tables")), 201), ATOM_ENTRY);
    assert_eq!(content_type(insert, 201), ATOM_ENTRY);
    assert_eq!(content_type(python("GET", &order("r")), 200), ATOM_ENTRY);
    assert_eq!(content_type(python("GET", "/Tables('Orders')"), 200), ATOM_ENTRY);
    assert_eq!(content_type(python("GET", "/Orders()"), 200), ATOM_FEED);
    assert_eq!(content_type(python("GET", "/Tables"), 200), ATOM_FEED);
    for (version, expect) in [
        ("2011-08-18", ATOM_OF_2011),
        ("2012-02-12", ATOM_OF_2011),
        ("2013-08-15", ATOM_FEED),
        ("2015-07-08", ATOM_FEED),
        ("2015-12-11", MINIMAL),
    ] {
        let query = python("GET", "/Orders()").version(version);
        assert_eq!(content_type(query, 200), expect, "{version}");
    }
}

/// 2.9, T-2.64a: both forms, to the byte.
#[test]
fn atom_has_an_older_and_a_newer_form() {
    let lazuli = Lazuli::with_rows(&[("r", r#""A":1"#)]);
    let base = format!("http://{}/{ACCOUNT}/", lazuli.address);
    let key = "Orders(PartitionKey='p',RowKey='r')";
    let (data, atom) =
        ("http://schemas.microsoft.com/ado/2007/08/dataservices", "http://www.w3.org/2005/Atom");
    let etag = "m:etag=\"W/&quot;datetime'2024-07-31T18%3A30%3A00.0000002Z'&quot;\"";
    let properties = [
        "<d:PartitionKey>p</d:PartitionKey>",
        "<d:RowKey>r</d:RowKey>",
        "<d:Timestamp m:type=\"Edm.DateTime\">2024-07-31T18:30:00.0000002Z</d:Timestamp>",
        "<d:A m:type=\"Edm.Int32\">1</d:A>",
    ];
    let category = format!("<category term=\"{ACCOUNT}.Orders\" scheme=\"{data}/scheme\" />");
    let read =
        |version: &str| lazuli.send(&python("GET", &order("r")).version(version)).expect(200);
    let newer = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><entry xml:base=\"{base}\" xmlns=\"{atom}\" \
         xmlns:d=\"{data}\" xmlns:m=\"{data}/metadata\" {etag}><id>{base}{key}</id>{category}\
         <link rel=\"edit\" title=\"Orders\" href=\"{key}\" /><title />\
         <updated>2024-07-31T18:30:00Z</updated><author><name /></author>\
         <content type=\"application/xml\"><m:properties>{}</m:properties></content></entry>",
        properties.concat()
    );
    assert_eq!(read("2013-08-15").text(), newer);
    let lines = [
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>".to_owned(),
        format!(
            "<entry xml:base=\"{base}\" xmlns:d=\"{data}\" xmlns:m=\"{data}/metadata\" {etag} \
             xmlns=\"{atom}\">"
        ),
        format!("  <id>{base}{key}</id>"),
        "  <title type=\"text\"></title>".to_owned(),
        "  <updated>2024-07-31T18:30:00Z</updated>".to_owned(),
        "  <author>\r\n    <name />\r\n  </author>".to_owned(),
        format!("  <link rel=\"edit\" title=\"Orders\" href=\"{key}\" />"),
        format!("  {category}"),
        "  <content type=\"application/xml\">\r\n    <m:properties>".to_owned(),
        properties.map(|property| format!("      {property}")).join("\r\n"),
        "    </m:properties>\r\n  </content>\r\n</entry>".to_owned(),
    ];
    assert_eq!(read("2012-02-12").text(), lines.join("\r\n"));
}

/// T-2.32a.
#[test]
fn minimal_metadata_has_an_etag_from_2015_04_05_on() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let has_etag = |version: &str, target: &str, level: &str| {
        let accept = format!("application/json;odata={level}metadata");
        let read = lazuli.send(&Request::new("GET", target).version(version).accept(&accept));
        read.expect(200).text().contains("\"odata.etag\"")
    };
    for target in [order("r").as_str(), "/Orders()"] {
        for version in ["2013-08-15", "2014-02-14", "2015-02-21"] {
            assert!(!has_etag(version, target, "minimal"), "{version}");
            assert!(has_etag(version, target, "full"), "{version}");
        }
        for version in ["2015-04-05", "2016-05-31", "2019-02-02"] {
            assert!(has_etag(version, target, "minimal"), "{version}");
        }
        assert!(!has_etag("2019-02-02", target, "no"));
    }
}

/// A part of a change set as old clients write it: the whole batch has one format.
fn atom_op(method: &str, target: &str, body: &str) -> Op {
    Op::new(method, target, body).without("Accept").with("Content-Type", "application/atom+xml")
}

/// T-2.20: recorded with 2.0 at 2014-02-14, and with 1.0 at 2011-08-18.
#[test]
fn atom_inserts_in_a_batch_repeat_the_version_of_the_request() {
    let versions = |version: &str, data_service: [Option<&str>; 2]| {
        let lazuli = Lazuli::with_rows(&[("a", ""), ("b", "")]);
        let mut outer = Request::new("POST", "/$batch")
            .version(version)
            .accept("application/atom+xml,application/xml")
            .without("DataServiceVersion")
            .without("MaxDataServiceVersion");
        for (name, value) in
            ["DataServiceVersion", "MaxDataServiceVersion"].iter().zip(data_service)
        {
            outer = value.map_or(outer.clone(), |value| outer.with(name, value));
        }
        let entity = |row: &str| format!("Orders(PartitionKey='p',RowKey='{row}')");
        let operations = [
            atom_op("POST", "Orders", &keyed("new")),
            atom_op("PUT", &entity("a"), &keyed("a")).with("If-Match", "*"),
            Op::new("DELETE", &entity("b"), "").without("Accept").with("If-Match", "*"),
        ];
        let answer = lazuli.send_batch(&outer, &operations).expect(&[201, 204, 204]);
        let again = lazuli.send_batch(&outer, &operations[..1]).expect(&[409]);
        let parts = answer.parts.iter().chain(&again.parts);
        let found = parts.map(|part| part.header("dataserviceversion").unwrap());
        found.collect::<Vec<_>>().join(" ")
    };
    let check = |version, given, expect: &str| {
        assert_eq!(versions(version, given), format!("{expect} 1.0; 1.0; 1.0;"), "{given:?}");
    };
    check("2014-02-14", [Some("2.0;NetFx"), Some("2.0;NetFx")], "2.0;");
    check("2011-08-18", [Some("1.0;NetFx"), Some("2.0;NetFx")], "1.0;");
    // Never higher than the client can read.
    check("2014-02-14", [Some("3.0;NetFx"), Some("2.0;NetFx")], "2.0;");
    check("2014-02-14", [Some("2.0;NetFx"), Some("1.0")], "1.0;");
    // Without headers, the highest that the version supports (T-2.17).
    check("2014-02-14", [None, None], "3.0;");
    check("2011-08-18", [None, None], "2.0;");
    check("2014-02-14", [None, Some("2.0")], "2.0;");
}

/// T-2.64 in a batch, T-7.4a (i) for a failing part.
#[test]
fn parts_of_a_batch_speak_atom_too() {
    let lazuli = Lazuli::with_orders();
    let outer = Request::new("POST", "/$batch").version("2014-02-14").accept("*/*");
    let insert = atom_op("POST", "Orders", &keyed("r")).with("Content-ID", "1");
    let answer = lazuli.send_batch(&outer, std::slice::from_ref(&insert)).expect(&[201]);
    assert_eq!(answer.parts[0].header("content-type"), Some(ATOM_ENTRY));
    assert_eq!(answer.parts[0].reason, "Created");
    assert!(answer.parts[0].body.starts_with("<?xml version=\"1.0\" encoding=\"utf-8\"?><entry "));
    let answer = lazuli.send_batch(&outer, &[insert]).expect(&[409]);
    let part = &answer.parts[0];
    assert_eq!(part.header("content-type"), Some("application/xml;charset=utf-8"));
    assert_eq!((part.header("content-id"), part.reason.as_str()), (Some("1"), "Conflict"));
    assert!(part.body.contains("<code>EntityAlreadyExists</code>"), "{}", part.body);
}

/// T-2.57.
#[test]
fn updates_confirm_that_they_return_no_content() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let send = |method: &str, row: &str, if_match: Option<&str>, prefer: &str| {
        let mut request = Request::new(method, &order(row)).version("2016-05-31");
        request = request.with("Prefer", prefer);
        if method != "DELETE" {
            request = request.json("{}");
        }
        lazuli.send(&if_match.map_or(request.clone(), |etag| request.with("If-Match", etag)))
    };
    let confirmed = Some("return-no-content");
    for method in ["PUT", "MERGE", "PATCH"] {
        for if_match in [None, Some("*")] {
            let answer = send(method, "r", if_match, "return-no-content").expect(204);
            let answer = answer.expect_header("preference-applied", confirmed);
            let answer = answer.expect_header("location", None);
            answer.expect_header("dataserviceid", None);
        }
        // Errors of the operation repeat it (T-2.55); errors in reading the request do not.
        let missing = send(method, "none", Some("*"), "return-no-content").expect(404);
        missing.expect_header("preference-applied", confirmed);
        let foreign = send(method, "r", Some("W/\"x\""), "return-no-content").expect(412);
        foreign.expect_header("preference-applied", None);
        let content = send(method, "r", None, "return-content").expect(204);
        content.expect_header("preference-applied", None);
    }
    let delete = send("DELETE", "r", Some("*"), "return-no-content").expect(204);
    delete.expect_header("preference-applied", None);
}

/// T-2.20, T-2.57, T-6.32.
#[test]
fn updates_in_a_batch_confirm_it_too() {
    let lazuli = Lazuli::with_rows(&[("a", ""), ("b", ""), ("c", ""), ("d", "")]);
    let quiet = |method: &str, row: &str, body: &str| {
        Op::on(method, row, body).with("If-Match", "*").with("Prefer", "return-no-content")
    };
    let operations = [
        quiet("PUT", "a", "{}"),
        quiet("MERGE", "b", "{}"),
        quiet("PATCH", "c", "{}"),
        quiet("DELETE", "d", ""),
    ];
    let answer = lazuli.batch(&operations).expect(&[204; 4]);
    let confirmed =
        "X-Content-Type-Options Cache-Control Preference-Applied DataServiceVersion ETag";
    for part in &answer.parts[..3] {
        assert_eq!(part.header_names(), confirmed);
        assert_eq!(part.header("preference-applied"), Some("return-no-content"));
        assert_eq!(part.header("dataserviceversion"), Some("3.0;"));
    }
    let ignored = "X-Content-Type-Options Cache-Control DataServiceVersion";
    assert_eq!(answer.parts[3].header_names(), ignored);
    assert_eq!(answer.parts[3].header("dataserviceversion"), Some("1.0;"));
    let failed = lazuli.batch(&[quiet("MERGE", "none", "{}")]).expect(&[404]);
    let names = "X-Content-Type-Options Cache-Control Preference-Applied DataServiceVersion \
         Content-Type";
    assert_eq!(failed.parts[0].header_names(), names);
}

/// T-1.17a, T-7.4b.
#[test]
fn a_path_without_a_table_is_no_resource() {
    let lazuli = Lazuli::with_orders();
    for (method, target) in [
        ("GET", "/(PartitionKey='p',RowKey='r')"),
        ("DELETE", "/(PartitionKey='p',RowKey='r')"),
        ("GET", "/()"),
        ("GET", "/(nonsense"),
    ] {
        let refused = lazuli.send(&Request::new(method, target).with("If-Match", "*"));
        assert_eq!(refused.reason, NOT_FOUND);
        let refused = refused.expect_header("content-type", Some("application/json"));
        let refused = refused.expect_header("cache-control", None);
        refused.expect_error(404, "ResourceNotFound", NOT_FOUND);
    }
}

/// T-7.4a (i): recorded at 2014-02-14 for creates, inserts, updates and reads.
#[test]
fn errors_of_atom_are_compact_xml() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let check = |request: Request, status: u16, code: &str, reason: &str| {
        let answer = lazuli.send(&request).expect(status);
        assert_eq!(answer.reason, reason);
        let answer = answer.expect_header("content-type", Some("application/xml;charset=utf-8"));
        let answer = answer.expect_header("x-ms-error-code", None);
        let head = "<?xml version=\"1.0\" encoding=\"utf-8\"?><error xmlns=\"http://schemas.\
             microsoft.com/ado/2007/08/dataservices/metadata\"><code>";
        assert!(answer.text().starts_with(&format!("{head}{code}</code>")), "{}", answer.text());
    };
    lazuli.send(&create(python("POST", "/Tables"))).expect(201);
    check(create(python("POST", "/Tables")), 409, "TableAlreadyExists", "Conflict");
    let insert = python("POST", "/Orders").body("application/atom+xml", &keyed("r"));
    check(insert, 409, "EntityAlreadyExists", "Conflict");
    let keyless = python("POST", "/Orders").body("application/atom+xml", &entry(""));
    check(keyless, 400, "PropertiesNeedValue", "Bad Request");
    let etag = "W/\"datetime'2012-06-15T22%3A51%3A44.9662825Z'\"";
    let update = python("PUT", &order("r")).body("application/atom+xml", &entry(""));
    let update = update.with("If-Match", etag);
    check(update, 412, "UpdateConditionNotSatisfied", "Precondition Failed");
    check(python("GET", &order("none")), 404, "ResourceNotFound", "Not Found");
    // Before 2013-08-15 it is indented, as Atom is (T-7.4c).
    let indented = lazuli.send(&python("GET", &order("none")).version("2011-08-18"));
    let head = "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\r\n<error xmlns=\"\
         http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\r\n  \
         <code>ResourceNotFound</code>\r\n  <message xml:lang=\"en-US\">";
    assert!(indented.text().starts_with(head), "{}", indented.text());
    assert!(indented.text().ends_with("</message>\r\n</error>"));
}

/// T-2.60: recorded without it at 2016-05-31 and with it at 2018-03-28; the exact version is unverified.
#[test]
fn the_error_code_header_begins_with_2017_07_29() {
    let lazuli = Lazuli::empty();
    let send = |version: &str, method: &str| {
        let acl = Request::new(method, "/Nosuch?comp=acl").version(version);
        lazuli.send(&acl.accept("application/xml")).expect(404)
    };
    let check = |answer: Response, expect| answer.expect_header("x-ms-error-code", expect);
    for version in ["2014-02-14", "2016-05-31", "2017-04-17"] {
        check(send(version, "GET"), None);
        // Nothing else names the error of a HEAD (T-7.8).
        check(send(version, "HEAD"), Some("TableNotFound"));
        let unsigned = Request::new("GET", "/Tables").version(version).unsigned();
        check(lazuli.send(&unsigned).expect(403), None);
    }
    for version in ["2017-07-29", "2018-03-28", "2019-02-02"] {
        check(send(version, "GET"), Some("TableNotFound"));
    }
}

/// T-7.4b.
#[test]
fn status_lines_have_the_usual_phrase_or_the_text_of_the_error() {
    let lazuli = Lazuli::with_orders();
    let reason = |request: Request| lazuli.send(&request).reason;
    let insert = || Request::new("POST", "/Orders").json(r#"{"PartitionKey":"p","RowKey":"r"}"#);
    assert_eq!(reason(insert()), "Created");
    assert_eq!(reason(insert()), "Conflict");
    assert_eq!(reason(Request::new("GET", &order("r"))), "OK");
    assert_eq!(reason(Request::new("GET", &order("none"))), "Not Found");
    assert_eq!(reason(Request::new("DELETE", &order("r")).with("If-Match", "*")), "No Content");
    assert_eq!(reason(Request::new("GET", "/Orders()?$filter=a%20b")), "Bad Request");
    let properties = "/?restype=service&comp=properties";
    let set = |body: &str| Request::new("PUT", properties).body("application/xml", body);
    assert_eq!(reason(set("<StorageServiceProperties></StorageServiceProperties>")), "Accepted");
    assert_eq!(reason(set("<nonsense")), "XML specified is not syntactically valid.");
    let answer = lazuli.batch(&[Op::insert("a"), Op::on("PUT", "b", "{}")]);
    let reasons: Vec<&str> = answer.parts.iter().map(|part| part.reason.as_str()).collect();
    assert_eq!(reasons, ["Created", "No Content"]);
    assert_eq!(answer.outer.reason, "Accepted");
}
