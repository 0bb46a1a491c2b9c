use super::*;
use crate::error_code::ErrorCode;
use lazuli_model::ServiceProperties;
use proptest::prelude::*;

const NOW: ApiVersion = ApiVersion::NEWEST;

fn before_2013() -> ApiVersion {
    ApiVersion::parse("2012-02-12").unwrap()
}

#[track_caller]
fn check_text(out: Vec<u8>, expect: &str) {
    let expect = format!("\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?>{expect}");
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

/// What Get returns after Set has been sent `document`.
#[track_caller]
fn check_policies(document: &str, expect: &str) {
    let policies = read_signed_identifiers(document.as_bytes()).unwrap();
    let mut out = Vec::new();
    write_signed_identifiers(&mut out, &policies);
    assert_eq!(read_signed_identifiers(&out), Ok(policies));
    check_text(out, expect);
}

#[track_caller]
fn check_properties(document: &str, expect: &str) {
    let patch = read_service_properties(document.as_bytes(), NOW).unwrap();
    let properties = ServiceProperties::default().patched(patch);
    let mut out = Vec::new();
    write_service_properties(&mut out, &properties, NOW);
    let back = read_service_properties(&out, NOW).unwrap();
    assert_eq!(ServiceProperties::default().patched(back).logging, properties.logging);
    check_text(out, expect);
}

/// Recorded in js node.access_policy_operations.recording_should_send_a_null_ap.
#[test]
fn partial_policies_come_back_as_given_and_empty_ones_without_a_policy() {
    check_policies(
        "<?xml version=\"1.0\" encoding=\"UTF-8\" standalone=\"yes\"?><SignedIdentifiers>\
         <SignedIdentifier><Id>null</Id><AccessPolicy/></SignedIdentifier>\
         <SignedIdentifier><Id>partial</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>\
         </SignedIdentifier><SignedIdentifier><Id>full</Id><AccessPolicy>\
         <Start>2021-07-08T09:10:09Z</Start><Expiry>2021-07-08T09:10:09Z</Expiry>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
        "<SignedIdentifiers>\
         <SignedIdentifier><Id>null</Id></SignedIdentifier>\
         <SignedIdentifier><Id>partial</Id><AccessPolicy><Permission>r</Permission></AccessPolicy>\
         </SignedIdentifier><SignedIdentifier><Id>full</Id><AccessPolicy>\
         <Start>2021-07-08T09:10:09.0000000Z</Start><Expiry>2021-07-08T09:10:09.0000000Z</Expiry>\
         <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>",
    );
}

/// Recorded in go TestSetAccessPolicy: the order of elements is the client's own.
#[test]
fn elements_may_come_in_any_order() {
    check_policies(
        "<SignedIdentifiers>\n<SignedIdentifier><AccessPolicy><Permission>r</Permission>\
         <Expiry>2024-01-01T00:00:00Z</Expiry></AccessPolicy><Id>a &amp; &#98;</Id>\
         </SignedIdentifier></SignedIdentifiers>",
        "<SignedIdentifiers><SignedIdentifier><Id>a &amp; b</Id><AccessPolicy>\
         <Expiry>2024-01-01T00:00:00.0000000Z</Expiry><Permission>r</Permission></AccessPolicy>\
         </SignedIdentifier></SignedIdentifiers>",
    );
}

#[test]
fn no_policies_are_an_empty_element() {
    for document in ["", "<SignedIdentifiers/>", "\u{feff}<SignedIdentifiers></SignedIdentifiers>"]
    {
        check_policies(document, "<SignedIdentifiers />");
    }
}

#[track_caller]
fn check_policies_refused(inner: &str, expect: XmlError) {
    let document = format!("<SignedIdentifiers>{inner}</SignedIdentifiers>");
    let got = read_signed_identifiers(document.as_bytes()).map_err(|fault| fault.error);
    assert_eq!(got, Err(expect), "{inner}");
}

#[test]
fn policies_out_of_range_are_refused() {
    let policy = |id: usize| format!("<SignedIdentifier><Id>id{id}</Id></SignedIdentifier>");
    let six: String = (0..6).map(policy).collect();
    check_policies_refused(&six, XmlError::OutOfRange);
    check_policies_refused(&policy(1).repeat(2), XmlError::OutOfRange);
    check_policies_refused("<SignedIdentifier><Id/></SignedIdentifier>", XmlError::PolicyId);
    check_policies_refused("<SignedIdentifier/>", XmlError::MissingNode);
    check_policies_refused("<Other/>", XmlError::UnexpectedNode);
    let with = |policy: &str| {
        format!(
            "<SignedIdentifier><Id>a</Id><AccessPolicy>{policy}</AccessPolicy></SignedIdentifier>"
        )
    };
    check_policies_refused(&with("<Permission>rw</Permission>"), XmlError::OutOfRange);
    check_policies_refused(&with("<Start>soon</Start>"), XmlError::InvalidValue);
    check_policies_refused(&with("<Start/><Start/>"), XmlError::UnexpectedNode);
}

#[test]
fn what_is_not_well_formed_is_refused() {
    let read = |document: &[u8]| read_signed_identifiers(document).map_err(|fault| fault.error);
    for document in [
        "<SignedIdentifiers>",
        "</SignedIdentifiers>",
        "text",
        "<a></b>",
        "<SignedIdentifiers/><SignedIdentifiers/>",
        "<SignedIdentifiers/>text",
        "<!DOCTYPE a [<!ENTITY e 'x'>]><SignedIdentifiers/>",
        "<SignedIdentifiers><SignedIdentifier><Id>&e;</Id></SignedIdentifier></SignedIdentifiers>",
    ] {
        assert_eq!(read(document.as_bytes()), Err(XmlError::Syntax), "{document}");
    }
    assert_eq!(read(b"\xff\xfe<\0"), Err(XmlError::Syntax));
    assert_eq!(read("<a>".repeat(9).as_bytes()), Err(XmlError::TooLarge));
    let long = format!("<a>{}</a>", "<b/>".repeat(1000));
    assert_eq!(read(long.as_bytes()), Err(XmlError::TooLarge));
    assert_eq!(read(&[b' '; 300_000]), Err(XmlError::TooLarge));
}

const OFF: &str = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";

/// A name with a character that XML does not allow was accepted, and came back with a different one; one
/// with a carriage return came back with a line feed.
#[test]
fn characters_that_no_document_can_hold_are_refused() {
    for character in ["\u{e}", "\u{0}", "\u{fffe}", "&#1;", "&#xB;", "<![CDATA[\u{1f}]]>"] {
        let inner = format!("<SignedIdentifier><Id>a{character}</Id></SignedIdentifier>");
        check_policies_refused(&inner, XmlError::Syntax);
    }
    let document = "<SignedIdentifiers><SignedIdentifier><Id>a&#13;b\tc</Id></SignedIdentifier>\
                    </SignedIdentifiers>";
    check_policies(document, &document.replace("&#13;", "&#xD;"));
}

fn metrics_off(name: &str) -> String {
    format!("<{name}><Version>1.0</Version><Enabled>false</Enabled>{OFF}</{name}>")
}

fn logging_off() -> String {
    format!(
        "<Logging><Version>1.0</Version><Read>false</Read><Write>false</Write>\
         <Delete>false</Delete>{OFF}</Logging>"
    )
}

/// Recorded in python test_table_service_properties.test_table_service_properties (T-9.5).
#[test]
fn a_new_account_has_everything_off() {
    let (logging, hour, minute) =
        (logging_off(), metrics_off("HourMetrics"), metrics_off("MinuteMetrics"));
    let document = format!(
        "<StorageServiceProperties>{logging}{hour}{minute}<Cors /></StorageServiceProperties>"
    );
    check_properties(&document, &document);
    check_properties("<StorageServiceProperties></StorageServiceProperties>", &document);
}

/// Recorded in python test_table_service_properties.test_set_cors.
#[test]
fn cors_rules_list_literal_headers_before_prefixes() {
    let (logging, hour, minute) =
        (logging_off(), metrics_off("HourMetrics"), metrics_off("MinuteMetrics"));
    check_properties(
        "<?xml version='1.0' encoding='utf-8'?>\n<StorageServiceProperties><Cors>\
         <CorsRule><AllowedOrigins>www.xyz.com</AllowedOrigins><AllowedMethods>GET</AllowedMethods>\
         <AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>\
         <CorsRule><AllowedOrigins>www.xyz.com,www.ab.com</AllowedOrigins>\
         <AllowedMethods>GET,PUT</AllowedMethods>\
         <AllowedHeaders>x-ms-meta-data*,x-ms-meta-target*,x-ms-meta-xyz,x-ms-meta-foo</AllowedHeaders>\
         <ExposedHeaders>x-ms-meta-data*,x-ms-meta-abc</ExposedHeaders>\
         <MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>",
        &format!(
            "<StorageServiceProperties>{logging}{hour}{minute}<Cors>\
             <CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>www.xyz.com</AllowedOrigins>\
             <AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>\
             <CorsRule><AllowedMethods>GET,PUT</AllowedMethods>\
             <AllowedOrigins>www.xyz.com,www.ab.com</AllowedOrigins>\
             <AllowedHeaders>x-ms-meta-xyz,x-ms-meta-foo,x-ms-meta-data*,x-ms-meta-target*</AllowedHeaders>\
             <ExposedHeaders>x-ms-meta-abc,x-ms-meta-data*</ExposedHeaders>\
             <MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>"
        ),
    );
}

/// Recorded in go TestSetMinuteMetrics, shortened.
#[test]
fn enabled_metrics_say_their_apis_and_days() {
    let metrics = "<Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs>\
                   <RetentionPolicy><Enabled>true</Enabled><Days>5</Days></RetentionPolicy>";
    let (logging, hour) = (logging_off(), metrics_off("HourMetrics"));
    check_properties(
        &format!(
            "<StorageServiceProperties><MinuteMetrics>{metrics}</MinuteMetrics></StorageServiceProperties>"
        ),
        &format!(
            "<StorageServiceProperties>{logging}{hour}<MinuteMetrics>{metrics}</MinuteMetrics>\
             <Cors /></StorageServiceProperties>"
        ),
    );
}

#[track_caller]
fn check_properties_refused(inner: &str, expect: XmlError) {
    let document = format!("<StorageServiceProperties>{inner}</StorageServiceProperties>");
    let got = read_service_properties(document.as_bytes(), NOW).map_err(|fault| fault.error);
    assert_eq!(got, Err(expect), "{inner}");
}

#[test]
fn properties_out_of_range_are_refused() {
    let metrics = |days: &str| {
        format!(
            "<HourMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy>\
             <Enabled>true</Enabled>{days}</RetentionPolicy></HourMetrics>"
        )
    };
    check_properties_refused(&metrics("<Days>366</Days>"), XmlError::RetentionDays);
    check_properties_refused(&metrics("<Days>65536</Days>"), XmlError::RetentionDays);
    check_properties_refused(&metrics("<Days>-1</Days>"), XmlError::InvalidValue);
    check_properties_refused(&metrics(""), XmlError::MissingNode);
    check_properties_refused("<DefaultServiceVersion/>", XmlError::UnexpectedNode);
    check_properties_refused(&metrics_off("Metrics"), XmlError::UnexpectedNode);
    let logging = logging_off();
    check_properties_refused(&logging.replace("1.0", "2.0"), XmlError::OutOfRange);
    check_properties_refused(
        &logging.replace("<Read>false", "<Read>maybe"),
        XmlError::InvalidValue,
    );
}

/// T-9.3b.
#[test]
fn booleans_may_begin_with_a_capital() {
    let section = |text: &str| {
        format!(
            "<StorageServiceProperties><HourMetrics><Version>1.0</Version><Enabled>{text}</Enabled>\
             <IncludeAPIs>{text}</IncludeAPIs><RetentionPolicy><Enabled>False</Enabled>\
             </RetentionPolicy></HourMetrics></StorageServiceProperties>"
        )
    };
    let read = |text| read_service_properties(section(text).as_bytes(), ApiVersion::NEWEST);
    assert_eq!(read("True").unwrap().hour_metrics, read("true").unwrap().hour_metrics);
    assert_eq!(read("False").unwrap().hour_metrics, read("false").unwrap().hour_metrics);
    assert_eq!(read("TRUE"), Err(XmlError::InvalidValue.into()));
}

#[test]
fn cors_rules_out_of_range_are_refused() {
    let rule = |origins: &str, methods: &str, headers: &str| {
        format!(
            "<Cors><CorsRule><AllowedOrigins>{origins}</AllowedOrigins>\
             <AllowedMethods>{methods}</AllowedMethods><AllowedHeaders>{headers}</AllowedHeaders>\
             <ExposedHeaders/><MaxAgeInSeconds>1</MaxAgeInSeconds></CorsRule></Cors>"
        )
    };
    let refused = |rule: String, expect| check_properties_refused(&rule, expect);
    let six = rule("*", "GET", "").replace("<Cors>", "").replace("</Cors>", "").repeat(6);
    refused(format!("<Cors>{six}</Cors>"), XmlError::OutOfRange);
    refused(rule("*", "GET", "a*,b*,c*"), XmlError::CorsList);
    refused(rule("*", "GET", &"h,".repeat(65)), XmlError::CorsList);
    refused(rule("*", "GET", &"h".repeat(257)), XmlError::CorsList);
    refused(rule("*", "GET", &vec!["h".repeat(250); 9].join(",")), XmlError::CorsList);
    refused(rule(&"o,".repeat(65), "GET", ""), XmlError::CorsList);
    refused(rule("*", "BREW", ""), XmlError::CorsList);
    refused(rule("*", "", ""), XmlError::MissingNode);
    for missing in ["<AllowedHeaders></AllowedHeaders>", "<ExposedHeaders/>"] {
        refused(rule("*", "GET", "").replace(missing, ""), XmlError::MissingNode);
    }
    // The maximum that the tests of the .NET client set.
    let headers = format!("a*,b*,{}", "h,".repeat(64));
    let most =
        rule(&"o,".repeat(64), "PUT,TRACE,CONNECT,DELETE,GET,HEAD,OPTIONS,POST,MERGE", &headers);
    let document = format!("<StorageServiceProperties>{most}</StorageServiceProperties>");
    assert!(read_service_properties(document.as_bytes(), ApiVersion::NEWEST).is_ok());
}

#[test]
fn old_versions_have_metrics_and_require_both_sections() {
    let (logging, metrics) = (logging_off(), metrics_off("Metrics"));
    let document =
        format!("<StorageServiceProperties>{logging}{metrics}</StorageServiceProperties>");
    let patch = read_service_properties(document.as_bytes(), before_2013()).unwrap();
    assert!(patch.logging.is_some() && patch.hour_metrics.is_some() && patch.cors.is_none());
    let mut out = Vec::new();
    write_service_properties(&mut out, &ServiceProperties::default(), before_2013());
    check_text(out, &document);
    let partial = format!("<StorageServiceProperties>{logging}</StorageServiceProperties>");
    let got = read_service_properties(partial.as_bytes(), before_2013());
    assert_eq!(got, Err(XmlError::MissingNode.into()));
}

/// Recorded in java TableServiceAsyncClientTest.getStatistics.
#[test]
fn statistics_show_the_last_sync_while_live() {
    let check = |replication, inner: &str| {
        let mut out = Vec::new();
        write_service_stats(&mut out, replication);
        assert_eq!(read_service_stats(&out), Ok(replication));
        check_text(
            out,
            &format!(
                "<StorageServiceStats><GeoReplication>{inner}</GeoReplication></StorageServiceStats>"
            ),
        );
    };
    let last_sync = Timestamp::parse("2023-04-14T20:21:11Z").unwrap();
    check(
        GeoReplication::Live { last_sync },
        "<Status>live</Status><LastSyncTime>Fri, 14 Apr 2023 20:21:11 GMT</LastSyncTime>",
    );
    check(GeoReplication::Unavailable, "<Status>unavailable</Status><LastSyncTime></LastSyncTime>");
    check(GeoReplication::Bootstrap, "<Status>bootstrap</Status><LastSyncTime></LastSyncTime>");
}

/// Recorded in python test_queue_service_properties.test_retention_too_long, and in its asynchronous form,
/// which sends nothing (Q-9.5, Q-9.7, TQ-12, TQ-50).
#[test]
fn faults_of_properties_have_a_place_and_a_reason() {
    let check = |document: &str, position: usize, reason: &str| {
        let document = format!("<?xml version='1.0' encoding='utf-8'?>\n{document}");
        let fault = read_service_properties(document.as_bytes(), NOW).unwrap_err();
        let expect =
            [("LineNumber", "2"), ("LinePosition", &position.to_string()), ("Reason", reason)];
        assert_eq!(fault.details(), expect.map(|(name, text)| (name, text.to_owned())));
    };
    check(
        "<StorageServiceProperties><MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled>\
         <IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>366</Days>\
         </RetentionPolicy></MinuteMetrics></StorageServiceProperties>",
        176,
        "Retention days must be greater than 0 and less than or equal to 365 days.",
    );
    check(
        "<StorageServiceProperties />",
        29,
        "Error parsing Xml content: 'None' is an invalid XmlNodeType. Line 2, position 29.",
    );
}

/// Q-9.6, Q-10.4, Q-10.5, TQ-49.
#[test]
fn faults_of_policies_have_a_reason_or_no_place() {
    let details = |inner: &str| {
        let document = format!("<SignedIdentifiers>{inner}</SignedIdentifiers>");
        let fault = read_queue_policies(document.as_bytes()).unwrap_err();
        fault.details().into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" ")
    };
    let policy = |id: &str, letters: &str| {
        format!(
            "<SignedIdentifier><Id>{id}</Id><AccessPolicy><Permission>{letters}</Permission>\
             </AccessPolicy></SignedIdentifier>"
        )
    };
    let six: String = (0..6).map(|id| policy(&id.to_string(), "r")).collect();
    assert_eq!(details(&six), "0 0 ");
    assert_eq!(details(&policy("a", "rwdl")), "0 0 ");
    let reason = "Signed identifier ID cannot be empty or over 64 characters in length";
    assert_eq!(details(&policy("", "r")), format!("1 48 {reason}"));
    assert!(details(&policy(&"a".repeat(65), "r")).ends_with(reason));
}

#[test]
fn queues_and_tables_have_letters_of_their_own() {
    let document = |letters: &str| {
        format!(
            "<SignedIdentifiers><SignedIdentifier><Id>a</Id><AccessPolicy>\
             <Permission>{letters}</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        )
    };
    assert!(read_queue_policies(document("raup").as_bytes()).is_ok());
    assert!(read_queue_policies(document("d").as_bytes()).is_err());
    assert!(read_signed_identifiers(document("raud").as_bytes()).is_ok());
    assert!(read_signed_identifiers(document("p").as_bytes()).is_err());
}

#[test]
fn faults_of_form_range_and_type_have_one_code() {
    for error in [XmlError::Syntax, XmlError::OutOfRange, XmlError::InvalidValue] {
        assert_eq!(error.code(), ErrorCode::InvalidXmlDocument);
    }
    assert_eq!(XmlError::CorsList.code(), ErrorCode::InvalidXmlNodeValue);
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(document in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = read_signed_identifiers(&document);
    }

    #[test]
    fn arbitrary_markup_never_panics(
        pieces in prop::collection::vec(
            prop::sample::select(vec![
                "<SignedIdentifiers>", "</SignedIdentifiers>", "<SignedIdentifier>", "<Id>", "</Id>",
                "</SignedIdentifier>", "<AccessPolicy/>", "&amp;", "&#0;", "&#xD800;", "&x;", "x",
                "<![CDATA[x]]>", "<!--x-->", "<?x?>", "<a b='c'>", "</a>", "<", ">", "\u{feff}",
            ]),
            0..16,
        ),
    ) {
        let document = pieces.concat();
        let _ = read_signed_identifiers(document.as_bytes());
        let _ = read_service_properties(document.as_bytes(), NOW);
        let _ = read_service_stats(document.as_bytes());
    }

    #[test]
    fn policies_round_trip(ids in prop::collection::btree_set("[!-~é🦀]([ -~é🦀]{0,8}[!-~])?", 0..5), letters in "r?a?u?d?") {
        let policy = |id: String| AccessPolicy {
            id,
            start: None,
            expiry: Timestamp::from_ticks(Timestamp::EDM_MIN.ticks() + 1),
            permissions: Some(letters.clone()).filter(|letters| !letters.is_empty()),
        };
        let policies = AccessPolicies::new(ids.into_iter().map(policy).collect()).unwrap();
        let mut out = Vec::new();
        write_signed_identifiers(&mut out, &policies);
        prop_assert_eq!(read_signed_identifiers(&out), Ok(policies));
    }
}
