//! Requests as bytes, signed with Shared Key. Nearly all are signed before the clock starts.

use crate::workload::Service;
use lazuli_model::{Clock, SystemClock};
use lazuli_testkit::server::{ACCOUNT, ACCOUNT_KEY};
use lazuli_wire::shared_key::{
    Authorization, CanonicalRequest, InvalidKey, Scheme, Signature, SignedRequest, SigningKey,
};
use lazuli_wire::version::ApiVersion;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::io::Write as _;
use std::net::SocketAddr;

/// The version that the official clients send today.
const VERSION: &str = "2019-02-02";
const BOUNDARY: &str = "batch_1";

/// Signs requests for one server. A signature is valid for fifteen minutes.
pub(crate) struct Signer {
    key: SigningKey,
    host: String,
    date: String,
}

/// A request before it is signed; `target` starts after the account.
#[derive(Clone, Copy)]
pub(crate) struct Plain<'a> {
    pub(crate) service: Service,
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) content_type: &'a str,
    /// Whole lines, each with its line end.
    pub(crate) headers: &'a str,
    pub(crate) body: &'a [u8],
}

impl<'a> Plain<'a> {
    pub(crate) fn get(target: &'a str) -> Self {
        let service = Service::Table;
        Self { service, method: "GET", target, content_type: "", headers: "", body: &[] }
    }

    pub(crate) fn json(method: &'a str, target: &'a str, body: &'a str) -> Self {
        let content_type = "application/json";
        Self { method, content_type, body: body.as_bytes(), ..Self::get(target) }
    }

    /// A request to the Queue service. Its headers are signed, so it cannot have others.
    pub(crate) fn queue(method: &'a str, target: &'a str, body: &'a str) -> Self {
        let content_type = if body.is_empty() { "" } else { "application/xml" };
        let service = Service::Queue;
        Self { service, method, content_type, body: body.as_bytes(), ..Self::get(target) }
    }

    pub(crate) fn headers(self, headers: &'a str) -> Self {
        Self { headers, ..self }
    }
}

impl Signer {
    pub(crate) fn new(address: SocketAddr) -> Result<Self, InvalidKey> {
        let key = SigningKey::from_base64(ACCOUNT_KEY)?;
        Ok(Self { key, host: address.to_string(), date: SystemClock.now().rfc1123() })
    }

    /// The bytes of `request`, and where its target ends.
    pub(crate) fn sign(&self, request: &Plain<'_>) -> (Vec<u8>, usize) {
        let target = format!("/{ACCOUNT}{}", request.target);
        let signature = match request.service {
            Service::Table => self.table_signature(request, &target),
            Service::Queue => self.queue_signature(request, &target),
        };
        let authorization = Authorization::header(Scheme::SharedKey, ACCOUNT, &signature);
        let mut out = Vec::with_capacity(512 + target.len() + request.body.len());
        // Writing to a vector cannot fail; likewise below.
        let _ = write!(out, "{} {target}", request.method);
        let target_end = out.len();
        let _ = write!(
            out,
            " HTTP/1.1\r\nHost: {}\r\nx-ms-date: {}\r\nx-ms-version: {VERSION}\r\n\
             Authorization: {authorization}\r\n",
            self.host, self.date
        );
        let accept = match request.service {
            Service::Table => {
                "Accept: application/json;odata=minimalmetadata\r\nDataServiceVersion: 3.0;NetFx\r\n"
            }
            Service::Queue => "Accept: application/xml\r\n",
        };
        out.extend_from_slice(accept.as_bytes());
        if !request.content_type.is_empty() {
            let _ = write!(out, "Content-Type: {}\r\n", request.content_type);
        }
        if !request.body.is_empty() || request.method == "PUT" {
            let _ = write!(out, "Content-Length: {}\r\n", request.body.len());
        }
        out.extend_from_slice(request.headers.as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(request.body);
        (out, target_end)
    }

    fn table_signature(&self, request: &Plain<'_>, target: &str) -> Signature {
        let signed = SignedRequest {
            method: request.method,
            content_md5: "",
            content_type: request.content_type,
            date: &self.date,
            account: ACCOUNT,
            path: target.split('?').next().unwrap_or_default(),
            comp: None,
        };
        signed.sign(Scheme::SharedKey, &self.key)
    }

    fn queue_signature(&self, request: &Plain<'_>, target: &str) -> Signature {
        let length = request.body.len().to_string();
        let headers = [
            ("content-length", length.as_str()),
            ("content-type", request.content_type),
            ("x-ms-date", &self.date),
            ("x-ms-version", VERSION),
        ];
        let headers = headers.map(|(name, value)| (name, value.as_bytes()));
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let version = ApiVersion::NEWEST;
        CanonicalRequest::new(request.method, headers, ACCOUNT, path, query, version)
            .sign(Scheme::SharedKey, &self.key)
    }

    /// An entity group transaction that inserts `bodies` into `table`.
    pub(crate) fn sign_batch(&self, table: &str, bodies: &[String]) -> Vec<u8> {
        let mut body = Vec::with_capacity(bodies.len() * 2048);
        let _ = write!(
            body,
            "--{BOUNDARY}\r\nContent-Type: multipart/mixed; boundary=changeset_1\r\n\r\n"
        );
        for entity in bodies {
            let _ = write!(
                body,
                "--changeset_1\r\nContent-Type: application/http\r\n\
                 Content-Transfer-Encoding: binary\r\n\r\n\
                 POST http://{}/{ACCOUNT}/{table} HTTP/1.1\r\nAccept: application/json\r\n\
                 Content-Type: application/json\r\nDataServiceVersion: 3.0;\r\n\
                 Prefer: return-no-content\r\n\r\n{entity}\r\n",
                self.host
            );
        }
        let _ = write!(body, "--changeset_1--\r\n--{BOUNDARY}--\r\n");
        let content_type = format!("multipart/mixed; boundary={BOUNDARY}");
        let content_type = content_type.as_str();
        let request = Plain { method: "POST", content_type, body: &body, ..Plain::get("/$batch") };
        self.sign(&request).0
    }
}

/// The target of one entity.
pub(crate) fn entity_target(table: &str, (partition, row): &(String, String)) -> String {
    format!("/{table}(PartitionKey='{partition}',RowKey='{row}')")
}

/// The target of a query.
pub(crate) fn query_target(table: &str, filter: &str) -> String {
    format!("/{table}()?$filter={}", encoded(filter))
}

/// `text` as it may stand in a query.
pub(crate) fn encoded(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_ends_with_its_body_and_tells_where_its_target_ends() {
        let signer = Signer::new(SocketAddr::from(([127, 0, 0, 1], 1))).unwrap();
        let (bytes, end) = signer.sign(&Plain::json("POST", "/T?a=b", "{}").headers("A: b\r\n"));
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text.get(..end), Some("POST /devstoreaccount1/T?a=b"));
        assert!(text.ends_with("Content-Length: 2\r\nA: b\r\n\r\n{}"), "{text}");
        assert!(text.contains("Authorization: SharedKey devstoreaccount1:"), "{text}");
    }
}
