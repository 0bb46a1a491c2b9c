//! Shared Key and Shared Key Lite: the string to sign, and signature checks.
//!
//! A signature is base64 of HMAC-SHA256 over a text made of parts of the request. The parts
//! are slices of the request; they are joined once, without formatting, and hashed in one call.

mod canonical;

pub use canonical::CanonicalRequest;

use crate::uri::{split_account, split_location, without_repeated_account};
use crate::words::find_byte;
use aws_lc_rs::{constant_time, hmac};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::fmt;

/// An account key, prepared for signing. `Debug` does not show it.
#[derive(Clone)]
pub struct SigningKey(hmac::Key);

/// The text of a key is not base64, or is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an account key must be base64 text of at least one byte")]
pub struct InvalidKey;

impl SigningKey {
    pub fn from_base64(text: &str) -> Result<Self, InvalidKey> {
        let bytes = STANDARD.decode(text).map_err(|_| InvalidKey)?;
        if bytes.is_empty() {
            return Err(InvalidKey);
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    /// Signs the concatenation of `parts`.
    pub fn sign(&self, parts: &[&[u8]]) -> Signature {
        // Measured: one update over a joined buffer beats a dozen small ones.
        let mut short = [0; SHORT_TEXT_BYTES];
        let tag = match join(&mut short, parts) {
            Some(text) => hmac::sign(&self.0, text),
            None => hmac::sign(&self.0, &parts.concat()),
        };
        let mut signature = Signature([0; Signature::BYTES]);
        for (to, from) in signature.0.iter_mut().zip(tag.as_ref()) {
            *to = *from;
        }
        signature
    }

    /// Whether `signature` is this key's signature of `parts`. Takes constant time.
    pub fn verify(&self, parts: &[&[u8]], signature: &Signature) -> bool {
        let expect = self.sign(parts);
        constant_time::verify_slices_are_equal(&expect.0, &signature.0).is_ok()
    }
}

/// Texts to sign up to this size need no allocation: nearly all.
const SHORT_TEXT_BYTES: usize = 512;

/// Joins `parts` into `room`; `None` if it is too small.
fn join<'r>(room: &'r mut [u8], parts: &[&[u8]]) -> Option<&'r [u8]> {
    let mut end = 0;
    for part in parts {
        let start = end;
        end += part.len();
        room.get_mut(start..end)?.copy_from_slice(part);
    }
    room.get(..end)
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

/// A signature; its text is base64. Compared only by [`SigningKey::verify`].
#[derive(Clone, Copy)]
pub struct Signature([u8; Self::BYTES]);

impl Signature {
    const BYTES: usize = 32;

    /// Decodes base64; `None` when the text is not that of 32 bytes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES];
        // The decoder estimates its output before it looks at the padding, hence the spare byte.
        let mut buffer = [0; Self::BYTES + 1];
        let len = STANDARD.decode_slice(text, &mut buffer).ok()?;
        bytes.copy_from_slice(buffer.get(..len)?.get(..Self::BYTES)?);
        (len == Self::BYTES).then_some(Self(bytes))
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signature(..)")
    }
}

/// The two ways to sign a request with an account key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    SharedKey,
    SharedKeyLite,
}

impl Scheme {
    pub const fn name(self) -> &'static str {
        match self {
            Self::SharedKey => "SharedKey",
            Self::SharedKeyLite => "SharedKeyLite",
        }
    }
}

/// What an Authorization header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authorization<'a> {
    Signed { scheme: Scheme, account: &'a str, signature: &'a str },
    Bearer(&'a str),
}

/// The header has an unknown scheme or is malformed: `InvalidAuthenticationInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the Authorization header is malformed")]
pub struct MalformedAuthorization;

impl<'a> Authorization<'a> {
    pub fn parse(header: &'a str) -> Result<Self, MalformedAuthorization> {
        let header = header.trim_ascii();
        let (name, credential) = find_byte(b' ', header.as_bytes())
            .and_then(|at| header.split_at_checked(at))
            .ok_or(MalformedAuthorization)?;
        let credential = credential.trim_ascii_start();
        if name.eq_ignore_ascii_case("Bearer") && !credential.is_empty() {
            return Ok(Self::Bearer(credential));
        }
        let scheme = [Scheme::SharedKey, Scheme::SharedKeyLite]
            .into_iter()
            .find(|scheme| name.eq_ignore_ascii_case(scheme.name()))
            .ok_or(MalformedAuthorization)?;
        let (account, signature) = find_byte(b':', credential.as_bytes())
            .and_then(|at| credential.split_at_checked(at))
            .ok_or(MalformedAuthorization)?;
        match signature.strip_prefix(':') {
            Some(signature) if !account.is_empty() && !signature.is_empty() => {
                Ok(Self::Signed { scheme, account, signature })
            }
            _ => Err(MalformedAuthorization),
        }
    }

    /// The value of the header that carries `signature`.
    pub fn header(scheme: Scheme, account: &str, signature: &Signature) -> String {
        let scheme = scheme.name();
        let mut header = String::with_capacity(scheme.len() + account.len() + 48);
        header.push_str(scheme);
        header.push(' ');
        header.push_str(account);
        header.push(':');
        STANDARD.encode_string(signature.0, &mut header);
        header
    }
}

/// The parts of a request to the Table service that its signature covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The method actually sent, upper case.
    pub method: &'a str,
    /// Empty when the request has none; likewise the next two.
    pub content_md5: &'a str,
    pub content_type: &'a str,
    /// The text of `x-ms-date` if there is one, else that of `Date`.
    pub date: &'a str,
    /// Without `-secondary`.
    pub account: &'a str,
    /// As sent, still percent-encoded, without the query; in path style with the account segment.
    pub path: &'a str,
    /// The parameter `comp`, if the query has it.
    pub comp: Option<&'a str>,
}

impl<'a> SignedRequest<'a> {
    /// The pieces of the string to sign. Those a scheme leaves out are empty.
    pub fn string_to_sign(&self, scheme: Scheme) -> [&'a [u8]; 13] {
        let [method, md5, content_type, line] = match scheme {
            Scheme::SharedKey => [self.method, self.content_md5, self.content_type, "\n"],
            Scheme::SharedKeyLite => [""; 4],
        };
        let path = if self.path.is_empty() { "/" } else { self.path };
        let (question, comp) = self.comp.map_or(("", ""), |comp| ("?comp=", comp));
        [
            method,
            line,
            md5,
            line,
            content_type,
            line,
            self.date,
            "\n",
            "/",
            self.account,
            path,
            question,
            comp,
        ]
        .map(str::as_bytes)
    }

    pub fn sign(&self, scheme: Scheme, key: &SigningKey) -> Signature {
        key.sign(&self.string_to_sign(scheme))
    }

    /// Whether any of `keys` made `signature` over this request.
    ///
    /// Tries the path as sent first. If that fails, it tries the spellings that clients are known
    /// to sign instead; all of them name the same resource.
    pub fn is_signed_by(&self, keys: &[SigningKey], scheme: Scheme, signature: &str) -> bool {
        self.signing_key(keys, scheme, signature).is_some()
    }

    /// As [`is_signed_by`](Self::is_signed_by): the index of the key that signed, if one did.
    pub fn signing_key(
        &self,
        keys: &[SigningKey],
        scheme: Scheme,
        signature: &str,
    ) -> Option<usize> {
        let signature = Signature::parse(signature)?;
        let signer = |path: &str| {
            let request = SignedRequest { path, ..*self };
            let parts = request.string_to_sign(scheme);
            keys.iter().position(|key| key.verify(&parts, &signature))
        };
        signer(self.path).or_else(|| self.other_spellings().iter().find_map(|path| signer(path)))
    }

    /// The path in every other accepted spelling: at most eleven.
    fn other_spellings(&self) -> Vec<Cow<'a, str>> {
        let mut spellings = vec![Cow::Borrowed(self.path)];
        if let Some(path) = self.primary_path() {
            spellings.push(Cow::Owned(path));
        }
        for rewrite in [unescape_unreserved, unescape_quotes, escape_quotes] {
            let rewritten: Vec<_> = spellings.iter().filter_map(|path| rewrite(path)).collect();
            for path in rewritten {
                if !spellings.iter().any(|known| *known == path) {
                    spellings.push(Cow::Owned(path));
                }
            }
        }
        spellings.swap_remove(0);
        spellings
    }

    /// In path style, some clients sign the primary's path in requests to the secondary,
    /// or one without the segments that they repeat.
    fn primary_path(&self) -> Option<String> {
        let (segment, rest) = split_account(self.path);
        let (account, location) = split_location(segment);
        let rest = without_repeated_account(rest, account, location);
        let path = format!("/{account}{rest}");
        (account == self.account && path != self.path).then_some(path)
    }
}

/// Un-escapes letters, digits and `-._~`, as the service does before it compares. `None`
/// when there is nothing to change; likewise the next two.
fn unescape_unreserved(path: &str) -> Option<String> {
    rewrite_escapes(path, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

fn unescape_quotes(path: &str) -> Option<String> {
    rewrite_escapes(path, |byte| byte == b'\'')
}

fn escape_quotes(path: &str) -> Option<String> {
    path.contains('\'').then(|| path.replace('\'', "%27"))
}

/// Replaces the escapes of ASCII bytes that `unescape` picks.
fn rewrite_escapes(path: &str, unescape: impl Fn(u8) -> bool) -> Option<String> {
    let mut pieces = path.split('%');
    let mut out = String::with_capacity(path.len());
    out.push_str(pieces.next()?);
    for piece in pieces {
        match crate::uri::escaped_byte(piece.as_bytes()) {
            Some((byte, _)) if byte.is_ascii() && unescape(byte) => {
                out.push(char::from(byte));
                out.push_str(piece.get(2..).unwrap_or_default());
            }
            _ => {
                out.push('%');
                out.push_str(piece);
            }
        }
    }
    (out.len() != path.len()).then_some(out)
}

#[cfg(test)]
mod tests;
