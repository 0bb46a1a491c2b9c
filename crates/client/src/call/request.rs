//! The request of one attempt: address, headers, signature.

use super::{Call, State, X_MS_CLIENT_REQUEST_ID, X_MS_DATE, X_MS_VERSION, header, text_value};
use crate::account::Account;
use crate::credential::Kind;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::options::ReadFrom;
use crate::tables;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use lazuli_model::Timestamp;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::shared_key::{Authorization, CanonicalRequest, Scheme, SignedRequest, SigningKey};
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Account {
    /// The time to sign with.
    pub(crate) fn signed_time(&self) -> Timestamp {
        let skew = self.0.skew_seconds.load(Ordering::Relaxed);
        let seconds = self.0.env.now().unix_seconds().saturating_add_signed(skew);
        Timestamp::from_unix_seconds(seconds)
    }

    /// The same as a header. Most requests are sent in the second of the one before.
    fn signed_date(&self, now: Timestamp) -> Result<HeaderValue, Error> {
        let known = self.0.date.load();
        if let Some((time, value)) = known.as_deref()
            && *time == now
        {
            return Ok(value.clone());
        }
        let value = text_value(&now.rfc1123())?;
        self.0.date.store(Some(Arc::new((now, value.clone()))));
        Ok(value)
    }

    /// The request of one attempt, signed now.
    pub(super) async fn request(
        &self,
        call: &Call,
        client_request_id: &str,
        state: &mut State,
        timeout: Duration,
    ) -> Result<http::Request<Bytes>, Error> {
        let inner = &*self.0;
        let endpoint = inner.endpoint(call.service).ok_or_else(|| {
            Error::config(format!("the account has no endpoint for {:?}", call.service))
        })?;
        let is_secondary = call.is_read
            && match call.options.read_from {
                ReadFrom::Primary => false,
                ReadFrom::Secondary => true,
                ReadFrom::PrimaryThenSecondary => state.attempts > 1,
            };
        let base = if is_secondary { &endpoint.secondary } else { &endpoint.primary };
        let credential = inner.credential.load_full();

        // One string for all: the signed parts are slices of it.
        let mut uri = String::with_capacity(base.len() + call.path.len() + call.query.len() + 48);
        uri.push_str(base);
        uri.push_str(&call.path);
        let path = path_start(base)..uri.len();
        uri.push('?');
        let query_at = uri.len();
        uri.push_str(&call.query);
        let append = |uri: &mut String, part: &str| {
            if uri.len() > query_at {
                uri.push('&');
            }
            uri.push_str(part);
        };
        if !call.options.query.is_empty() {
            append(&mut uri, &call.options.query);
        }
        // The server should give up before the client does (C-13.4).
        let seconds = timeout.as_secs().saturating_sub(2).clamp(1, 30);
        append(&mut uri, "timeout=");
        // Writing to a string cannot fail.
        let _ = write!(uri, "{seconds}");
        match &credential.0 {
            Kind::Sas(token, _) => append(&mut uri, token.expose()),
            Kind::SasFrom(source) => {
                let refused = state.secret.as_ref().filter(|_| state.is_renewed);
                let token = source.get("", self.signed_time(), refused).await?;
                append(&mut uri, token.expose());
                state.secret = Some(token);
            }
            _ => {}
        }

        let mut headers = match call.service {
            StorageService::Table => tables::headers(&call.headers),
            StorageService::Queue | StorageService::Blob => call.headers.clone(),
        };
        if let (StorageService::Table, Some(version)) = (call.service, &inner.table_version) {
            headers.insert(X_MS_VERSION, version.clone());
        }
        headers.insert(USER_AGENT, inner.user_agent.clone());
        headers.insert(X_MS_CLIENT_REQUEST_ID, text_value(client_request_id)?);
        let now = self.signed_time();
        state.signed_at = Some(now);
        headers.insert(X_MS_DATE, self.signed_date(now)?);
        // A write without a body says so, or it is refused.
        let has_length = matches!(call.method, Method::PUT | Method::POST | Method::PATCH);
        if has_length || !call.body.is_empty() {
            headers.insert(CONTENT_LENGTH, call.body.len().into());
        }
        for (name, value) in &call.options.headers {
            headers.insert(name, value.clone());
        }
        match &credential.0 {
            Kind::SharedKey { account, key, scheme } => {
                let [path, query] =
                    [path, query_at..uri.len()].map(|range| uri.get(range).unwrap_or_default());
                let signer = Signer { account, key, scheme: *scheme };
                let (signature, text) = signer.sign(call, &headers, path, query)?;
                headers.insert(AUTHORIZATION, secret_value(&signature)?);
                state.signed = text;
            }
            Kind::Token(token) => {
                if base.starts_with("http://") && !inner.allow_token_over_http {
                    return Err(Error::config("a token is not sent without TLS").with(|context| {
                        context.hint = Some("use https, or allow_token_over_http()".into());
                    }));
                }
                let refused = state.secret.as_ref().filter(|_| state.is_renewed);
                let secret = token.get(self.scope(), self.signed_time(), refused).await?;
                headers
                    .insert(AUTHORIZATION, secret_value(&format!("Bearer {}", secret.expose()))?);
                state.secret = Some(secret);
            }
            Kind::Sas(..) | Kind::SasFrom(_) | Kind::Anonymous => {}
        }

        let mut request = http::Request::new(call.body.clone());
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = http::Uri::from_maybe_shared(Bytes::from(uri))
            .map_err(|error| Error::config(format!("the address is not valid: {error}")))?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn scope(&self) -> &'static str {
        match self.0.dialect {
            Dialect::Cosmos => "https://cosmos.azure.com/.default",
            _ => "https://storage.azure.com/.default",
        }
    }
}

/// Signs requests.
struct Signer<'a> {
    account: &'a str,
    key: &'a SigningKey,
    scheme: Scheme,
}

impl Signer<'_> {
    /// The value of Authorization, and in debug builds the text that it signs (C-14.5).
    fn sign(
        &self,
        call: &Call,
        headers: &HeaderMap,
        path: &str,
        query: &str,
    ) -> Result<(String, Option<String>), Error> {
        let Self { account, key, scheme } = *self;
        let get = |name: &HeaderName| header(headers, name).unwrap_or_default();
        let method = call.method.as_str();
        let shown = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
        let (signature, text) = match call.service {
            StorageService::Table => {
                // Only `comp` is signed, and few requests have it.
                let signed = if query.contains("comp=") { query } else { "" };
                let parsed = Query::parse_lenient(signed).map_err(Error::protocol)?;
                let request = SignedRequest {
                    method,
                    content_md5: "",
                    content_type: get(&CONTENT_TYPE),
                    date: get(&X_MS_DATE),
                    account,
                    path,
                    comp: parsed.get("comp"),
                };
                let text =
                    cfg!(debug_assertions).then(|| shown(request.string_to_sign(scheme).concat()));
                (request.sign(scheme, key), text)
            }
            StorageService::Queue | StorageService::Blob => {
                let version = ApiVersion::parse(get(&X_MS_VERSION))
                    .ok_or_else(|| Error::config("the version of the request is not known"))?;
                let pairs = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
                let request = CanonicalRequest::new(method, pairs, account, path, query, version);
                let text = cfg!(debug_assertions).then(|| shown(request.string_to_sign(scheme)));
                (request.sign(scheme, key), text)
            }
        };
        Ok((Authorization::header(scheme, account, &signature), text))
    }
}

fn secret_value(text: &str) -> Result<HeaderValue, Error> {
    let mut value = text_value(text)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Where the path begins in an address with scheme and host.
fn path_start(base: &str) -> usize {
    let host_at = base.find("://").map_or(0, |at| at + "://".len());
    let host = base.get(host_at..).unwrap_or_default();
    host_at + host.find('/').unwrap_or(host.len())
}
