//! The request headers of interest, found in one pass.

use http::{HeaderMap, HeaderValue, header};

/// Declares [`RequestHeaders`]: each field with its header name and parser.
macro_rules! request_headers {
    ($($(#[$doc:meta])* $field:ident: $type:ty = $name:literal, $read:ident;)*) => {
        /// The headers of a request. If a header occurs twice, the first counts; non-text values
        /// are ignored, unless the field says otherwise.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct RequestHeaders<'a> {
            pub(crate) all: &'a HeaderMap,
            $($(#[$doc])* pub(crate) $field: Option<$type>,)*
            /// Whether the client waits for `100 Continue` before it sends the body.
            pub(crate) has_expect: bool,
            /// Whether the request declares the length of its body (T-2.5).
            pub(crate) has_length: bool,
            /// Whether there is an `X-HTTP-Method`.
            pub(crate) is_tunnelled: bool,
        }

        impl<'a> RequestHeaders<'a> {
            pub(crate) fn of(all: &'a HeaderMap) -> Self {
                $(let mut $field: Option<&'a HeaderValue> = None;)*
                let (mut has_expect, mut has_length, mut is_tunnelled) = (false, false, false);
                for (name, value) in all {
                    let slot = match name.as_str() {
                        $($name => &mut $field,)*
                        other => {
                            has_expect |= other == "expect";
                            has_length |= matches!(other, "content-length" | "transfer-encoding");
                            is_tunnelled |= other == TUNNEL;
                            continue;
                        }
                    };
                    slot.get_or_insert(value);
                }
                Self {
                    all,
                    $($field: $field.and_then(|value| $read(value, all)),)*
                    has_expect,
                    has_length,
                    is_tunnelled,
                }
            }
        }
    };
}

request_headers! {
    accept: &'a str = "accept", text;
    /// Empty if it is not text: an unreadable credential differs from a missing one.
    authorization: &'a str = "authorization", text_or_empty;
    client_request_id: &'a HeaderValue = "x-ms-client-request-id", raw;
    content_md5: &'a str = "content-md5", text;
    content_type: &'a str = "content-type", text;
    data_service_version: &'a HeaderValue = "dataserviceversion", raw;
    date: &'a str = "date", text;
    host: &'a str = "host", text;
    /// [`NO_ETAG`] when it is not one readable value.
    if_match: &'a str = "if-match", one_etag;
    if_none_match: &'a str = "if-none-match", text;
    max_data_service_version: &'a HeaderValue = "maxdataserviceversion", raw;
    prefer: &'a str = "prefer", text;
    version: &'a HeaderValue = "x-ms-version", raw;
    x_ms_date: &'a str = "x-ms-date", text;
}

/// The header with which a POST requests another method.
pub(crate) const TUNNEL: &str = "x-http-method";

/// Replaces an If-Match that is not one readable value, and is not a valid tag (T-5.6). Dropping
/// such a header would make a conditional write unconditional.
pub(crate) const NO_ETAG: &str = "";

impl<'a> RequestHeaders<'a> {
    /// The methods that the request tunnels.
    pub(crate) fn tunnels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let values = self.is_tunnelled.then(|| self.all.get_all(TUNNEL));
        values.into_iter().flatten().map(|value| value.to_str().unwrap_or_default())
    }
}

fn raw<'a>(value: &'a HeaderValue, _: &HeaderMap) -> Option<&'a HeaderValue> {
    Some(value)
}

fn text<'a>(value: &'a HeaderValue, _: &HeaderMap) -> Option<&'a str> {
    value.to_str().ok()
}

fn text_or_empty<'a>(value: &'a HeaderValue, _: &HeaderMap) -> Option<&'a str> {
    Some(value.to_str().unwrap_or_default())
}

fn one_etag<'a>(value: &'a HeaderValue, all: &HeaderMap) -> Option<&'a str> {
    let is_alone = all.get_all(header::IF_MATCH).iter().nth(1).is_none();
    Some(value.to_str().ok().filter(|_| is_alone).unwrap_or(NO_ETAG))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(lines: &[(&'static str, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(*name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    #[test]
    fn of_a_header_that_comes_twice_the_first_counts() {
        let map =
            map(&[("accept", b"a"), ("accept", b"b"), ("x-ms-date", b"\xFF"), ("host", b"h")]);
        let headers = RequestHeaders::of(&map);
        assert_eq!((headers.accept, headers.host, headers.x_ms_date), (Some("a"), Some("h"), None));
    }

    #[test]
    fn a_condition_that_cannot_be_read_stays_a_condition() {
        let if_match = |lines: &[(&'static str, &[u8])]| {
            RequestHeaders::of(&map(lines)).if_match.map(str::to_owned)
        };
        assert_eq!(if_match(&[]), None);
        assert_eq!(if_match(&[("if-match", b"*")]).as_deref(), Some("*"));
        assert_eq!(if_match(&[("if-match", b"\xFF")]).as_deref(), Some(NO_ETAG));
        assert_eq!(if_match(&[("if-match", b"*"), ("if-match", b"*")]).as_deref(), Some(NO_ETAG));
    }

    #[test]
    fn all_methods_asked_for_are_listed() {
        let map = map(&[(TUNNEL, b"PUT"), (TUNNEL, b"MERGE"), ("content-length", b"0")]);
        let headers = RequestHeaders::of(&map);
        assert!(headers.is_tunnelled && headers.has_length && !headers.has_expect);
        assert!(headers.tunnels().eq(["PUT", "MERGE"]));
    }
}
