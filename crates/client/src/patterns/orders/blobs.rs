//! As much of a blob service as logs in blobs need (P-14).

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_MATCH, IF_NONE_MATCH, LAST_MODIFIED};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use lazuli_wire::uri::percent_decode;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Nothing listens there.
pub(super) const ADDRESS: &str = "http://127.0.0.1:1";

const MODIFIED: &str = "Thu, 31 Jul 2014 18:00:00 GMT";

pub(super) fn is_for_blobs(request: &Request<Bytes>) -> bool {
    request.uri().port_u16() == Some(1)
}

/// The blobs of one container, by their paths.
#[derive(Default)]
pub(super) struct Blobs {
    all: BTreeMap<String, Stored>,
    /// The number of the last version of any blob.
    version: u64,
}

#[derive(Default)]
struct Stored {
    bytes: Vec<u8>,
    etag: String,
    metadata: Vec<(HeaderName, HeaderValue)>,
}

impl Blobs {
    pub(super) fn carry_out(&mut self, request: &Request<Bytes>) -> Response<Bytes> {
        let query = request.uri().query().unwrap_or_default();
        let parameter = |name: &str| {
            let found =
                query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
            percent_decode(found.unwrap_or_default()).unwrap().into_owned()
        };
        // Behind the account and the container.
        let path = request.uri().path().splitn(4, '/').nth(3).unwrap_or_default();
        let name = percent_decode(path).unwrap().into_owned();
        match (request.method().as_str(), &*parameter("comp")) {
            ("GET", "list") => self.list(&parameter("prefix")),
            ("PUT", "appendblock") => self.append(&name, request),
            ("PUT", "metadata") => self.describe(&name, request.headers()),
            ("PUT", _) => self.put(&name, request),
            ("GET" | "HEAD", _) => self.get(&name, request),
            ("DELETE", _) => match self.all.remove(&name) {
                Some(_) => answer(StatusCode::ACCEPTED, Bytes::new()),
                None => absent(),
            },
            other => panic!("no blob service does {other:?}"),
        }
    }

    fn list(&self, prefix: &str) -> Response<Bytes> {
        let mut text = "<EnumerationResults><Blobs>".to_owned();
        for (name, stored) in self.all.iter().filter(|(name, _)| name.starts_with(prefix)) {
            write!(
                text,
                "<Blob><Name>{name}</Name><Properties><Last-Modified>{MODIFIED}</Last-Modified>\
                 <Etag>{}</Etag><Content-Length>{}</Content-Length></Properties></Blob>",
                stored.etag,
                stored.bytes.len()
            )
            .unwrap();
        }
        text += "</Blobs><NextMarker/></EnumerationResults>";
        answer(StatusCode::OK, text.into())
    }

    fn get(&self, name: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let Some(stored) = self.all.get(name) else { return absent() };
        let length = stored.bytes.len();
        let range = request.headers().get("x-ms-range").map(|range| {
            let range = range.to_str().unwrap().strip_prefix("bytes=").unwrap();
            let (start, last) = range.split_once('-').unwrap();
            let end = last.parse().map_or(length, |last: usize| (last + 1).min(length));
            start.parse().unwrap()..end
        });
        if range.as_ref().is_some_and(|range| range.start >= length) {
            return refusal(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange");
        }
        let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
        let range = range.unwrap_or(0..length);
        let is_head = request.method() == Method::HEAD;
        let bytes = if is_head { &[][..] } else { &stored.bytes[range.clone()] };
        let mut found = versioned(status, stored, Bytes::copy_from_slice(bytes));
        let headers = found.headers_mut();
        headers.extend(stored.metadata.iter().cloned().map(|(name, value)| (Some(name), value)));
        headers.insert(CONTENT_LENGTH, range.len().into());
        let of = format!("bytes {}-{}/{length}", range.start, range.end.saturating_sub(1));
        headers.insert(CONTENT_RANGE, of.try_into().unwrap());
        found
    }

    fn put(&mut self, name: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let is_there = self.all.contains_key(name);
        if is_there && request.headers().get(IF_NONE_MATCH).is_some_and(|etag| etag == "*") {
            return refusal(StatusCode::CONFLICT, "BlobAlreadyExists");
        }
        let (bytes, metadata) = (request.body().to_vec(), metadata(request.headers()));
        let stored = Stored { bytes, etag: self.next_version(), metadata };
        let created = versioned(StatusCode::CREATED, &stored, Bytes::new());
        self.all.insert(name.to_owned(), stored);
        created
    }

    fn append(&mut self, name: &str, request: &Request<Bytes>) -> Response<Bytes> {
        let version = self.next_version();
        let stored = match self.of_version(name, request.headers()) {
            Ok(stored) => stored,
            Err((status, code)) => return refusal(status, code),
        };
        let offset = stored.bytes.len();
        let wanted = request.headers().get("x-ms-blob-condition-appendpos");
        if wanted.is_some_and(|position| *position != offset.to_string()) {
            return refusal(StatusCode::PRECONDITION_FAILED, "AppendPositionConditionNotMet");
        }
        stored.bytes.extend_from_slice(request.body());
        stored.etag = version;
        let mut appended = versioned(StatusCode::CREATED, stored, Bytes::new());
        appended.headers_mut().insert("x-ms-blob-append-offset", offset.into());
        appended
    }

    fn describe(&mut self, name: &str, headers: &HeaderMap) -> Response<Bytes> {
        let version = self.next_version();
        match self.of_version(name, headers) {
            Ok(stored) => {
                (stored.metadata, stored.etag) = (metadata(headers), version);
                versioned(StatusCode::OK, stored, Bytes::new())
            }
            Err((status, code)) => refusal(status, code),
        }
    }

    /// The blob, if it is of the version that is asked for.
    fn of_version(
        &mut self,
        name: &str,
        headers: &HeaderMap,
    ) -> Result<&mut Stored, (StatusCode, &'static str)> {
        let stored = self.all.get_mut(name).ok_or(ABSENT)?;
        match headers.get(IF_MATCH) {
            Some(etag) if *etag != stored.etag => {
                Err((StatusCode::PRECONDITION_FAILED, "ConditionNotMet"))
            }
            _ => Ok(stored),
        }
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        format!("\"{}\"", self.version)
    }
}

fn metadata(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let all = headers.iter().filter(|(name, _)| name.as_str().starts_with("x-ms-meta-"));
    all.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn versioned(status: StatusCode, stored: &Stored, body: Bytes) -> Response<Bytes> {
    let mut versioned = answer(status, body);
    let headers = versioned.headers_mut();
    headers.insert(ETAG, HeaderValue::try_from(&stored.etag).unwrap());
    headers.insert(LAST_MODIFIED, HeaderValue::from_static(MODIFIED));
    versioned
}

const ABSENT: (StatusCode, &str) = (StatusCode::NOT_FOUND, "BlobNotFound");

fn absent() -> Response<Bytes> {
    refusal(ABSENT.0, ABSENT.1)
}

fn refusal(status: StatusCode, code: &'static str) -> Response<Bytes> {
    let mut refusal = answer(status, Bytes::new());
    refusal.headers_mut().insert("x-ms-error-code", HeaderValue::from_static(code));
    refusal
}

fn answer(status: StatusCode, body: Bytes) -> Response<Bytes> {
    Response::builder().status(status).body(body).unwrap()
}
