//! Headers, service resources, authorization.

use crate::harness::{ACCOUNT, Lazuli, Op, Request, Scheme, order, well_known_key};
use lazuli_wire::sas::{AccountSas, TableSas};

const FAILED: &str = "Server failed to authenticate the request. Make sure the value of \
     Authorization header is formed correctly including the signature.";
const MISMATCH: &str =
    "This request is not authorized to perform this operation using this permission.";

fn table_sas(permissions: &str) -> String {
    let sas = TableSas {
        version: "2019-02-02",
        table: "Orders",
        expiry: "2030-01-01T00:00:00Z",
        permissions,
        ..TableSas::default()
    };
    sas.token(ACCOUNT, &well_known_key()).unwrap()
}

/// TR-83: answers confirmed a preference that the request did not have (T-2.52 to T-2.54).
#[test]
fn a_preference_is_applied_only_when_sent() {
    let lazuli = Lazuli::with_orders();
    let insert = |row: &str| {
        let body = format!(r#"{{"PartitionKey":"p","RowKey":"{row}"}}"#);
        Request::new("POST", "/Orders").json(&body)
    };
    let header = "preference-applied";
    lazuli.send(&insert("a")).expect(201).expect_header(header, None);
    let content = insert("b").with("Prefer", "return-content");
    lazuli.send(&content).expect(201).expect_header(header, Some("return-content"));
    let no_content = insert("c").with("Prefer", "return-no-content");
    let answer = lazuli.send(&no_content).expect(204);
    let answer = answer.expect_header(header, Some("return-no-content"));
    assert!(answer.body.is_empty());
    // Errors repeat it (T-2.55), other operations do not (T-2.57).
    lazuli.send(&no_content).expect(409).expect_header(header, Some("return-no-content"));
    let query = Request::new("GET", "/Orders()").with("Prefer", "return-no-content");
    lazuli.send(&query).expect(200).expect_header(header, None);
}

/// TR-84: the answer named the emulator's own newest version (T-2.7).
#[test]
fn the_answer_names_the_version_of_the_request() {
    let lazuli = Lazuli::with_orders();
    for version in ["2026-06-06", "2020-12-06", "2019-02-02", "2017-04-17", "2015-12-11"] {
        let answer = lazuli.send(&Request::new("GET", "/Tables").version(version)).expect(200);
        answer.expect_header("x-ms-version", Some(version));
        let missing = Request::new("GET", &order("missing")).version(version);
        lazuli.send(&missing).expect(404).expect_header("x-ms-version", Some(version));
    }
}

/// TR-85: content types lacked their last parameters (T-2.21).
#[test]
fn content_types_are_complete() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for level in ["nometadata", "minimalmetadata", "fullmetadata"] {
        let content_type = format!("application/json;odata={level};streaming=true;charset=utf-8");
        for target in ["/Tables", "/Tables('Orders')", "/Orders()", &order("r"), &order("none")] {
            let request = Request::new("GET", target);
            let answer = lazuli.send(&request.accept(&format!("application/json;odata={level}")));
            answer.expect_header("content-type", Some(&content_type));
        }
    }
}

/// TR-86: inserts and new tables had no Location (T-2.52, 2.8).
#[test]
fn what_was_made_is_located() {
    let lazuli = Lazuli::empty();
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let (table, entity) =
        (format!("{base}/Tables('Orders')"), format!("{base}/Orders(PartitionKey='p',RowKey='r')"));
    let create = Request::new("POST", "/Tables").json(r#"{"TableName":"Orders"}"#);
    let quiet = create.clone().with("Prefer", "return-no-content");
    let answer = lazuli.send(&quiet).expect(204).expect_header("location", Some(&table));
    answer.expect_header("dataserviceid", Some(&table)).expect_header("content-length", Some("0"));
    lazuli.send(&Request::new("DELETE", "/Tables('Orders')")).expect(204);
    let answer = lazuli.send(&create).expect(201).expect_header("location", Some(&table));
    answer.expect_header("dataserviceid", None);

    let insert = Request::new("POST", "/Orders").json(r#"{"PartitionKey":"p","RowKey":"r"}"#);
    let quiet = insert.clone().with("Prefer", "return-no-content");
    let answer = lazuli.send(&quiet).expect(204).expect_header("location", Some(&entity));
    answer.expect_header("dataserviceid", Some(&entity)).expect_header("content-length", Some("0"));
    lazuli.write("DELETE", "r", Some("*"), "").expect(204);
    let answer = lazuli.send(&insert).expect(201).expect_header("location", Some(&entity));
    answer.expect_header("dataserviceid", None);
}

/// TR-87: a wildcard in Accept was refused even on DELETE (T-2.15a, 2.4).
#[test]
fn a_wildcard_is_taken_but_for_access_policies() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let wild = |request: Request| lazuli.send(&request.accept("*/*"));
    let acl = Request::new("PUT", "/Orders?comp=acl").body("application/xml", "");
    let message = "None of the provided media types are supported";
    wild(acl).expect_xml_error(415, "MediaTypeNotSupported", message);
    let minimal = "application/json;odata=minimalmetadata;streaming=true;charset=utf-8";
    let read = wild(Request::new("GET", &order("r"))).expect(200);
    read.expect_header("content-type", Some(minimal));
    let batch =
        lazuli.send_batch(&Request::new("POST", "/$batch").accept("*/*"), &[Op::insert("s")]);
    batch.expect(&[201]);
    wild(Request::new("DELETE", &order("r")).with("If-Match", "*")).expect(204);
    wild(Request::new("DELETE", "/Tables('Orders')")).expect(204);
}

/// TR-88: XML errors had the root of another service (T-7.1, T-7.4).
#[test]
fn xml_errors_are_of_the_metadata_namespace() {
    let lazuli = Lazuli::with_orders();
    let request = Request::new("PUT", "/Orders?comp=acl").accept("application/xml");
    let answer = lazuli.send(&request.body("application/xml", "<Signed"));
    let id = answer.header("x-ms-request-id").unwrap();
    let expect = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?><m:error \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\">\
         <m:code>InvalidXmlDocument</m:code><m:message xml:lang=\"en-US\">XML specified is not \
         syntactically valid.\nRequestId:{id}\nTime:2024-07-31T18:30:00.0000000Z</m:message>\
         </m:error>"
    );
    assert_eq!((answer.status, answer.text()), (400, expect.as_str()));
    let answer = answer.expect_header("content-type", Some("application/xml"));
    answer.expect_header("x-ms-error-code", Some("InvalidXmlDocument"));
}

/// TR-89: an identifier without a policy was refused (T-9.21).
#[test]
fn an_identifier_may_have_no_policy_or_part_of_one() {
    let lazuli = Lazuli::with_orders();
    let given = "<SignedIdentifiers><SignedIdentifier><Id>none</Id></SignedIdentifier>\
         <SignedIdentifier><Id>empty</Id><AccessPolicy /></SignedIdentifier>\
         <SignedIdentifier><Id>part</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>\
         </SignedIdentifier></SignedIdentifiers>";
    let acl = |method: &str| Request::new(method, "/Orders?comp=acl").accept("application/xml");
    lazuli.send(&acl("PUT").body("application/xml", given)).expect(204);
    let kept = lazuli.send(&acl("GET")).expect(200);
    assert!(kept.text().ends_with(&given.replace("<AccessPolicy />", "")), "{}", kept.text());
}

/// TR-90: there were no statistics (T-9.16).
#[test]
fn the_secondary_tells_statistics() {
    let lazuli = Lazuli::empty();
    let stats = Request::new("GET", "/?restype=service&comp=stats").accept("application/xml");
    let answer = lazuli.send(&stats.clone().at_secondary()).expect(200);
    let expect = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><StorageServiceStats>\
         <GeoReplication><Status>live</Status><LastSyncTime>Wed, 31 Jul 2024 18:30:00 GMT\
         </LastSyncTime></GeoReplication></StorageServiceStats>";
    assert_eq!(answer.text(), expect);
    let message = "Value for one of the query parameters specified in the request URI is invalid.";
    lazuli.send(&stats).expect_xml_error(400, "InvalidQueryParameterValue", message);
}

/// TR-91: service properties, CORS and access policies were missing (9.2 to 9.5).
#[test]
fn service_resources_are_there() {
    let lazuli = Lazuli::with_orders();
    for target in ["/?restype=service&comp=properties", "/Orders?comp=acl"] {
        lazuli.send(&Request::new("GET", target).accept("application/xml")).expect(200);
    }
    let cors = "<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>http://a</AllowedOrigins>\
         <AllowedMethods>GET,PATCH</AllowedMethods><MaxAgeInSeconds>500</MaxAgeInSeconds>\
         <ExposedHeaders>x-ms-*</ExposedHeaders><AllowedHeaders>x-ms-*</AllowedHeaders></CorsRule>\
         </Cors></StorageServiceProperties>";
    let set = Request::new("PUT", "/?restype=service&comp=properties");
    lazuli.send(&set.body("application/xml", cors)).expect(202);
    let preflight = Request::new("OPTIONS", "/Orders")
        .unsigned()
        .with("Origin", "http://a")
        .with("Access-Control-Request-Method", "PATCH")
        .with("Access-Control-Request-Headers", "x-ms-date,x-ms-version");
    let answer = lazuli.send(&preflight).expect(200);
    let answer = answer.expect_header("access-control-allow-origin", Some("http://a"));
    let answer =
        answer.expect_header("access-control-allow-headers", Some("x-ms-date,x-ms-version"));
    answer.expect_header("access-control-max-age", Some("500"));
    let real = lazuli.send(&Request::new("GET", "/Tables").with("Origin", "http://a")).expect(200);
    real.expect_header("access-control-allow-origin", Some("http://a"));
}

/// TR-92: a table SAS failed for names of mixed case (A-4.2).
#[test]
fn a_table_sas_signs_the_name_in_lower_case() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for target in ["/Orders()", "/orders()", "/ORDERS()"] {
        let page = lazuli.send(&Request::new("GET", target).sas(&table_sas("r"))).expect(200);
        assert_eq!(page.row_keys(), "r");
    }
}

/// TR-93: an account SAS from 2020-12-06 on failed (A-5.2).
#[test]
fn an_account_sas_of_any_version_works() {
    let lazuli = Lazuli::with_orders();
    for version in ["2015-04-05", "2019-02-02", "2020-12-06", "2024-08-04"] {
        let sas = AccountSas {
            version,
            services: "bqtf",
            resource_types: "sco",
            permissions: "rwdlacu",
            expiry: "2030-01-01T00:00:00Z",
            ..AccountSas::default()
        };
        let token = sas.token(ACCOUNT, &well_known_key()).unwrap();
        lazuli.send(&Request::new("GET", "/Tables").sas(&token)).expect(200);
    }
}

/// TR-94: Shared Key took Date before x-ms-date (A-1.9).
#[test]
fn x_ms_date_wins_over_date() {
    let lazuli = Lazuli::with_orders();
    let dated = |name: &str, date: &str| Request::new("GET", "/Tables").with(name, date);
    let (now, old) = ("Wed, 31 Jul 2024 18:30:00 GMT", "Mon, 01 Jan 2001 00:00:00 GMT");
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        let both = dated("x-ms-date", now).also("Date", old).scheme(scheme);
        lazuli.send(&both).expect(200);
        lazuli.send(&dated("Date", now).scheme(scheme)).expect(200);
        let both = dated("x-ms-date", old).also("Date", now).scheme(scheme);
        lazuli.send(&both).expect_error(403, "AuthenticationFailed", FAILED);
    }
}

/// TR-95: one letter was enough for a whole transaction, and `u` for an upsert (auth.md 9).
#[test]
fn each_operation_needs_its_own_letters() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let batch = |permissions: &str, operations: &[Op]| {
        let request = Request::new("POST", "/$batch").sas(&table_sas(permissions));
        lazuli.send_batch(&request, operations)
    };
    let delete = || Op::on("DELETE", "r", "").with("If-Match", "*");
    let both = [Op::insert("new"), delete()];
    let code = "AuthorizationPermissionMismatch";
    batch("a", &both).expect_error(403, code, &format!("1:{MISMATCH}"));
    batch("d", &both).expect_error(403, code, &format!("0:{MISMATCH}"));
    assert_eq!(lazuli.rows(""), "r");
    for permissions in ["a", "u", "r", "d"] {
        let upsert = Request::new("PUT", &order("r")).json("{}").sas(&table_sas(permissions));
        lazuli.send(&upsert).expect_error(403, code, MISMATCH);
    }
    let upsert = Request::new("PUT", &order("r")).json("{}").sas(&table_sas("au"));
    lazuli.send(&upsert).expect(204);
    batch("ad", &both).expect(&[201, 204]);
}

/// TR-96: a path signed with its unreserved characters un-escaped failed (A-2.13).
#[test]
fn unreserved_characters_may_be_signed_un_escaped() {
    let lazuli = Lazuli::with_rows(&[("a~b", "")]);
    let target = "/Orders(PartitionKey='p',RowKey='a%7Eb')";
    lazuli.get(target).expect(200);
    // Sent with the escape, signed without it.
    let plain = Request::new("GET", &target.replace("%7E", "~"));
    let bytes = plain.bytes(&lazuli.address.to_string(), lazuli_model::Clock::now(&*lazuli.clock));
    let text = String::from_utf8(bytes).unwrap().replacen("a~b", "a%7Eb", 1);
    lazuli.send_raw(text.as_bytes()).expect(200);
    let text = text.replacen("a%7Eb", "a%7Ec", 1);
    lazuli.send_raw(text.as_bytes()).expect_error(403, "AuthenticationFailed", FAILED);
}

/// TR-97: the text of a failed authentication had a word too many (A-10.2).
#[test]
fn failed_authentication_reads_as_the_live_service_says_it() {
    let lazuli = Lazuli::with_orders();
    let forged =
        Request::new("GET", "/Tables").with("Authorization", "SharedKey devstoreaccount1:AAAA");
    let answer = lazuli.send(&forged).expect_error(403, "AuthenticationFailed", FAILED);
    let answer = answer.expect_header("x-ms-error-code", Some("AuthenticationFailed"));
    answer.expect_header("content-type", Some("application/json"));
}

/// TR-98: requests were checked in part (T-5.46).
#[test]
fn checks_come_in_one_order() {
    let lazuli = Lazuli::with_orders();
    let bad_body = "{";
    // Authentication before everything.
    let request = Request::new("POST", "/my_table").json(bad_body).unsigned();
    assert_eq!(lazuli.send(&request).status, 403);
    // The name before format, headers and body.
    let request = Request::new("PUT", "/my_table(PartitionKey='p',RowKey='r')");
    let named = lazuli.send(&request.json(bad_body).with("If-Match", "wrong").accept("text/plain"));
    let message = "The specifed resource name contains invalid characters.";
    named.expect_xml_error(400, "InvalidResourceName", message);
    // Headers before the body, the body before the table's existence, and that before the entity's.
    let put = |table: &str, if_match: &str, body: &str| {
        let target = format!("/{table}(PartitionKey='p',RowKey='r')");
        lazuli.send(&Request::new("PUT", &target).json(body).with("If-Match", if_match))
    };
    assert!(put("Nosuch", "wrong", bad_body).text().contains("The etag value 'wrong'"));
    let message = "An error occurred while processing this request.";
    put("Nosuch", "*", bad_body).expect_error(400, "InvalidInput", message);
    let message = "The table specified does not exist.";
    put("Nosuch", "*", "{}").expect_error(404, "TableNotFound", message);
    let message = "The specified resource does not exist.";
    let etag = "W/\"datetime'2020-01-01T00%3A00%3A00Z'\"";
    put("Orders", etag, "{}").expect_error(404, "ResourceNotFound", message);
}

/// TR-99: old clients failed in assorted ways (T-2.11). Their own suites run against the binary; this
/// covers how their requests differ.
#[test]
fn the_requests_of_old_clients_work() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for version in ["2015-04-05", "2016-05-31", "2017-04-17", "2017-07-29", "2018-03-28"] {
        let old = |method: &str, target: &str| {
            Request::new(method, target)
                .version(version)
                .with("DataServiceVersion", "3.0;NetFx")
                .with("MaxDataServiceVersion", "3.0;NetFx")
                .with("Accept-Charset", "UTF-8")
                .scheme(Scheme::SharedKeyLite)
        };
        lazuli.send(&old("GET", "/Orders()?timeout=5000")).expect(200);
        let tunnelled = old("POST", &order("r")).with("X-HTTP-Method", "MERGE");
        let merge = tunnelled.with("If-Match", "*").json(r#"{"A":1}"#);
        lazuli.send(&merge).expect(204).expect_header("dataserviceversion", None);
        lazuli.send(&old("MERGE", &order("r")).with("If-Match", "*").json("{}")).expect(204);
    }
}
