//! The headers that every request is asked for, found in one pass.

use http::{HeaderMap, HeaderValue};

/// What a request says in its headers. Of a header that comes twice the first counts, and one that
/// is not text is as none, unless said otherwise.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestHeaders<'a> {
    pub(crate) all: &'a HeaderMap,
    pub(crate) accept: Option<&'a str>,
    /// Empty when it is not text.
    pub(crate) authorization: Option<&'a str>,
    pub(crate) client_request_id: Option<&'a HeaderValue>,
    pub(crate) content_md5: Option<&'a str>,
    pub(crate) content_type: Option<&'a str>,
    pub(crate) date: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    /// [`NO_ETAG`] when it is not one readable value.
    pub(crate) if_match: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) prefer: Option<&'a str>,
    pub(crate) version: Option<&'a HeaderValue>,
    pub(crate) x_ms_date: Option<&'a str>,
    /// Whether the client waits for our leave to send the body.
    pub(crate) has_expect: bool,
    /// Whether the extent of the body is told (T-2.5).
    pub(crate) has_length: bool,
    /// Whether there is an `X-HTTP-Method`.
    pub(crate) is_tunnelled: bool,
}

/// The header by which a POST asks to be taken for another method.
pub(crate) const TUNNEL: &str = "x-http-method";

/// Stands for an If-Match that is not one readable value: no valid tag (T-5.6). To leave such a
/// header out would turn a conditional write into an unconditional one.
pub(crate) const NO_ETAG: &str = "";

impl<'a> RequestHeaders<'a> {
    pub(crate) fn of(all: &'a HeaderMap) -> Self {
        let mut first = First::default();
        let (mut has_expect, mut has_length, mut is_tunnelled) = (false, false, false);
        let mut if_matches = 0;
        for (name, value) in all {
            let slot = match name.as_str() {
                "accept" => &mut first.accept,
                "authorization" => &mut first.authorization,
                "content-md5" => &mut first.content_md5,
                "content-type" => &mut first.content_type,
                "date" => &mut first.date,
                "host" => &mut first.host,
                "if-match" => {
                    if_matches += 1;
                    &mut first.if_match
                }
                "if-none-match" => &mut first.if_none_match,
                "prefer" => &mut first.prefer,
                "x-ms-client-request-id" => &mut first.client_request_id,
                "x-ms-date" => &mut first.x_ms_date,
                "x-ms-version" => &mut first.version,
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
            accept: text(first.accept),
            authorization: first.authorization.map(|value| value.to_str().unwrap_or_default()),
            client_request_id: first.client_request_id,
            content_md5: text(first.content_md5),
            content_type: text(first.content_type),
            date: text(first.date),
            host: text(first.host),
            if_match: match if_matches {
                0 => None,
                1 => text(first.if_match).or(Some(NO_ETAG)),
                _ => Some(NO_ETAG),
            },
            if_none_match: text(first.if_none_match),
            prefer: text(first.prefer),
            version: first.version,
            x_ms_date: text(first.x_ms_date),
            has_expect,
            has_length,
            is_tunnelled,
        }
    }

    /// The methods that the request asks to be taken for.
    pub(crate) fn tunnels(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let values = self.is_tunnelled.then(|| self.all.get_all(TUNNEL));
        values.into_iter().flatten().map(|value| value.to_str().unwrap_or_default())
    }
}

/// The first header of each name.
#[derive(Default)]
struct First<'a> {
    accept: Option<&'a HeaderValue>,
    authorization: Option<&'a HeaderValue>,
    client_request_id: Option<&'a HeaderValue>,
    content_md5: Option<&'a HeaderValue>,
    content_type: Option<&'a HeaderValue>,
    date: Option<&'a HeaderValue>,
    host: Option<&'a HeaderValue>,
    if_match: Option<&'a HeaderValue>,
    if_none_match: Option<&'a HeaderValue>,
    prefer: Option<&'a HeaderValue>,
    version: Option<&'a HeaderValue>,
    x_ms_date: Option<&'a HeaderValue>,
}

fn text(value: Option<&HeaderValue>) -> Option<&str> {
    value.and_then(|value| value.to_str().ok())
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
    fn all_methods_asked_for_are_told() {
        let map = map(&[(TUNNEL, b"PUT"), (TUNNEL, b"MERGE"), ("content-length", b"0")]);
        let headers = RequestHeaders::of(&map);
        assert!(headers.is_tunnelled && headers.has_length && !headers.has_expect);
        assert!(headers.tunnels().eq(["PUT", "MERGE"]));
    }
}
