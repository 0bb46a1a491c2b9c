//! Cross-origin requests: preflights, and the headers on responses to actual requests.

use crate::error::{ApiError, ApiResult};
use crate::http::header_case::METADATA;
use crate::http::reply::Reply;
use http::HeaderMap;
use http::header;
use lazuli_model::service_properties::CorsRule;
use lazuli_wire::error_code::{ErrorCode, message};

/// Responds to a preflight with the first rule for its origin and method (T-9.24 to T-9.26). That
/// rule must allow the headers too: according to the reference, later rules are not considered.
pub(crate) fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> ApiResult<Reply> {
    let missing =
        || ApiError::with_text(ErrorCode::InvalidHeaderValue, message::CORS_HEADER_MISSING);
    let origin = text(headers, header::ORIGIN).ok_or_else(missing)?;
    let method = text(headers, header::ACCESS_CONTROL_REQUEST_METHOD).ok_or_else(missing)?;
    let wanted = text(headers, header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let rule = find_rule(rules, origin, method)
        .filter(|rule| split(wanted).all(|name| allows_header(rule, name)))
        .ok_or(ErrorCode::CorsPreflightFailure)?;
    let mut more = vec![
        ("access-control-allow-origin", origin_shown(rule, origin).to_owned()),
        ("access-control-allow-methods", method.to_owned()),
        ("access-control-max-age", rule.max_age_seconds.to_string()),
    ];
    if !wanted.is_empty() {
        more.push(("access-control-allow-headers", wanted.to_owned()));
    }
    if names_origin(rule, origin) {
        more.push(("access-control-allow-credentials", "true".to_owned()));
    }
    Ok(Reply { status: 200, more, ..Reply::default() })
}

/// Adds the CORS headers to the response of an actual request (T-2.61, T-9.27).
///
/// Caches may store responses to reads, which depend on the origin: `Vary` says so. If every origin
/// is allowed, the response allows all of them, even if the request names none. Other verbs get no
/// `Vary`. This follows the table in the reference.
pub(crate) fn decorate(rules: &[CorsRule], method: &str, headers: &HeaderMap, reply: &mut Reply) {
    if rules.is_empty() {
        return;
    }
    let is_read = matches!(method, "GET" | "HEAD");
    let origin = text(headers, header::ORIGIN);
    let rule = match origin {
        Some(origin) => find_rule(rules, origin, method),
        None if is_read => find_rule(rules, ANY, method),
        None => None,
    };
    let origin = origin.unwrap_or(ANY);
    if is_read && rule.is_none_or(|rule| origin_shown(rule, origin) != ANY) {
        reply.more.push(("vary", "Origin".to_owned()));
    }
    let Some(rule) = rule else { return };
    reply.more.push(("access-control-allow-origin", origin_shown(rule, origin).to_owned()));
    if origin != ANY && names_origin(rule, origin) {
        reply.more.push(("access-control-allow-credentials", "true".to_owned()));
    }
    let exposed = exposed_headers(rule, reply);
    if !exposed.is_empty() {
        reply.more.push(("access-control-expose-headers", exposed));
    }
}

/// The entry that matches every origin or header.
const ANY: &str = "*";

/// The first rule for an origin and a method (T-9.25).
fn find_rule<'r>(rules: &'r [CorsRule], origin: &str, method: &str) -> Option<&'r CorsRule> {
    rules.iter().find(|rule| allows_origin(rule, origin) && allows_method(rule, method))
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty())
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn names_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == origin)
}

fn covers_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.allowed_origins.iter().any(|allowed| is_subdomain(origin, allowed))
}

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    names_origin(rule, ANY) || names_origin(rule, origin) || covers_origin(rule, origin)
}

/// Whether `origin` has one or more labels where `pattern`, such as `http://*.contoso.com`, has `*`.
fn is_subdomain(origin: &str, pattern: &str) -> bool {
    let Some((scheme, domain)) = pattern.split_once("*.") else { return false };
    let host = origin.strip_prefix(scheme).and_then(|host| host.strip_suffix(domain));
    let labels = host.and_then(|host| host.strip_suffix('.')).unwrap_or_default();
    scheme.ends_with("://") && !labels.is_empty() && labels.bytes().all(is_host_byte)
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.')
}

fn origin_shown<'a>(rule: &CorsRule, origin: &'a str) -> &'a str {
    if names_origin(rule, origin) || covers_origin(rule, origin) { origin } else { ANY }
}

fn allows_method(rule: &CorsRule, method: &str) -> bool {
    rule.allowed_methods.iter().any(|allowed| allowed.eq_ignore_ascii_case(method))
}

/// An entry that ends in `*` matches every header with that prefix.
fn allows_header(rule: &CorsRule, name: &str) -> bool {
    rule.allowed_headers.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => begins(name, prefix),
        None => allowed.eq_ignore_ascii_case(name),
    })
}

fn begins(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The headers that a rule exposes; an entry that ends in `*` expands to the matching headers of
/// the response (T-9.28).
fn exposed_headers(rule: &CorsRule, reply: &Reply) -> String {
    let mut exposed = Vec::new();
    for entry in &rule.exposed_headers {
        match entry.strip_suffix('*') {
            Some(prefix) => {
                let metadata = reply.metadata.iter().map(|(name, _)| [METADATA, name].concat());
                let present = header_names(reply).into_iter().map(str::to_owned).chain(metadata);
                exposed.extend(present.filter(|name| begins(name, prefix)));
            }
            None => exposed.push(entry.clone()),
        }
    }
    exposed.join(",")
}

/// The headers this answer has, in the recorded order (T-9.28).
fn header_names(reply: &Reply) -> Vec<&'static str> {
    let mut names = vec!["x-ms-request-id", "x-ms-client-request-id", "Server", "x-ms-version"];
    if reply.odata {
        names.push("X-Content-Type-Options");
    } else if reply.content_type.is_some() {
        // Recorded on a peek.
        names.push("Content-Type");
    }
    if reply.no_cache {
        names.push("Cache-Control");
    }
    if reply.preference_applied.is_some() {
        names.push("Preference-Applied");
    }
    if reply.location.is_some() {
        names.push("Location");
    }
    if reply.etag.is_some() {
        names.push("ETag");
    }
    let continuations = reply.more.iter().map(|(name, _)| *name);
    names.extend(continuations.filter(|name| name.starts_with("x-ms-")));
    if reply.odata && reply.content_type.is_some() {
        names.push("Content-Type");
    }
    names.extend(["Content-Length", "Date", "Transfer-Encoding"]);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Vec<String> {
        split(text).map(str::to_owned).collect()
    }

    fn rule(origins: &str, methods: &str, headers: &str, exposed: &str) -> CorsRule {
        CorsRule {
            allowed_origins: list(origins),
            allowed_methods: list(methods),
            allowed_headers: list(headers),
            exposed_headers: list(exposed),
            max_age_seconds: 500,
        }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    fn get<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
        reply.more.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    fn ask(rules: &[CorsRule], origin: &str, method: &str, wanted: &str) -> ApiResult<Reply> {
        let pairs = [
            ("origin", origin),
            ("access-control-request-method", method),
            ("access-control-request-headers", wanted),
        ];
        preflight(rules, &headers(&pairs))
    }

    #[test]
    fn the_first_matching_rule_answers_a_preflight() {
        let rules = [
            rule("http://a", "GET,PUT", "x-ms-meta-data*,x-ms-date", ""),
            rule("*", "GET", "*", ""),
        ];
        let named = ask(&rules, "http://a", "PUT", "x-ms-meta-data-x, X-MS-Date").unwrap();
        assert_eq!(get(&named, "access-control-allow-origin"), Some("http://a"));
        assert_eq!(get(&named, "access-control-allow-credentials"), Some("true"));
        assert_eq!(get(&named, "access-control-max-age"), Some("500"));
        let any = ask(&rules, "http://b", "GET", "anything").unwrap();
        assert_eq!(get(&any, "access-control-allow-origin"), Some("*"));
        assert_eq!(get(&any, "access-control-allow-credentials"), None);
        for (origin, method, wanted) in [("http://b", "PUT", ""), ("http://a", "PUT", "other")] {
            let error = ask(&rules, origin, method, wanted).unwrap_err();
            assert_eq!(error.code, ErrorCode::CorsPreflightFailure);
        }
        // Origins are compared case-sensitively (T-9.25).
        assert!(ask(&rules[..1], "HTTP://A", "GET", "").is_err());
    }

    /// T-9.25, T-9.26.
    #[test]
    fn an_entry_with_a_wildcard_stands_for_every_subdomain() {
        let rules = [rule("http://*.contoso.com", "GET", "", "")];
        for origin in ["http://www.contoso.com", "http://a.b-1.contoso.com"] {
            let reply = ask(&rules, origin, "GET", "").unwrap();
            assert_eq!(get(&reply, "access-control-allow-origin"), Some(origin));
            assert_eq!(get(&reply, "access-control-allow-credentials"), None);
            check_decorated(&rules, "GET", Some(origin), [Some("Origin"), Some(origin), None]);
        }
        for origin in [
            "http://contoso.com",
            "http://.contoso.com",
            "https://www.contoso.com",
            "http://www.contoso.com:8080",
            "http://wwwcontoso.com",
            "http://evil.com/.contoso.com",
            "http://user@www.contoso.com",
        ] {
            assert!(ask(&rules, origin, "GET", "").is_err(), "{origin}");
        }
    }

    /// The third example of the reference, "CORS rules evaluation".
    #[test]
    fn headers_are_judged_by_the_rule_for_origin_and_method() {
        let rules = [
            rule("http://a", "PUT,HEAD", "x-ms-blob-content-type", ""),
            rule("*", "PUT,GET", "x-ms-blob-content-type", ""),
            rule("http://a", "GET", "x-ms-client-request-id", ""),
        ];
        assert!(ask(&rules, "http://a", "PUT", "x-ms-blob-content-type").is_ok());
        assert!(ask(&rules, "http://a", "GET", "x-ms-blob-content-type").is_ok());
        assert!(ask(&rules, "http://a", "GET", "x-ms-client-request-id").is_err());
    }

    #[test]
    fn a_preflight_without_its_headers_is_malformed() {
        let error = preflight(&[], &headers(&[("origin", "http://a")])).unwrap_err();
        assert_eq!(
            (error.code, error.message()),
            (ErrorCode::InvalidHeaderValue, message::CORS_HEADER_MISSING,)
        );
    }

    /// The relevant headers of a reply: `vary`, the allowed origin, the exposed headers.
    #[track_caller]
    fn check_decorated(
        rules: &[CorsRule],
        method: &str,
        origin: Option<&str>,
        expect: [Option<&str>; 3],
    ) {
        let mut reply = Reply::odata(200);
        let pairs: Vec<_> = origin.into_iter().map(|origin| ("origin", origin)).collect();
        decorate(rules, method, &headers(&pairs), &mut reply);
        let names = ["vary", "access-control-allow-origin", "access-control-expose-headers"];
        assert_eq!(names.map(|name| get(&reply, name)), expect, "{method} {origin:?}");
    }

    /// The table of the reference, "Understanding how the Vary header is set".
    #[test]
    fn real_requests_are_served_whatever_their_origin() {
        let (named, any) = ([rule("http://a", "GET,PUT", "", "x")], [rule("*", "GET", "", "x")]);
        let vary = Some("Origin");
        check_decorated(&[], "GET", None, [None; 3]);
        check_decorated(&named, "GET", None, [vary, None, None]);
        check_decorated(&any, "GET", None, [None, Some("*"), Some("x")]);
        check_decorated(&[], "GET", Some("http://a"), [None; 3]);
        check_decorated(&named, "GET", Some("http://a"), [vary, Some("http://a"), Some("x")]);
        check_decorated(&named, "GET", Some("http://b"), [vary, None, None]);
        check_decorated(&any, "GET", Some("http://a"), [None, Some("*"), Some("x")]);
        // Responses to other verbs are not cached.
        check_decorated(&named, "PUT", Some("http://a"), [None, Some("http://a"), Some("x")]);
        check_decorated(&named, "PUT", Some("http://b"), [None; 3]);
        check_decorated(&named, "PUT", None, [None; 3]);
    }

    #[test]
    fn a_prefix_exposes_the_headers_it_begins() {
        let rules = [rule("*", "GET", "", "X-MS-*,foo")];
        let exposed = "x-ms-request-id,x-ms-client-request-id,x-ms-version,foo";
        check_decorated(&rules, "GET", Some("http://a"), [None, Some("*"), Some(exposed)]);
    }
}
