use super::*;
use proptest::prelude::*;

const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const GET_TABLES: SignedRequest<'_> = SignedRequest {
    method: "GET",
    content_md5: "",
    content_type: "",
    date: "Thu, 09 Dec 2021 00:23:06 GMT",
    account: "devstoreaccount1",
    path: "/devstoreaccount1/Tables",
    comp: None,
};

fn key() -> SigningKey {
    SigningKey::from_base64(KEY).unwrap()
}

#[track_caller]
fn check(request: SignedRequest<'_>, scheme: Scheme, text: &str, signature: &str) {
    let parts = request.string_to_sign(scheme).concat();
    assert_eq!(String::from_utf8(parts).unwrap(), text);
    assert_eq!(request.sign(scheme, &key()).to_string(), signature);
    assert!(request.is_signed_by(&[key()], scheme, signature));
}

#[test]
fn av_1_shared_key_in_path_style() {
    check(
        SignedRequest {
            method: "POST",
            content_type: "application/json;odata=nometadata",
            ..GET_TABLES
        },
        Scheme::SharedKey,
        "POST\n\napplication/json;odata=nometadata\nThu, 09 Dec 2021 00:23:06 GMT\n\
         /devstoreaccount1/devstoreaccount1/Tables",
        "pfvPWh0CEUqyZq0JL16YQDItvwZYsSnVwOZAO/pIw64=",
    );
}

#[test]
fn av_2_shared_key_lite_in_path_style() {
    check(
        SignedRequest { path: "/devstoreaccount1/Orders()", ..GET_TABLES },
        Scheme::SharedKeyLite,
        "Thu, 09 Dec 2021 00:23:06 GMT\n/devstoreaccount1/devstoreaccount1/Orders()",
        "BiXBNxcCbxj1LL6VyhNX12HqC5V/0FTVn3IJusRly+w=",
    );
}

#[test]
fn av_3_shared_key_with_comp_in_host_style() {
    check(
        SignedRequest {
            method: "PUT",
            content_type: "application/xml",
            path: "/Orders",
            comp: Some("acl"),
            ..GET_TABLES
        },
        Scheme::SharedKey,
        "PUT\n\napplication/xml\nThu, 09 Dec 2021 00:23:06 GMT\n/devstoreaccount1/Orders?comp=acl",
        "8kfmfIJpjdavWHNCuQfA2dX1ACKh6/5uY0PwXnni9j0=",
    );
}

#[test]
fn an_empty_path_signs_as_the_root() {
    let request = SignedRequest { path: "", comp: Some("properties"), ..GET_TABLES };
    let text = request.string_to_sign(Scheme::SharedKeyLite).concat();
    assert!(text.ends_with(b"\n/devstoreaccount1/?comp=properties"));
}

/// Whether a request sent with `sent` is accepted when the client signed `signed`.
#[track_caller]
fn check_spelling(sent: &str, signed: &str, expect: bool) {
    let client = SignedRequest { path: signed, ..GET_TABLES };
    let server = SignedRequest { path: sent, ..GET_TABLES };
    for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
        let signature = client.sign(scheme, &key()).to_string();
        assert_eq!(server.is_signed_by(&[key()], scheme, &signature), expect, "{scheme:?}");
    }
}

#[test]
fn tr_96_unreserved_characters_may_be_signed_unescaped() {
    check_spelling(
        "/t(PartitionKey='a%7Eb%2D',RowKey='%5F%2E%41')",
        "/t(PartitionKey='a~b-',RowKey='_.A')",
        true,
    );
    check_spelling("/t(PartitionKey='a%2Fb')", "/t(PartitionKey='a/b')", false);
    check_spelling("/t%C3%B4%20%7E", "/t%C3%B4%20~", true);
}

#[test]
fn quotes_may_be_signed_either_way() {
    check_spelling("/t(PartitionKey=%27p%27)", "/t(PartitionKey='p')", true);
    check_spelling("/t(PartitionKey='p')", "/t(PartitionKey=%27p%27)", true);
    check_spelling("/t(PartitionKey=%27%7E%27)", "/t(PartitionKey='~')", true);
    check_spelling("/t(PartitionKey='p')", "/t(PartitionKey='q')", false);
}

#[test]
fn a_secondary_may_be_signed_as_the_primary() {
    let sent = "/devstoreaccount1-secondary/Tables";
    check_spelling(sent, "/devstoreaccount1/Tables", true);
    check_spelling(sent, sent, true);
    check_spelling("/devstoreaccount1-secondaryx/Tables", "/devstoreaccount1x/Tables", false);
    // azure-data-tables signs before it switches to the other location.
    let repeated = "/devstoreaccount1-secondary/devstoreaccount1/Tables";
    check_spelling(repeated, "/devstoreaccount1/Tables", true);
    check_spelling(repeated, "/devstoreaccount1/Other", false);
    check_spelling("/other-secondary/Tables", "/other/Tables", false);
    check_spelling("/devstoreaccount1/Tables", sent, false);
}

#[test]
fn either_key_of_an_account_may_sign() {
    let other = SigningKey::from_base64("b3RoZXI=").unwrap();
    let signature = GET_TABLES.sign(Scheme::SharedKey, &other).to_string();
    assert!(GET_TABLES.is_signed_by(&[key(), other], Scheme::SharedKey, &signature));
    assert!(!GET_TABLES.is_signed_by(&[key()], Scheme::SharedKey, &signature));
    assert!(!GET_TABLES.is_signed_by(&[], Scheme::SharedKey, &signature));
}

#[test]
fn what_is_no_signature_signs_nothing() {
    for text in ["", "AAAA", "not base64", &"A".repeat(45), &"A".repeat(88)] {
        assert!(Signature::parse(text).is_none(), "{text:?}");
        assert!(!GET_TABLES.is_signed_by(&[key()], Scheme::SharedKey, text));
    }
}

#[test]
fn keys_are_base64_and_do_not_show() {
    assert_eq!(SigningKey::from_base64("").err(), Some(InvalidKey));
    assert_eq!(SigningKey::from_base64("not base64").err(), Some(InvalidKey));
    assert_eq!(format!("{:?}", key()), "SigningKey(..)");
}

#[test]
fn authorization_headers_are_read() {
    let signature = GET_TABLES.sign(Scheme::SharedKeyLite, &key());
    let header = Authorization::header(Scheme::SharedKeyLite, "acct1", &signature);
    let expect = Authorization::Signed {
        scheme: Scheme::SharedKeyLite,
        account: "acct1",
        signature: &signature.to_string(),
    };
    assert_eq!(Authorization::parse(&header), Ok(expect));
    assert_eq!(Authorization::parse("Bearer a.b.c"), Ok(Authorization::Bearer("a.b.c")));
    for header in [
        "",
        "SharedKey",
        "SharedKey acct1",
        "SharedKey :sig",
        "SharedKey acct1:",
        "Basic a:b",
        "Bearer ",
    ] {
        assert_eq!(Authorization::parse(header), Err(MalformedAuthorization), "{header:?}");
    }
}

proptest! {
    #[test]
    fn authorization_never_panics(header in any::<String>()) {
        let _ = Authorization::parse(&header);
        let _ = Authorization::parse(&format!("SharedKey {header}"));
        let _ = Signature::parse(&header);
    }

    #[test]
    fn a_request_is_signed_by_what_signed_it(path in any::<String>(), comp in any::<Option<String>>()) {
        let request = SignedRequest { path: &path, comp: comp.as_deref(), ..GET_TABLES };
        let signature = request.sign(Scheme::SharedKey, &key()).to_string();
        prop_assert!(request.is_signed_by(&[key()], Scheme::SharedKey, &signature));
        let other = SignedRequest { method: "PUT", ..request };
        prop_assert!(!other.is_signed_by(&[key()], Scheme::SharedKey, &signature));
    }

    #[test]
    fn spellings_are_few_and_differ_from_the_path(path in "(/devstoreaccount1-secondary)?[%'27EeA~/]{0,12}") {
        let request = SignedRequest { path: &path, ..GET_TABLES };
        let spellings = request.other_spellings();
        prop_assert!(spellings.len() <= 11 && !spellings.iter().any(|other| *other == path));
    }
}
