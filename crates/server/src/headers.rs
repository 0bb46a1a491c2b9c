//! The request headers of interest, found in one pass.

use http::{HeaderMap, HeaderValue, header};
use lazuli_wire::version::ApiVersion;

/// Declares [`RequestHeaders`] and [`CallHeaders`], and with them each header once: its field, its
/// name and its parser. Headers that a part of a batch may have too also name how one is added.
macro_rules! request_headers {
    (
        requests { $($(#[$doc:meta])* $field:ident: $type:ty = $name:literal, $read:ident;)* }
        calls { $($(#[$call_doc:meta])* $call_field:ident: $call_type:ty =
            $call_name:literal, $call_read:ident, $add:ident;)* }
    ) => {
        /// The headers of a request. If a header occurs twice, the first counts; non-text values
        /// are ignored, unless the field says otherwise.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct RequestHeaders<'a> {
            pub(crate) all: &'a HeaderMap,
            $($(#[$doc])* pub(crate) $field: Option<$type>,)*
            $($(#[$call_doc])* pub(crate) $call_field: Option<$call_type>,)*
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
                $(let mut $call_field: Option<&'a HeaderValue> = None;)*
                let (mut has_expect, mut has_length, mut is_tunnelled) = (false, false, false);
                for (name, value) in all {
                    let slot = match name.as_str() {
                        $($name => &mut $field,)*
                        $($call_name => &mut $call_field,)*
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
                    $($call_field: $call_field.and_then(|value| $call_read(value, all)),)*
                    has_expect,
                    has_length,
                    is_tunnelled,
                }
            }
        }

        /// The headers that change what an operation does, from a request or from a part of a
        /// batch.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct CallHeaders<'a> {
            $($(#[$call_doc])* pub(crate) $call_field: Option<$call_type>,)*
        }

        impl<'a> CallHeaders<'a> {
            pub(crate) fn of_request(headers: &RequestHeaders<'a>) -> Self {
                Self { $($call_field: headers.$call_field,)* }
            }

            /// Adds one header of a part.
            pub(crate) fn add(&mut self, name: &str, value: &'a str) {
                $(if name.eq_ignore_ascii_case($call_name) {
                    self.$call_field = $add(self.$call_field, value);
                    return;
                })*
            }
        }
    };
}

request_headers! {
    requests {
        /// Empty if it is not text: an unreadable credential differs from a missing one.
        authorization: &'a str = "authorization", text_or_empty;
        client_request_id: &'a HeaderValue = "x-ms-client-request-id", raw;
        content_md5: &'a str = "content-md5", text;
        date: &'a str = "date", text;
        /// Whether the client requests extensions.
        extensions: &'a HeaderValue = "x-lazuli-extensions", only_raw;
        host: &'a str = "host", text;
        version: &'a HeaderValue = "x-ms-version", raw;
        x_ms_date: &'a str = "x-ms-date", text;
    }
    calls {
        accept: &'a str = "accept", text, first;
        content_type: &'a str = "content-type", text, first;
        data_service_version: DataServiceVersion = "dataserviceversion", odata, first_odata;
        /// [`NO_ETAG`] when it is not one readable value.
        if_match: &'a str = "if-match", one_etag, only_etag;
        if_none_match: &'a str = "if-none-match", text, first;
        max_data_service_version: DataServiceVersion =
            "maxdataserviceversion", odata, first_odata;
        prefer: &'a str = "prefer", text, first;
    }
}

/// The header with which a POST requests a different method.
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

/// If a header of ours occurs twice, no line counts: the reader finds a value that it refuses.
static REPEATED: HeaderValue = HeaderValue::from_static("repeated");

/// The lines of a repeated header are one value (RFC 9110, 5.3), and none of ours has a comma.
fn only_raw<'a>(value: &'a HeaderValue, all: &HeaderMap) -> Option<&'a HeaderValue> {
    let is_alone = all.get_all("x-lazuli-extensions").iter().nth(1).is_none();
    Some(if is_alone { value } else { &REPEATED })
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

fn odata(value: &HeaderValue, _: &HeaderMap) -> Option<DataServiceVersion> {
    DataServiceVersion::parse(value.as_bytes())
}

/// If a header of a part occurs twice, the first counts.
fn first<'a>(known: Option<&'a str>, value: &'a str) -> Option<&'a str> {
    known.or(Some(value))
}

fn only_etag<'a>(known: Option<&'a str>, value: &'a str) -> Option<&'a str> {
    Some(if known.is_none() { value } else { NO_ETAG })
}

fn first_odata(known: Option<DataServiceVersion>, value: &str) -> Option<DataServiceVersion> {
    known.or_else(|| DataServiceVersion::parse(value.as_bytes()))
}

/// A version of OData (T-2.16, T-2.20).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DataServiceVersion {
    #[default]
    V1,
    V2,
    V3,
}

impl DataServiceVersion {
    /// Reads `2.0`, `2.0;` or `2.0;NetFx`; text after the semicolon is ignored.
    pub(crate) fn parse(header: &[u8]) -> Option<Self> {
        match header.trim_ascii_start() {
            [b'1', b'.', b'0', ..] => Some(Self::V1),
            [b'2', b'.', b'0', ..] => Some(Self::V2),
            [b'3', b'.', b'0', ..] => Some(Self::V3),
            _ => None,
        }
    }

    /// What a request without the header means (T-2.17).
    pub(crate) fn highest_at(version: ApiVersion) -> Self {
        match (version.has_json(), version.has_select()) {
            (true, _) => Self::V3,
            (false, true) => Self::V2,
            (false, false) => Self::V1,
        }
    }

    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::V1 => "1.0;",
            Self::V2 => "2.0;",
            Self::V3 => "3.0;",
        }
    }
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
    fn a_part_is_read_like_a_request() {
        let mut part = CallHeaders::default();
        for (name, value) in [
            ("ACCEPT", "a"),
            ("accept", "b"),
            ("If-Match", "x"),
            ("DataServiceVersion", "?"),
            ("dataserviceversion", "2.0;NetFx"),
            ("X-Other", "c"),
        ] {
            part.add(name, value);
        }
        assert_eq!((part.accept, part.if_match, part.prefer), (Some("a"), Some("x"), None));
        assert_eq!(part.data_service_version, Some(DataServiceVersion::V2));
        part.add("if-match", "x");
        assert_eq!(part.if_match, Some(NO_ETAG));
        let map = map(&[("prefer", b"p"), ("maxdataserviceversion", b"3.0")]);
        let whole = CallHeaders::of_request(&RequestHeaders::of(&map));
        assert_eq!((whole.prefer, whole.accept), (Some("p"), None));
        assert_eq!(whole.max_data_service_version, Some(DataServiceVersion::V3));
    }

    #[test]
    fn all_methods_asked_for_are_listed() {
        let map = map(&[(TUNNEL, b"PUT"), (TUNNEL, b"MERGE"), ("content-length", b"0")]);
        let headers = RequestHeaders::of(&map);
        assert!(headers.is_tunnelled && headers.has_length && !headers.has_expect);
        assert!(headers.tunnels().eq(["PUT", "MERGE"]));
    }
}
