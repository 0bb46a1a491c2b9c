//! Cross-origin requests: preflights, and the headers on answers to real ones.

use crate::error::{ApiError, ApiResult};
use crate::reply::Reply;
use http::HeaderMap;
use http::header;
use lazuli_model::service_properties::CorsRule;
use lazuli_wire::error_code::{ErrorCode, message};

/// Answers a preflight by the first rule that matches it (T-9.24 to T-9.26).
pub(crate) fn preflight(rules: &[CorsRule], headers: &HeaderMap) -> ApiResult<Reply> {
    let missing =
        || ApiError::with_text(ErrorCode::InvalidHeaderValue, message::CORS_HEADER_MISSING);
    let origin = text(headers, header::ORIGIN).ok_or_else(missing)?;
    let method = text(headers, header::ACCESS_CONTROL_REQUEST_METHOD).ok_or_else(missing)?;
    let wanted = text(headers, header::ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    let matching = |rule: &&CorsRule| {
        allows_origin(rule, origin)
            && allows_method(rule, method)
            && split(wanted).all(|name| allows_header(rule, name))
    };
    let rule = rules.iter().find(matching).ok_or(ErrorCode::CorsPreflightFailure)?;
    let mut more = vec![
        ("access-control-allow-origin", origin_shown(rule, origin)),
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

/// Adds what a browser wants to know about the answer to a real request (T-2.61, T-9.27).
pub(crate) fn decorate(rules: &[CorsRule], method: &str, headers: &HeaderMap, reply: &mut Reply) {
    if rules.is_empty() {
        return;
    }
    let Some(origin) = text(headers, header::ORIGIN) else {
        if method == "GET" {
            reply.more.push(("vary", "Origin".to_owned()));
        }
        return;
    };
    let matching = |rule: &&CorsRule| allows_origin(rule, origin) && allows_method(rule, method);
    let Some(rule) = rules.iter().find(matching) else { return };
    reply.more.push(("access-control-allow-origin", origin_shown(rule, origin)));
    if names_origin(rule, origin) {
        reply.more.push(("access-control-allow-credentials", "true".to_owned()));
        reply.more.push(("vary", "Origin".to_owned()));
    }
    let exposed = match rule.exposed_headers.iter().any(|name| name == "*") {
        true => header_names(reply),
        false => rule.exposed_headers.join(","),
    };
    if !exposed.is_empty() {
        reply.more.push(("access-control-expose-headers", exposed));
    }
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

fn allows_origin(rule: &CorsRule, origin: &str) -> bool {
    rule.allowed_origins.iter().any(|allowed| allowed == "*") || names_origin(rule, origin)
}

fn origin_shown(rule: &CorsRule, origin: &str) -> String {
    if names_origin(rule, origin) { origin.to_owned() } else { "*".to_owned() }
}

fn allows_method(rule: &CorsRule, method: &str) -> bool {
    rule.allowed_methods.iter().any(|allowed| allowed.eq_ignore_ascii_case(method))
}

/// An entry that ends in `*` stands for every header it begins.
fn allows_header(rule: &CorsRule, name: &str) -> bool {
    rule.allowed_headers.iter().any(|allowed| match allowed.strip_suffix('*') {
        Some(prefix) => {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
        None => allowed.eq_ignore_ascii_case(name),
    })
}

/// What `*` exposes: the headers this answer has, in the recorded order (T-9.28).
fn header_names(reply: &Reply) -> String {
    let mut names = vec!["x-ms-request-id", "x-ms-client-request-id", "Server", "x-ms-version"];
    if reply.odata {
        names.push("X-Content-Type-Options");
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
    names.extend(continuations.filter(|name| name.starts_with("x-ms-continuation")));
    if reply.content_type.is_some() {
        names.push("Content-Type");
    }
    names.extend(["Content-Length", "Date", "Transfer-Encoding"]);
    names.join(",")
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
        // Origins are compared with regard to case (T-9.25).
        assert!(ask(&rules[..1], "HTTP://A", "GET", "").is_err());
    }

    #[test]
    fn a_preflight_without_its_headers_is_malformed() {
        let error = preflight(&[], &headers(&[("origin", "http://a")])).unwrap_err();
        assert_eq!(
            (error.code, error.message()),
            (ErrorCode::InvalidHeaderValue, message::CORS_HEADER_MISSING,)
        );
    }

    #[test]
    fn real_requests_are_served_whatever_their_origin() {
        let rules = [rule("http://a", "GET", "", "x-ms-*")];
        let decorated = |rules: &[CorsRule], pairs: &[(&'static str, &str)]| {
            let mut reply = Reply::odata(200);
            decorate(rules, "GET", &headers(pairs), &mut reply);
            reply
        };
        let named = decorated(&rules, &[("origin", "http://a")]);
        assert_eq!(get(&named, "access-control-allow-origin"), Some("http://a"));
        assert_eq!(get(&named, "vary"), Some("Origin"));
        assert!(decorated(&rules, &[("origin", "http://b")]).more.is_empty());
        assert_eq!(get(&decorated(&rules, &[]), "vary"), Some("Origin"));
        assert!(decorated(&[], &[("origin", "http://a")]).more.is_empty());
    }
}
