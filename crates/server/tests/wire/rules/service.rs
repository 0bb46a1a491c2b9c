//! Sections 9.1 to 9.4: service properties, statistics, access policies.

use crate::harness::{Lazuli, Request, Response};

const PROPERTIES: &str = "/?restype=service&comp=properties";
const OPEN: &str = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?>";
const NOT_VALID: &str = "XML specified is not syntactically valid.";

fn get(lazuli: &Lazuli, target: &str) -> Response {
    lazuli.send(&Request::new("GET", target).accept("application/xml"))
}

fn put(lazuli: &Lazuli, target: &str, body: &str) -> Response {
    let request = Request::new("PUT", target).accept("application/xml");
    lazuli.send(&request.body("application/xml", body))
}

fn properties(sections: &str) -> String {
    format!("<StorageServiceProperties>{sections}</StorageServiceProperties>")
}

const LOGGING_OFF: &str = "<Logging><Version>1.0</Version><Read>false</Read><Write>false</Write>\
     <Delete>false</Delete><RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></Logging>";
const HOUR_OFF: &str = "<HourMetrics><Version>1.0</Version><Enabled>false</Enabled>\
     <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>";
const MINUTE_OFF: &str = "<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled>\
     <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></MinuteMetrics>";

/// T-9.1, T-9.2, T-9.5.
#[test]
fn a_new_account_has_everything_off() {
    let answer = get(&Lazuli::empty(), PROPERTIES).expect(200);
    let sections = format!("{LOGGING_OFF}{HOUR_OFF}{MINUTE_OFF}<Cors />");
    assert_eq!(answer.text(), format!("{OPEN}{}", properties(&sections)));
}

/// T-9.3, T-9.6, T-9.7, T-9.9.
#[test]
fn what_is_set_comes_back_in_the_order_of_the_schema() {
    let lazuli = Lazuli::empty();
    let given = "<?xml version='1.0'?>\n<StorageServiceProperties>\n <Logging><RetentionPolicy>\
         <Days>5</Days><Enabled>true</Enabled></RetentionPolicy><Delete>true</Delete>\
         <Read>true</Read><Write>false</Write><Version>1.0</Version></Logging>\n\
         <HourMetrics><Version>1.0</Version><Enabled>false</Enabled><IncludeAPIs>true</IncludeAPIs>\
         <RetentionPolicy><Enabled>false</Enabled></RetentionPolicy></HourMetrics>\n\
         </StorageServiceProperties>";
    assert!(put(&lazuli, PROPERTIES, given).expect(202).body.is_empty());
    let logging = "<Logging><Version>1.0</Version><Read>true</Read><Write>false</Write>\
         <Delete>true</Delete><RetentionPolicy><Enabled>true</Enabled><Days>5</Days>\
         </RetentionPolicy></Logging>";
    let expect = properties(&format!("{logging}{HOUR_OFF}{MINUTE_OFF}<Cors />"));
    assert_eq!(get(&lazuli, PROPERTIES).expect(200).text(), format!("{OPEN}{expect}"));
}

/// T-9.7, T-9.11: an empty list of rules clears them.
#[test]
fn cors_rules_are_set_and_cleared_whole() {
    let lazuli = Lazuli::empty();
    let rule = "<CorsRule><AllowedMethods>GET,PUT</AllowedMethods><AllowedOrigins>www.xyz.com,\
         www.ab.com</AllowedOrigins><AllowedHeaders>x-ms-meta-xyz,x-ms-meta-data*</AllowedHeaders>\
         <ExposedHeaders>x-ms-meta-abc</ExposedHeaders><MaxAgeInSeconds>500</MaxAgeInSeconds>\
         </CorsRule>";
    let cors = |count: usize| properties(&format!("<Cors>{}</Cors>", rule.repeat(count)));
    put(&lazuli, PROPERTIES, &cors(5)).expect(202);
    let kept = get(&lazuli, PROPERTIES).expect(200);
    assert!(kept.text().contains(&rule.repeat(5)), "{}", kept.text());
    let refused = put(&lazuli, PROPERTIES, &cors(6));
    refused.expect_xml_error(400, "InvalidXmlDocument", NOT_VALID);
    put(&lazuli, PROPERTIES, &properties("<Cors/>")).expect(202);
    assert!(get(&lazuli, PROPERTIES).expect(200).text().contains("<Cors />"));
}

/// T-9.3a.
#[test]
fn a_cors_rule_needs_all_its_elements_though_headers_may_be_empty() {
    let lazuli = Lazuli::empty();
    let rule = "<Cors><CorsRule><AllowedMethods>GET</AllowedMethods><AllowedOrigins>*\
         </AllowedOrigins><AllowedHeaders /><ExposedHeaders /><MaxAgeInSeconds>1</MaxAgeInSeconds>\
         </CorsRule></Cors>";
    put(&lazuli, PROPERTIES, &properties(rule)).expect(202);
    for missing in ["<AllowedHeaders />", "<ExposedHeaders />"] {
        let refused = put(&lazuli, PROPERTIES, &properties(&rule.replace(missing, "")));
        refused.expect_xml_error(400, "InvalidXmlDocument", NOT_VALID);
    }
}

/// T-9.4, T-9.8, T-9.10, T-9.12, T-9.13.
#[test]
fn settings_that_make_no_sense_are_refused() {
    let lazuli = Lazuli::empty();
    let metrics = |inner: &str| properties(&format!("<HourMetrics>{inner}</HourMetrics>"));
    let off = "<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>";
    for body in [
        "",
        "<StorageServiceProperties>",
        "<Other />",
        &properties("<Unknown />"),
        &properties("<DefaultServiceVersion>2011-08-18</DefaultServiceVersion>"),
        &metrics(&format!("<Version>1.0</Version><Enabled>true</Enabled>{off}")),
        &metrics(&format!("<Version>2.0</Version><Enabled>false</Enabled>{off}")),
        &metrics(&format!("<Version>1.0</Version><Enabled>maybe</Enabled>{off}")),
        &metrics(
            "<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>true\
             </Enabled></RetentionPolicy>",
        ),
        // T-9.9a: days of a retention that is off.
        &metrics(
            "<Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false\
             </Enabled><Days>7</Days></RetentionPolicy>",
        ),
    ] {
        let refused = put(&lazuli, PROPERTIES, body);
        refused.expect_xml_error(400, "InvalidXmlDocument", NOT_VALID);
    }
}

/// T-9.14.
#[test]
fn older_versions_have_one_kind_of_metrics() {
    let lazuli = Lazuli::empty();
    let old = |method: &str| Request::new(method, PROPERTIES).version("2012-02-12");
    let answer = lazuli.send(&old("GET")).expect(200);
    assert!(answer.text().contains("<Metrics>"), "{}", answer.text());
    assert!(!answer.text().contains("MinuteMetrics") && !answer.text().contains("Cors"));
}

/// T-9.19.
#[test]
fn policies_are_replaced_whole() {
    let lazuli = Lazuli::with_orders();
    let acl = "/Orders?comp=acl";
    let empty = format!("{OPEN}<SignedIdentifiers />");
    assert_eq!(get(&lazuli, acl).expect(200).text(), empty);
    let one = |id: &str| {
        format!(
            "<SignedIdentifiers><SignedIdentifier><Id>{id}</Id><AccessPolicy><Permission>raud\
             </Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
        )
    };
    for id in ["first", "second"] {
        put(&lazuli, acl, &one(id)).expect(204);
        assert_eq!(get(&lazuli, acl).expect(200).text(), format!("{OPEN}{}", one(id)));
    }
    put(&lazuli, acl, "").expect(204);
    assert_eq!(get(&lazuli, acl).expect(200).text(), empty);
}

/// T-9.22.
#[test]
fn policies_that_make_no_sense_are_refused() {
    let lazuli = Lazuli::with_orders();
    let identifiers = |inner: &str| {
        format!(
            "<SignedIdentifiers><SignedIdentifier>{inner}</SignedIdentifier></SignedIdentifiers>"
        )
    };
    let twice = "<Id>a</Id></SignedIdentifier><SignedIdentifier><Id>a</Id>";
    let long = format!("<Id>{}</Id>", "x".repeat(65));
    for inner in [
        "",
        "<Id></Id>",
        long.as_str(),
        twice,
        "<Id>a</Id><AccessPolicy><Permission>rx</Permission></AccessPolicy>",
        "<Id>a</Id><AccessPolicy><Start>soon</Start></AccessPolicy>",
    ] {
        let refused = put(&lazuli, "/Orders?comp=acl", &identifiers(inner));
        refused.expect_xml_error(400, "InvalidXmlDocument", NOT_VALID);
    }
}

/// T-9.23a, T-7.4b.
#[test]
fn the_policies_of_a_missing_table_name_the_table_as_missing() {
    let lazuli = Lazuli::empty();
    let message = "The table specified does not exist.";
    let answers = [get(&lazuli, "/Nosuch?comp=acl"), put(&lazuli, "/Nosuch?comp=acl", "")];
    for answer in answers {
        assert_eq!(answer.reason, message);
        let answer = answer.expect_xml_error(404, "TableNotFound", message);
        assert!(answer.text().contains("<m:error"), "{}", answer.text());
    }
}

/// 1.2: methods that the XML resources lack.
#[test]
fn xml_resources_have_their_methods() {
    let lazuli = Lazuli::with_orders();
    let message = "The resource doesn't support the specified HTTP verb.";
    for (method, target) in [
        ("DELETE", PROPERTIES),
        ("POST", "/Orders?comp=acl"),
        ("PUT", "/?restype=service&comp=stats"),
    ] {
        let request = Request::new(method, target).accept("application/xml");
        let refused = lazuli.send(&request.body("application/xml", ""));
        refused.expect_xml_error(405, "UnsupportedHttpVerb", message);
    }
}
