use super::*;
use crate::auth::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use crate::auth::explain::{account_sas, sas_error};
use crate::headers::RequestHeaders;
use http::HeaderMap;
use lazuli_model::Timestamp;
use lazuli_wire::sas::{AccountSas, Caller, SasError, TableSas};
use lazuli_wire::shared_key::SigningKey;
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;

const DATE: &str = "Thu, 09 Dec 2021 00:23:06 GMT";
const OTHER_KEY: &str = "b25lIGtleSBvZiBhY2N0MQ==";

/// What the client sent, apart from its signature.
const REQUEST: SignedRequest<'_> = SignedRequest {
    method: "PUT",
    content_md5: "",
    content_type: "application/xml",
    date: DATE,
    account: WELL_KNOWN_ACCOUNT,
    path: "/devstoreaccount1/My%20Orders",
    comp: Some("acl"),
};

fn accounts() -> Accounts {
    let text = format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY};acct1:{OTHER_KEY}");
    Accounts::new(Accounts::parse(&text).unwrap()).unwrap()
}

fn key(text: &str) -> SigningKey {
    SigningKey::from_base64(text).unwrap()
}

fn now() -> Timestamp {
    Timestamp::parse_rfc1123(DATE).unwrap()
}

fn with_presented<T>(check: impl FnOnce(&Presented<'_>, &Keyring<'_>) -> T) -> T {
    let mut headers = HeaderMap::new();
    headers.insert("date", "Thu, 09 Dec 2021 00:20:00 GMT".parse().unwrap());
    headers.insert("x-http-method", "MERGE".parse().unwrap());
    let presented = Presented {
        method: REQUEST.method,
        path: REQUEST.path,
        resource: "",
        query: &Query::parse("comp=acl&timeout=5").unwrap(),
        raw_query: "comp=acl&timeout=5",
        headers: &RequestHeaders::of(&headers),
        version: ApiVersion::NEWEST,
        caller: Caller { now: now(), address: [127, 0, 0, 1].into(), https: false },
        date_check: true,
    };
    let accounts = accounts();
    let account = accounts.find(WELL_KNOWN_ACCOUNT).unwrap();
    check(&presented, &Keyring { account: &account, all: accounts.all() })
}

/// An explanation must not reveal a key or a signature.
#[track_caller]
fn check_secrets(text: &str, signature: &str) {
    for secret in [WELL_KNOWN_KEY, OTHER_KEY, signature] {
        assert!(!text.contains(secret), "{text}");
    }
}

/// Explains a request that the client signed as `signed` says.
fn explain(signed: SignedRequest<'_>, scheme: Scheme, by: &str) -> String {
    let signature = signed.sign(scheme, &key(by)).to_string();
    let text = with_presented(|presented, keys| {
        shared_key(&REQUEST, Scheme::SharedKey, &signature, presented, keys)
    });
    check_secrets(&text, &signature);
    text
}

#[track_caller]
fn check(signed: SignedRequest<'_>, mistake: &str) {
    let text = explain(signed, Scheme::SharedKey, WELL_KNOWN_KEY);
    let signed = String::from_utf8(signed.string_to_sign(Scheme::SharedKey).concat()).unwrap();
    assert!(text.contains(&format!("The client signed {signed:?}: {mistake}.\n")), "{text}");
}

#[test]
fn the_mistakes_of_clients_are_recognised() {
    let account_once = "with the account once, where path style has /account/account/";
    check(SignedRequest { path: "/My%20Orders", ..REQUEST }, account_once);
    check(
        SignedRequest { path: "/devstoreaccount1/My Orders", ..REQUEST },
        "with the path decoded",
    );
    check(SignedRequest { comp: None, ..REQUEST }, "without ?comp=");
    let path = "/devstoreaccount1/My%20Orders?comp=acl&timeout=5";
    check(SignedRequest { path, comp: None, ..REQUEST }, "with the whole query");
    let date = "Thu, 09 Dec 2021 00:20:00 GMT";
    check(SignedRequest { date, ..REQUEST }, "with the Date header instead of x-ms-date");
    check(SignedRequest { date: "", ..REQUEST }, "with no date");
    check(SignedRequest { content_type: "", ..REQUEST }, "with no Content-Type");
    let content_type = "application/xml; charset=utf-8";
    let charset = "with '; charset=utf-8' after the Content-Type";
    check(SignedRequest { content_type, ..REQUEST }, charset);
    check(SignedRequest { method: "MERGE", ..REQUEST }, "with the method of X-HTTP-Method");
    let two =
        "with the account once, where path style has /account/account/ and with no Content-Type";
    check(SignedRequest { path: "/My%20Orders", content_type: "", ..REQUEST }, two);
}

#[test]
fn the_other_scheme_and_the_other_account_are_recognised() {
    let text = explain(REQUEST, Scheme::SharedKeyLite, WELL_KNOWN_KEY);
    assert!(text.contains("in the form of the other scheme"), "{text}");
    let text = explain(REQUEST, Scheme::SharedKey, OTHER_KEY);
    assert!(text.ends_with("signed the same string with a key of the account 'acct1'."), "{text}");
}

#[test]
fn both_strings_and_the_first_difference_are_shown() {
    let signed = SignedRequest { path: "/My%20Orders", ..REQUEST };
    let expect = "No key of the account 'devstoreaccount1' made this signature.\n\
        The server's string to sign is \"PUT\\n\\napplication/xml\\nThu, 09 Dec 2021 00:23:06 GMT\\n\
        /devstoreaccount1/devstoreaccount1/My%20Orders?comp=acl\".\n\
        The client signed \"PUT\\n\\napplication/xml\\nThu, 09 Dec 2021 00:23:06 GMT\\n\
        /devstoreaccount1/My%20Orders?comp=acl\": \
        with the account once, where path style has /account/account/.\n\
        They differ from byte 69 on: the server has \"devstoreaccount1/My%20Or\", the client \
        \"My%20Orders?comp=acl\".";
    assert_eq!(explain(signed, Scheme::SharedKey, WELL_KNOWN_KEY), expect);
}

#[test]
fn what_was_tried_in_vain_is_listed() {
    let text = explain(REQUEST, Scheme::SharedKey, "c29tZWJvZHkgZWxzZQ==");
    assert!(text.contains("\nNo known mistake matches, so the key may be wrong."), "{text}");
    let text = with_presented(|presented, keys| {
        shared_key(&REQUEST, Scheme::SharedKey, "not base64", presented, keys)
    });
    assert!(text.ends_with("\nThe signature is not base64 of 32 bytes."), "{text}");
}

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

/// Explains a token for a table whose client signed `text`.
fn explain_table(text: &str) -> String {
    let signature = key(WELL_KNOWN_KEY).sign(&[text.as_bytes()]).to_string();
    let token = TableSas { signature: &signature, ..TABLE };
    let text = with_presented(|_, keys| table_sas(&token, keys));
    check_secrets(&text, &signature);
    text
}

#[test]
fn mistakes_in_tokens_for_tables_are_recognised() {
    let good = TABLE.string_to_sign(WELL_KNOWN_ACCOUNT).unwrap();
    for (from, to, mistake) in [
        ("orders", "Orders", "with the table name as in tn"),
        ("/table/", "/", "without /table before the resource"),
        ("1/orders", "1/devstoreaccount1/orders", "with the account twice in the resource"),
        ("orders\n\n\n\n", "orders\n\n", "without the lines of sip and spr"),
        ("2019-02-02\n\n\n\n", "2019-02-02", "without the lines of the key range"),
        ("T00:00:00Z", "T00%3A00%3A00Z", "with values percent-encoded"),
        ("2019-02-02\n\n\n\n", "2019-02-02\n\n\n\n\n", "with a line feed at the end"),
    ] {
        let signed = good.replace(from, to);
        let text = explain_table(&signed);
        assert!(text.contains(&format!("The client signed {signed:?}: {mistake}")), "{text}");
    }
}

/// An explanation in vain said that pairs had been tried, which was true for Shared Key alone.
#[test]
fn two_mistakes_in_a_token_are_recognised() {
    let good = TABLE.string_to_sign(WELL_KNOWN_ACCOUNT).unwrap();
    let signed = good.replace("/table/", "/").replace("T00:00:00Z", "T00%3A00%3A00Z");
    let text = explain_table(&signed);
    let mistakes = "without /table before the resource and with values percent-encoded";
    assert!(text.contains(&format!("The client signed {signed:?}: {mistakes}")), "{text}");
    let text = explain_table("something else");
    let tried = "with a line feed at the end; pairs of these; and other accounts' keys.";
    assert!(text.ends_with(tried), "{text}");
}

#[test]
fn mistakes_in_tokens_for_accounts_are_recognised() {
    let account = AccountSas {
        version: "2020-12-06",
        services: "t",
        resource_types: "sco",
        permissions: "r",
        expiry: "2030-01-01T00:00:00Z",
        ..AccountSas::default()
    };
    let good = account.string_to_sign(WELL_KNOWN_ACCOUNT).unwrap();
    let old = AccountSas { version: "2019-02-02", ..account };
    let old_good = old.string_to_sign(WELL_KNOWN_ACCOUNT).unwrap();
    for (token, signed, mistake) in [
        (account, good.strip_suffix('\n').unwrap().to_owned(), "without the line feed at the end"),
        (account, good.replace(":", "%3A"), "with values percent-encoded"),
        (old, old_good.strip_suffix('\n').unwrap().to_owned(), "without the line feed at the end"),
        (old, format!("{old_good}\n"), "with a line for ses, which older versions do not have"),
    ] {
        let signature = key(WELL_KNOWN_KEY).sign(&[signed.as_bytes()]).to_string();
        let token = AccountSas { signature: &signature, ..token };
        let text = with_presented(|_, keys| account_sas(&token, keys));
        assert!(text.contains(&format!("The client signed {signed:?}: {mistake}")), "{text}");
        check_secrets(&text, &signature);
    }
}

#[test]
fn other_faults_of_tokens_are_explained_with_what_they_depend_on() {
    let explained = |error| with_presented(|presented, _| sas_error(error, presented)).unwrap();
    let expiry = Timestamp::parse("2021-12-09T00:00:00Z").unwrap();
    assert_eq!(
        explained(SasError::Expired(expiry)),
        "The token expired at 2021-12-09T00:00:00Z; the time is 2021-12-09T00:23:06Z."
    );
    assert_eq!(
        explained(SasError::SourceIp),
        "The caller's address is outside the token's range: 127.0.0.1."
    );
    assert_eq!(explained(SasError::Protocol), "The token is for https only.");
}
