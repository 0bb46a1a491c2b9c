//! Shared by the queue and blob clients: calls, parameters, metadata (C-17).

use crate::account::Account;
use crate::call::{About, Answer, Call, CallOptions, X_MS_VERSION, header, text_value};
use crate::error::{Error, ErrorKind};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::{Metadata, Timestamp};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::uri::percent_encode;

/// The version that both clients send (C-17.6).
const VERSION: HeaderValue = HeaderValue::from_static("2021-12-02");
const METADATA_PREFIX: &str = "x-ms-meta-";

/// The largest answer that is not a list, and the largest list (C-3.10).
pub(crate) const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;
pub(crate) const LIST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A call that changes something, unless `is_read` is set.
pub(crate) fn call(
    service: StorageService,
    operation: &'static str,
    method: Method,
    path: String,
    query: Parameters,
) -> Call {
    Call {
        service,
        operation,
        is_read: matches!(method, Method::GET | Method::HEAD),
        is_once: false,
        method,
        path,
        query: query.0,
        headers: HeaderMap::from_iter([(X_MS_VERSION, VERSION)]),
        body: Bytes::new(),
        answer_bytes_max: ANSWER_BYTES_MAX,
        options: CallOptions::default(),
        about: About::default(),
    }
}

/// A page of a list: its names, and the marker of the next page.
pub(crate) type NamesPage = (Vec<String>, Option<String>);

/// All names with `prefix` that a service lists, over all pages.
pub(crate) async fn list_names(
    account: &Account,
    service: StorageService,
    operation: &'static str,
    prefix: &str,
    read: fn(&[u8]) -> Result<NamesPage, Error>,
) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    let mut marker: Option<String> = None;
    loop {
        let query = Parameters::new()
            .and("comp", "list")
            .and_if("prefix", Some(prefix).filter(|prefix| !prefix.is_empty()))
            .and_if("marker", marker.as_deref());
        let mut call = call(service, operation, Method::GET, "/".into(), query);
        call.answer_bytes_max = LIST_BYTES_MAX;
        let answer = account.exchange(&call).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.into_error(operation));
        }
        let (page, next) = read(&answer.body)?;
        names.extend(page);
        marker = next;
        if marker.is_none() {
            return Ok(names);
        }
    }
}

/// Whether the object to delete existed; `done` is the status of a successful deletion.
pub(crate) fn was_present(
    answer: Answer,
    done: StatusCode,
    operation: &'static str,
) -> Result<bool, Error> {
    match answer.status {
        status if status == done => Ok(true),
        // An earlier attempt may have deleted it.
        StatusCode::NOT_FOUND => Ok(answer.is_after_lost),
        _ => Err(answer.into_error(operation)),
    }
}

/// The parameters of a request, percent-encoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parameters(String);

impl Parameters {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        let mut encoded = Vec::with_capacity(value.len());
        percent_encode(&mut encoded, value);
        if !self.0.is_empty() {
            self.0.push('&');
        }
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&String::from_utf8_lossy(&encoded));
        self
    }

    pub(crate) fn and_if(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.and(name, value),
            None => self,
        }
    }
}

/// Checks metadata and adds a header for each pair.
pub(crate) fn write_metadata(headers: &mut HeaderMap, metadata: &Metadata) -> Result<(), Error> {
    for (name, value) in metadata.iter() {
        let name = HeaderName::try_from([METADATA_PREFIX, name].concat());
        let name = name.map_err(|_| Error::config("a metadata name is not a header's"))?;
        headers.insert(name, text_value(value)?);
    }
    Ok(())
}

/// The metadata in an answer. Names are in lower case: HTTP headers do not keep the case.
pub(crate) fn read_metadata(headers: &HeaderMap) -> Metadata {
    let pairs = headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().strip_prefix(METADATA_PREFIX)?, value.to_str().ok()?))
    });
    // The service has checked its metadata. Headers that are invalid by our rules are left out.
    let valid = pairs.filter(|(name, value)| Metadata::parse([(*name, *value)]).is_ok());
    Metadata::parse(valid).unwrap_or_default()
}

/// Metadata from pairs.
pub(crate) fn metadata<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Metadata, Error> {
    Metadata::parse(pairs).map_err(|error| Error::config(error.to_string()))
}

/// The time in a header of RFC 1123 form.
pub(crate) fn time(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    header(headers, name).and_then(Timestamp::parse_rfc1123)
}

/// The error for an answer or body that exceeds its limit.
pub(crate) fn too_large(bytes: u64, bytes_max: u64) -> Error {
    Error::new(ErrorKind::TooLarge { bytes, bytes_max })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_escaped() {
        let query = Parameters::new().and("comp", "list").and("prefix", "a/b c").and_if("x", None);
        assert_eq!(query.0, "comp=list&prefix=a%2Fb%20c");
    }

    #[test]
    fn metadata_travels_in_headers() {
        let sent = metadata([("Colour", "blue"), ("empty", "")]).unwrap();
        let mut headers = HeaderMap::new();
        write_metadata(&mut headers, &sent).unwrap();
        assert_eq!(headers.get("x-ms-meta-colour").unwrap(), "blue");
        assert_eq!(read_metadata(&headers), sent);
        assert!(metadata([("no-name", "x")]).is_err());
        let line_feed = metadata([("a", "x\ny")]).unwrap();
        assert!(write_metadata(&mut headers, &line_feed).is_err());
    }
}
