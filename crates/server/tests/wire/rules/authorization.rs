//! `auth.md`: what the unit tests do not show over HTTP.

use crate::harness::{
    ACCOUNT, Lazuli, Op, Request, Response, Scheme, encode, order, well_known_key,
};
use lazuli_wire::sas::{AccountSas, TableSas};

const FAILED: &str = "Server failed to authenticate the request. Make sure the value of \
     Authorization header is formed correctly including the signature.";
const NOT_AUTHORIZED: &str = "This request is not authorized to perform this operation.";

fn table_sas<'a>() -> TableSas<'a> {
    TableSas {
        version: "2019-02-02",
        table: "Orders",
        expiry: "2030-01-01T00:00:00Z",
        permissions: "raud",
        ..TableSas::default()
    }
}

fn account_sas<'a>() -> AccountSas<'a> {
    AccountSas {
        version: "2019-02-02",
        services: "t",
        resource_types: "sco",
        permissions: "rwdlacu",
        expiry: "2030-01-01T00:00:00Z",
        ..AccountSas::default()
    }
}

/// A GET of all of `Orders` with a token for it.
fn query(lazuli: &Lazuli, sas: &TableSas<'_>) -> Response {
    let token = sas.token(ACCOUNT, &well_known_key()).unwrap();
    lazuli.send(&Request::new("GET", "/Orders()").sas(&token))
}

fn list(lazuli: &Lazuli, sas: &AccountSas<'_>) -> Response {
    let token = sas.token(ACCOUNT, &well_known_key()).unwrap();
    lazuli.send(&Request::new("GET", "/Tables").sas(&token))
}

/// A-1.4 (unverified), A-1.5, A-1.6, A-1.8.
#[test]
fn credentials_are_one_and_well_formed() {
    let lazuli = Lazuli::with_orders();
    let get = |version: &str| Request::new("GET", "/Tables").version(version);
    let none = lazuli.send(&get("2019-02-02").unsigned());
    none.expect_error(403, "AuthenticationFailed", FAILED).expect_header("www-authenticate", None);
    let none = lazuli.send(&get("2020-12-06").unsigned()).expect(401);
    assert!(none.header("www-authenticate").unwrap().starts_with("Bearer authorization_uri="));
    none.expect_header("x-ms-error-code", Some("NoAuthenticationInformation"));
    let token = account_sas().token(ACCOUNT, &well_known_key()).unwrap();
    let both = Request::new("GET", &format!("/Tables?{token}"));
    lazuli.send(&both).expect_error(403, "AuthenticationFailed", FAILED);
    let message = "Authentication information is not given in the correct format. Check the value \
         of Authorization header.";
    for header in ["SharedKey devstoreaccount1", "Basic dXNlcg==", "nonsense"] {
        let malformed = lazuli.send(&get("2019-02-02").with("Authorization", header));
        malformed.expect_error(400, "InvalidAuthenticationInfo", message);
    }
    let other = get("2019-02-02").with("Authorization", "SharedKey acct1:AAAA");
    lazuli.send(&other).expect_error(403, "AuthenticationFailed", FAILED);
}

/// A-4.15a (unverified).
#[test]
fn a_parameter_of_a_token_given_twice_is_refused() {
    let lazuli = Lazuli::with_orders();
    let token = table_sas().token(ACCOUNT, &well_known_key()).unwrap();
    for repeated in ["sig=AAAA", "sp=raud", "tn=Other"] {
        for token in [format!("{token}&{repeated}"), format!("{repeated}&{token}")] {
            let refused = lazuli.send(&Request::new("GET", "/Orders()").sas(&token));
            refused.expect_error(403, "AuthenticationFailed", FAILED);
        }
    }
}

/// A-1.11.
#[test]
fn a_signed_date_holds_for_a_quarter_of_an_hour() {
    let lazuli = Lazuli::with_orders();
    let dated = |date: &str| lazuli.send(&Request::new("GET", "/Tables").with("x-ms-date", date));
    dated("Wed, 31 Jul 2024 18:15:00 GMT").expect(200);
    dated("Wed, 31 Jul 2024 18:45:00 GMT").expect(200);
    for date in ["Wed, 31 Jul 2024 18:14:59 GMT", "Wed, 31 Jul 2024 18:45:01 GMT", "today"] {
        dated(date).expect_error(403, "AuthenticationFailed", FAILED);
    }
}

/// A-2.5, A-2.8, A-2.10, A-12.1, A-12.5.
#[test]
fn both_schemes_sign_every_form_of_address() {
    let row = "~'% é";
    let lazuli = Lazuli::with_rows(&[(row, "")]);
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        for target in [order(row), "/Orders()?$top=1".to_owned(), "/Orders?comp=acl".to_owned()] {
            let request = Request::new("GET", &target).scheme(scheme);
            lazuli.send(&request).expect(200);
            lazuli.send(&request.clone().at_secondary()).expect(200);
            lazuli.send(&request.at_host("devstoreaccount1.table.localhost")).expect(200);
        }
    }
}

/// A-2.14 (unverified, a tolerance).
#[test]
fn quotes_may_be_signed_in_another_spelling() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let now = lazuli_model::Clock::now(&*lazuli.clock);
    let raw = Request::new("GET", &order("r")).bytes(&lazuli.address.to_string(), now);
    let encoded = String::from_utf8(raw).unwrap().replacen('\'', "%27", 4);
    lazuli.send_raw(encoded.as_bytes()).expect(200);
}

/// A-4.2, A-4.4, every form of the string to sign; A-12.4: signatures arrive encoded.
#[test]
fn a_table_sas_of_any_version_works() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for version in ["2012-02-12", "2014-02-14", "2015-02-21", "2015-04-05", "2020-12-06"] {
        let sas = TableSas { version, ..table_sas() };
        assert_eq!(query(&lazuli, &sas).expect(200).row_keys(), "r", "{version}");
    }
    let forged = query(&lazuli, &table_sas());
    assert_eq!(forged.status, 200);
    let token = table_sas().token(ACCOUNT, &well_known_key()).unwrap().replace("sp=raud", "sp=r");
    let forged = lazuli.send(&Request::new("GET", "/Orders()").sas(&token));
    forged.expect_error(403, "AuthenticationFailed", FAILED);
}

/// A-4.5 (unverified), A-4.11, A-9.1, T-4.77.
#[test]
fn a_table_sas_is_for_its_table_alone() {
    let lazuli = Lazuli::with_orders();
    lazuli.create_table("Others").expect(201);
    let token = table_sas().token(ACCOUNT, &well_known_key()).unwrap();
    for (method, target) in [
        ("GET", "/Others()"),
        ("GET", "/Tables"),
        ("POST", "/Tables"),
        ("DELETE", "/Tables('Orders')"),
    ] {
        let request = Request::new(method, target).json("{}").sas(&token);
        lazuli.send(&request).expect_error(403, "AuthorizationFailure", NOT_AUTHORIZED);
    }
    for target in ["/Orders?comp=acl", "/?restype=service&comp=properties"] {
        let request = Request::new("GET", target).accept("application/xml").sas(&token);
        lazuli.send(&request).expect_xml_error(403, "AuthorizationFailure", NOT_AUTHORIZED);
    }
    // Without x-ms-version, the token's own version applies.
    let bare = Request::new("GET", "/Orders()").sas(&token).without("x-ms-version");
    lazuli.send(&bare).expect(200).expect_header("x-ms-version", Some("2019-02-02"));
    let named = Request::new("GET", "/Orders()?api-version=2018-03-28").sas(&token);
    let named = lazuli.send(&named.without("x-ms-version")).expect(200);
    named.expect_header("x-ms-version", Some("2018-03-28"));
}

/// A-4.8, A-4.9.
#[test]
fn a_token_has_its_time() {
    let lazuli = Lazuli::with_orders();
    for (start, expiry, status) in [
        ("", "2024-07-31T18:30:01Z", 200),
        ("2024-07-31", "2024-08-01", 200),
        ("2024-07-31T18:30Z", "2024-07-31T18:31Z", 200),
        ("2024-07-31T18:30:00.0000000Z", "2024-08-01T00:00:00Z", 200),
        ("2024-07-31T18:30:01Z", "2024-08-01T00:00:00Z", 403),
        ("", "2024-07-31T18:29:59Z", 403),
        ("", "someday", 403),
    ] {
        let answer = query(&lazuli, &TableSas { start, expiry, ..table_sas() });
        assert_eq!(answer.status, status, "{start} {expiry}");
    }
}

/// A-4.12 to A-4.15, A-12.6.
#[test]
fn a_range_of_keys_bounds_reads_and_writes() {
    let lazuli = Lazuli::with_rows(&[("1", ""), ("2", ""), ("3", ""), ("4", "")]);
    let sas = TableSas {
        start_partition_key: Some("p"),
        start_row_key: Some("2"),
        end_partition_key: Some("p"),
        end_row_key: Some("3"),
        ..table_sas()
    };
    assert_eq!(query(&lazuli, &sas).expect(200).row_keys(), "2 3");
    let token = sas.token(ACCOUNT, &well_known_key()).unwrap();
    let send = |method: &str, row: &str| {
        let request = Request::new(method, &order(row)).json("{}").with("If-Match", "*");
        lazuli.send(&request.sas(&token))
    };
    assert_eq!(send("GET", "2").status, 200);
    assert_eq!(send("PUT", "3").status, 204);
    for method in ["GET", "PUT", "MERGE", "DELETE"] {
        for row in ["1", "4"] {
            send(method, row).expect_error(403, "AuthorizationFailure", NOT_AUTHORIZED);
        }
    }
    let batch = Request::new("POST", "/$batch").sas(&token);
    let operations = [Op::on("PUT", "2", "{}"), Op::on("PUT", "4", "{}")];
    let answer = lazuli.send_batch(&batch, &operations);
    answer.expect_error(403, "AuthorizationFailure", &format!("1:{NOT_AUTHORIZED}"));
    let lame = TableSas { start_partition_key: None, ..sas };
    query(&lazuli, &lame).expect_error(403, "AuthenticationFailed", FAILED);
}

/// A-5.3, A-5.5, auth.md 9.
#[test]
fn an_account_sas_is_told_what_it_lacks() {
    let lazuli = Lazuli::with_orders();
    let refused = |sas: AccountSas<'_>, code: &str, what: &str| {
        let message = format!("{} using this {what}.", NOT_AUTHORIZED.trim_end_matches('.'));
        list(&lazuli, &sas).expect_error(403, code, &message);
    };
    refused(
        AccountSas { services: "bqf", ..account_sas() },
        "AuthorizationServiceMismatch",
        "service",
    );
    refused(
        AccountSas { resource_types: "so", ..account_sas() },
        "AuthorizationResourceTypeMismatch",
        "resource type",
    );
    refused(
        AccountSas { permissions: "rwdacu", ..account_sas() },
        "AuthorizationPermissionMismatch",
        "permission",
    );
    refused(
        AccountSas { protocol: "https", ..account_sas() },
        "AuthorizationProtocolMismatch",
        "protocol",
    );
    refused(
        AccountSas { addresses: "10.0.0.1-10.0.0.9", ..account_sas() },
        "AuthorizationSourceIPMismatch",
        "source IP 127.0.0.1",
    );
    let narrow = AccountSas {
        addresses: "127.0.0.1",
        protocol: "https,http",
        permissions: "lxyz",
        resource_types: "c",
        ..account_sas()
    };
    list(&lazuli, &narrow).expect(200);
}

/// A-6.3 to A-6.9.
#[test]
fn a_stored_policy_completes_a_token() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let set = |policy: &str| {
        let body = format!(
            "<SignedIdentifiers><SignedIdentifier><Id>pol</Id><AccessPolicy>{policy}\
             </AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        );
        let request = Request::new("PUT", "/Orders?comp=acl").accept("application/xml");
        lazuli.send(&request.body("application/xml", &body)).expect(204);
    };
    let by_policy = TableSas { policy: "pol", expiry: "", permissions: "", ..table_sas() };
    let refused = |sas: &TableSas<'_>| {
        query(&lazuli, sas).expect_error(403, "AuthenticationFailed", FAILED);
    };
    refused(&by_policy);
    set("<Expiry>2030-01-01T00:00:00Z</Expiry><Permission>r</Permission>");
    assert_eq!(query(&lazuli, &by_policy).expect(200).row_keys(), "r");
    // The same field in both, and a policy with another name.
    refused(&TableSas { expiry: "2030-01-01T00:00:00Z", ..by_policy });
    refused(&TableSas { permissions: "r", ..by_policy });
    refused(&TableSas { policy: "other", ..by_policy });
    // The token supplies what the policy leaves open; what neither has is missing.
    set("<Permission>r</Permission>");
    refused(&by_policy);
    query(&lazuli, &TableSas { expiry: "2030-01-01T00:00:00Z", ..by_policy }).expect(200);
    // A change takes effect at once.
    set("<Expiry>2020-01-01T00:00:00Z</Expiry><Permission>r</Permission>");
    refused(&by_policy);
    let token = account_sas().token(ACCOUNT, &well_known_key()).unwrap();
    let account = Request::new("GET", "/Tables").sas(&format!("{token}&si=pol"));
    lazuli.send(&account).expect_error(403, "AuthenticationFailed", FAILED);
}

/// A-9.3: sources disagree on the resource type of a query.
#[test]
fn a_query_of_entities_is_an_object_or_a_container() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for (resource_types, status) in [("o", 200), ("c", 200), ("s", 403)] {
        let sas = AccountSas { resource_types, ..account_sas() };
        let token = sas.token(ACCOUNT, &well_known_key()).unwrap();
        let filter = encode("RowKey eq 'r'");
        let request = Request::new("GET", &format!("/Orders()?$filter={filter}")).sas(&token);
        assert_eq!(lazuli.send(&request).status, status, "{resource_types}");
    }
}
