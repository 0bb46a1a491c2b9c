//! Requests as bytes: any method, target, header and body, signed at the last moment.

use super::{ACCOUNT, OTHER, OTHER_KEYS, well_known_key};
use lazuli_model::Timestamp;
use lazuli_wire::shared_key::{Authorization, SignedRequest, SigningKey};

pub(crate) use lazuli_wire::shared_key::Scheme;

/// A request. `target` begins after the account and is sent unchanged.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
    scheme: Option<Scheme>,
    key: SigningKey,
    /// The account segment of path style, or the host of host style.
    address: Address,
}

#[derive(Clone, Debug)]
enum Address {
    Path(String),
    Host { account: String, host: String },
}

impl Request {
    /// A request as today's clients send it: version 2019-02-02, minimal metadata, Shared Key.
    pub(crate) fn new(method: &str, target: &str) -> Self {
        Self::bare(method, target)
            .with("x-ms-version", "2019-02-02")
            .with("Accept", "application/json;odata=minimalmetadata")
            .with("DataServiceVersion", "3.0")
    }

    /// A request with only the headers that signing needs.
    pub(crate) fn bare(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: None,
            scheme: Some(Scheme::SharedKey),
            key: well_known_key(),
            address: Address::Path(ACCOUNT.to_owned()),
        }
    }

    /// Sets a header, replacing any with that name.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).also(name, value)
    }

    /// Adds a header, in addition to any with that name.
    pub(crate) fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn version(self, version: &str) -> Self {
        self.with("x-ms-version", version)
    }

    pub(crate) fn accept(self, accept: &str) -> Self {
        self.with("Accept", accept)
    }

    pub(crate) fn json(self, body: &str) -> Self {
        self.body("application/json", body)
    }

    pub(crate) fn body(self, content_type: &str, body: &str) -> Self {
        self.with("Content-Type", content_type).payload(body)
    }

    /// A body without any header except its length.
    pub(crate) fn payload(self, body: &str) -> Self {
        Self { body: Some(body.as_bytes().to_vec()), ..self }
    }

    pub(crate) fn scheme(self, scheme: Scheme) -> Self {
        Self { scheme: Some(scheme), ..self }
    }

    /// Without an Authorization header.
    pub(crate) fn unsigned(self) -> Self {
        Self { scheme: None, ..self }
    }

    /// Appends a token to the query, and leaves the signing to it.
    pub(crate) fn sas(mut self, token: &str) -> Self {
        self.target.push(if self.target.contains('?') { '&' } else { '?' });
        self.target.push_str(token);
        self.unsigned()
    }

    pub(crate) fn at_secondary(self) -> Self {
        Self { address: Address::Path(format!("{ACCOUNT}-secondary")), ..self }
    }

    /// Addresses the second account in path style, signed with the first or second of its keys.
    pub(crate) fn at_other(self, key: usize) -> Self {
        let key = SigningKey::from_base64(OTHER_KEYS[key]).unwrap();
        Self { address: Address::Path(OTHER.to_owned()), key, ..self }
    }

    /// Addresses the first account by a host name.
    pub(crate) fn at_host(self, host: &str) -> Self {
        let address = Address::Host { account: ACCOUNT.to_owned(), host: host.to_owned() };
        Self { address, ..self }
    }

    /// The whole request, signed at `now` unless it already has a date and a signature.
    pub(crate) fn bytes(&self, server: &str, now: Timestamp) -> Vec<u8> {
        let (segment, account, host) = match &self.address {
            Address::Path(segment) => {
                let account = segment.strip_suffix("-secondary").unwrap_or(segment);
                (format!("/{segment}"), account, server)
            }
            Address::Host { account, host } => (String::new(), account.as_str(), host.as_str()),
        };
        let target = format!("{segment}{}", self.target);
        let mut head = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", self.method);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let date = self.header("x-ms-date").or(self.header("date"));
        let now = now.rfc1123();
        if date.is_none() {
            head.push_str(&format!("x-ms-date: {now}\r\n"));
        }
        if let Some(scheme) = self.scheme
            && self.header("authorization").is_none()
        {
            let signed = self.signed(account, &target, date.unwrap_or(&now));
            let signature = signed.sign(scheme, &self.key);
            let authorization = Authorization::header(scheme, account, &signature);
            head.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        let mut bytes = head.into_bytes();
        if let Some(body) = &self.body {
            bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            bytes.extend(body);
        } else {
            bytes.extend(b"\r\n");
        }
        bytes
    }

    fn signed<'a>(&'a self, account: &'a str, target: &'a str, date: &'a str) -> SignedRequest<'a> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let comp = query.split('&').find_map(|parameter| parameter.strip_prefix("comp="));
        SignedRequest {
            method: &self.method,
            content_md5: "",
            content_type: self.header("content-type").unwrap_or_default(),
            date,
            account,
            path,
            comp,
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        named.next().map(|(_, value)| value.as_str())
    }
}
