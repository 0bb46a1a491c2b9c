//! The parameters of an address that `tokio-postgres` does not know.

use super::AddressError;
use crate::tls::{Mode, RootsFrom, TlsOptions};
use std::path::PathBuf;

/// An address, and the parameters taken out of it.
#[derive(Debug)]
pub(super) struct Parameters {
    /// The address without these parameters.
    pub(super) rest: String,
    pub(super) schema: Option<String>,
    pub(super) tls: TlsOptions,
}

impl Parameters {
    pub(super) fn take_from(address: &str) -> Result<Self, AddressError> {
        let (mut schema, mut mode, mut roots) = (None, None, None);
        let (mut certificate, mut key) = (None, None);
        let (base, query) = address.split_once('?').unwrap_or((address, ""));
        let mut left = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "schema" => schema = Some(schema_of(value)?),
                "sslmode" => {
                    let unknown = || AddressError::BadSslMode { mode: value.to_owned() };
                    mode = Some(Mode::parse(value).ok_or_else(unknown)?);
                }
                "sslrootcert" if value == "system" => roots = Some(RootsFrom::System),
                "sslrootcert" => roots = Some(RootsFrom::File(path(value))),
                "sslcert" => certificate = Some(path(value)),
                "sslkey" => key = Some(path(value)),
                _ => left.push(pair),
            }
        }
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(AddressError::HalfIdentity),
        };
        let question = if left.is_empty() { "" } else { "?" };
        let rest = format!("{base}{question}{}", left.join("&"));
        let tls = TlsOptions { mode: mode.unwrap_or_default(), roots, identity };
        Ok(Self { rest, schema, tls })
    }
}

fn schema_of(value: &str) -> Result<String, AddressError> {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = value.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if begins_well && value.bytes().all(is_plain) {
        Ok(value.to_owned())
    } else {
        Err(AddressError::BadSchema { schema: value.to_owned() })
    }
}

/// A path, which may be percent-encoded like other values of a URL.
fn path(value: &str) -> PathBuf {
    let decoded = percent_encoding::percent_decode_str(value);
    PathBuf::from(decoded.decode_utf8_lossy().into_owned())
}
