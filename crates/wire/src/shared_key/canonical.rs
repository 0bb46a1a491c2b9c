//! The string to sign of the Queue service, and later of the Blob service: eleven headers, every
//! `x-ms-` header and the whole query.

use super::{Scheme, Signature, SigningKey, unescape_unreserved};
use crate::uri::{percent_decode_lenient, split_account, split_location, without_repeated_account};
use crate::version::ApiVersion;
use std::borrow::Cow;
use std::cmp::Ordering;

/// The headers with their own line, in line order.
const SIGNED_HEADERS: [&str; 11] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
];
/// Those headers that Shared Key Lite signs.
const LITE_HEADERS: [&str; 3] = ["content-md5", "content-type", "date"];

/// The parts of a request that its signature covers.
#[derive(Clone, Debug)]
pub struct CanonicalRequest<'a> {
    method: &'a str,
    /// The values of [`SIGNED_HEADERS`] as they are signed.
    lines: [&'a [u8]; SIGNED_HEADERS.len()],
    /// The `x-ms-` headers by name, in byte order; values of one name are joined.
    x_ms: Vec<(&'a str, Cow<'a, [u8]>)>,
    /// Without `-secondary`.
    account: &'a str,
    /// As sent, still percent-encoded, without the query; in path style with the account segment.
    path: Cow<'a, str>,
    /// As sent.
    query: &'a str,
}

/// The variations between clients. All describe the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spelling {
    headers: HeaderOrder,
    /// Whether a plus sign in the query is signed as a space.
    plus_is_space: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderOrder {
    Bytes,
    /// The culture-specific order of the service.
    Weighted,
}

const AS_DOCUMENTED: Spelling = Spelling { headers: HeaderOrder::Bytes, plus_is_space: false };

impl<'a> CanonicalRequest<'a> {
    /// Takes what is signed from a request: `headers` are all of them, by their names in lower case, in
    /// the order of arrival; `version` is that of the request.
    pub fn new(
        method: &'a str,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        account: &'a str,
        path: &'a str,
        query: &'a str,
        version: ApiVersion,
    ) -> Self {
        let mut lines: [Option<&[u8]>; SIGNED_HEADERS.len()] = Default::default();
        let mut x_ms: Vec<(&str, Cow<'_, [u8]>)> = Vec::new();
        for (name, value) in headers {
            let value = value.trim_ascii();
            if name.starts_with("x-ms-") {
                match x_ms.iter_mut().find(|(known, _)| *known == name) {
                    //
                    Some((_, values)) => extend(values.to_mut(), [b",", value, b""]),
                    None => x_ms.push((name, unfolded(value))),
                }
                continue;
            }
            let slot = SIGNED_HEADERS.iter().position(|signed| *signed == name);
            if let Some(line) = slot.and_then(|at| lines.get_mut(at)) {
                line.get_or_insert(value);
            }
        }
        x_ms.sort_unstable_by_key(|(name, _)| *name);
        let is_dated = x_ms.iter().any(|(name, _)| *name == "x-ms-date");
        let mut request = Self {
            method,
            lines: lines.map(Option::unwrap_or_default),
            x_ms,
            account,
            path: path.into(),
            query,
        };
        if is_dated {
            //
            request.set("date", b"");
        }
        if version.signs_no_zero_length() && request.line("content-length") == b"0" {
            //
            request.set("content-length", b"");
        }
        request
    }

    /// The string to sign, as the reference spells it.
    pub fn string_to_sign(&self, scheme: Scheme) -> Vec<u8> {
        self.spelled(scheme, AS_DOCUMENTED)
    }

    pub fn sign(&self, scheme: Scheme, key: &SigningKey) -> Signature {
        key.sign(&[&self.string_to_sign(scheme)])
    }

    /// Whether any of `keys` made `signature` over this request.
    pub fn is_signed_by(&self, keys: &[SigningKey], scheme: Scheme, signature: &str) -> bool {
        self.signing_key(keys, scheme, signature).is_some()
    }

    /// The index of the key that made `signature` over this request, if one did.
    ///
    /// Tries the spelling of the reference first. If that fails, it tries the spellings that
    /// clients are known to sign instead.
    pub fn signing_key(
        &self,
        keys: &[SigningKey],
        scheme: Scheme,
        signature: &str,
    ) -> Option<usize> {
        let signature = Signature::parse(signature)?;
        let signer = |text: &[u8]| keys.iter().position(|key| key.verify(&[text], &signature));
        signer(&self.string_to_sign(scheme))
            .or_else(|| self.other_spellings(scheme).iter().find_map(|text| signer(text)))
    }

    /// The same request with another path, to diagnose a client's mistake.
    #[must_use]
    pub fn with_path(&self, path: &str) -> Self {
        Self { path: Cow::Owned(path.to_owned()), ..self.clone() }
    }

    /// The same request with a different value for one of the eleven headers, or without an `x-ms-` header.
    #[must_use]
    pub fn with_header(&self, name: &str, value: &'a [u8]) -> Self {
        let mut request = self.clone();
        request.set(name, value);
        request.x_ms.retain(|(known, _)| *known != name);
        request
    }

    /// The same request without its query.
    #[must_use]
    pub fn without_query(&self) -> Self {
        Self { query: "", ..self.clone() }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    fn line(&self, name: &str) -> &'a [u8] {
        let at = SIGNED_HEADERS.iter().position(|signed| *signed == name);
        at.and_then(|at| self.lines.get(at)).copied().unwrap_or_default()
    }

    fn set(&mut self, name: &str, value: &'a [u8]) {
        let at = SIGNED_HEADERS.iter().position(|signed| *signed == name);
        if let Some(line) = at.and_then(|at| self.lines.get_mut(at)) {
            *line = value;
        }
    }

    fn spelled(&self, scheme: Scheme, spelling: Spelling) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        push_line(&mut out, self.method.as_bytes());
        match scheme {
            Scheme::SharedKey => self.lines.iter().for_each(|line| push_line(&mut out, line)),
            Scheme::SharedKeyLite => {
                LITE_HEADERS.iter().for_each(|name| push_line(&mut out, self.line(name)));
            }
        }
        self.write_x_ms(&mut out, spelling.headers);
        let path = if self.path.is_empty() { b"/" } else { self.path.as_bytes() };
        extend(&mut out, [b"/", self.account.as_bytes(), path]);
        let parameters = self.parameters(spelling.plus_is_space);
        match scheme {
            Scheme::SharedKey => write_parameters(&mut out, &parameters),
            Scheme::SharedKeyLite => {
                let comp = parameters.iter().find(|(name, _)| name == "comp");
                if let Some((_, value)) = comp {
                    out.extend([b"?comp=", value.as_bytes()].concat());
                }
            }
        }
        out
    }

    /// A line for each `x-ms-` header.
    fn write_x_ms(&self, out: &mut Vec<u8>, order: HeaderOrder) {
        let mut write = |(name, value): &(&str, Cow<'_, [u8]>)| {
            extend(out, [name.as_bytes(), b":", value]);
            out.push(b'\n');
        };
        match order {
            HeaderOrder::Bytes => self.x_ms.iter().for_each(write),
            HeaderOrder::Weighted => {
                let mut sorted: Vec<_> = self.x_ms.iter().collect();
                sorted.sort_by(|(one, _), (other, _)| compare_weighted(one, other));
                sorted.into_iter().for_each(&mut write);
            }
        }
    }

    /// The parameters by name in lower case, decoded, in the order of names and values.
    fn parameters(&self, plus_is_space: bool) -> Vec<(String, String)> {
        let decode = |text: &str| match plus_is_space {
            true => percent_decode_lenient(&text.replace('+', " ")).into_owned(),
            false => percent_decode_lenient(text).into_owned(),
        };
        let pairs = self.query.split('&').filter(|pair| !pair.is_empty());
        let mut parameters: Vec<_> = pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(name, value)| (decode(name).to_lowercase(), decode(value)))
            .collect();
        parameters.sort_unstable();
        parameters
    }

    /// The string to sign in every other accepted spelling: at most 31.
    fn other_spellings(&self, scheme: Scheme) -> Vec<Vec<u8>> {
        let mut texts = vec![self.string_to_sign(scheme)];
        for path in self.paths() {
            let request = self.with_path(&path);
            for headers in [HeaderOrder::Bytes, HeaderOrder::Weighted] {
                for plus_is_space in [false, true] {
                    let text = request.spelled(scheme, Spelling { headers, plus_is_space });
                    if !texts.contains(&text) {
                        texts.push(text);
                    }
                }
            }
        }
        texts.swap_remove(0);
        texts
    }

    /// The path as sent and as clients sign it instead: without a final slash of the root, as
    /// the primary's, with unreserved characters not escaped.
    fn paths(&self) -> Vec<String> {
        let mut paths = vec![self.path.clone().into_owned()];
        let (segment, rest) = split_account(&self.path);
        let (account, location) = split_location(segment);
        if account == self.account {
            let rest = without_repeated_account(rest, account, location);
            paths.push(format!("/{account}{rest}"));
        }
        for at in 0..paths.len() {
            let Some(path) = paths.get(at).cloned() else { continue };
            if let Some(root) = path.strip_suffix('/').filter(|root| !root.is_empty()) {
                paths.push(root.to_owned());
            }
            paths.extend(unescape_unreserved(&path));
        }
        paths
    }
}

fn extend(out: &mut Vec<u8>, texts: [&[u8]; 3]) {
    texts.iter().for_each(|text| out.extend_from_slice(text));
}

fn push_line(out: &mut Vec<u8>, line: &[u8]) {
    out.extend_from_slice(line);
    out.push(b'\n');
}

/// Folded white space becomes one space.
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'\n', b'\r', value).is_none() {
        return value.into();
    }
    let words = value.split(|byte| matches!(byte, b'\r' | b'\n')).map(<[u8]>::trim_ascii);
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(&b' ').into()
}

/// Several values of one name are joined with commas.
fn write_parameters(out: &mut Vec<u8>, parameters: &[(String, String)]) {
    let mut last = None;
    for (name, value) in parameters {
        if last == Some(name) {
            extend(out, [b",", value.as_bytes(), b""]);
        } else {
            out.push(b'\n');
            extend(out, [name.as_bytes(), b":", value.as_bytes()]);
        }
        last = Some(name);
    }
}

/// The order of names in which `-` and `'` count only when nothing else differs, and in which `_` comes
/// before digits, digits before letters.
fn compare_weighted(one: &str, other: &str) -> Ordering {
    let weights = |name: &str| {
        let weight = |byte: u8| match byte {
            b'_' => 0,
            digit @ b'0'..=b'9' => digit,
            letter => letter.to_ascii_lowercase(),
        };
        name.bytes().filter(|byte| !matches!(byte, b'-' | b'\'')).map(weight).collect::<Vec<_>>()
    };
    weights(one).cmp(&weights(other)).then_with(|| one.cmp(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const DATE: &str = "Thu, 27 Oct 2022 22:04:39 GMT";
    const ACCOUNT: &str = "devstoreaccount1";

    fn key() -> SigningKey {
        SigningKey::from_base64(KEY).unwrap()
    }

    fn request<'a>(
        method: &'a str,
        target: &'a str,
        headers: &'a [(&'a str, &'a str)],
    ) -> CanonicalRequest<'a> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let version = headers.iter().find(|(name, _)| *name == "x-ms-version").unwrap().1;
        let version = ApiVersion::parse(version).unwrap();
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        CanonicalRequest::new(method, headers, ACCOUNT, path, query, version)
    }

    #[track_caller]
    fn check(request: &CanonicalRequest<'_>, scheme: Scheme, text: &str, signature: &str) {
        assert_eq!(String::from_utf8(request.string_to_sign(scheme)).unwrap(), text);
        assert_eq!(request.sign(scheme, &key()).to_string(), signature);
        assert!(request.is_signed_by(&[key()], scheme, signature));
    }

    const DATED: (&str, &str) = ("x-ms-date", DATE);
    const V2021: (&str, &str) = ("x-ms-version", "2021-02-12");

    /// TQ-53: one request at two versions.
    #[test]
    fn av_9_and_av_10_a_length_of_zero_depends_on_the_version() {
        let headers = [("content-length", "0"), DATED, V2021];
        check(
            &request("PUT", "/devstoreaccount1/orders", &headers),
            Scheme::SharedKey,
            "PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\n\
             x-ms-version:2021-02-12\n/devstoreaccount1/devstoreaccount1/orders",
            "nezQeBJ8qtgf4BOvyekHxzBk8EEgH18bj5Lqvf+I174=",
        );
        let headers = [("content-length", "0"), DATED, ("x-ms-version", "2014-02-14")];
        check(
            &request("PUT", "/devstoreaccount1/orders", &headers),
            Scheme::SharedKey,
            "PUT\n\n\n0\n\n\n\n\n\n\n\n\nx-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\n\
             x-ms-version:2014-02-14\n/devstoreaccount1/devstoreaccount1/orders",
            "D+10mhDXRZGMIvs7J4TCGP5Hu7Me4MQW8LRPsEAhT9s=",
        );
    }

    #[test]
    fn av_11_parameters_and_the_type_of_the_body_are_signed() {
        let headers = [("content-length", "68"), ("content-type", "application/xml"), DATED, V2021];
        let target = "/devstoreaccount1/orders/messages?messagettl=60&visibilitytimeout=0";
        check(
            &request("POST", target, &headers),
            Scheme::SharedKey,
            "POST\n\n\n68\n\napplication/xml\n\n\n\n\n\n\n\
             x-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\nx-ms-version:2021-02-12\n\
             /devstoreaccount1/devstoreaccount1/orders/messages\nmessagettl:60\nvisibilitytimeout:0",
            "Z57UOK9dXGntxpoeHmk9iPkeLA8MrEV3IxE5v2GQG3E=",
        );
    }

    /// Headers in any order; a length of zero counts as none.
    #[test]
    fn av_12_the_date_header_has_a_line_when_there_is_no_other() {
        let headers = [
            V2021,
            ("x-ms-meta-hello", "world"),
            ("date", DATE),
            ("content-length", "0"),
            ("x-ms-meta-b", " 2 "),
        ];
        check(
            &request("PUT", "/devstoreaccount1/orders?comp=metadata", &headers),
            Scheme::SharedKey,
            "PUT\n\n\n\n\n\nThu, 27 Oct 2022 22:04:39 GMT\n\n\n\n\n\nx-ms-meta-b:2\n\
             x-ms-meta-hello:world\nx-ms-version:2021-02-12\n\
             /devstoreaccount1/devstoreaccount1/orders\ncomp:metadata",
            "oDH8LPVv8dwIl+cVywA/mLpltmqwTycFSY8x/gEvJMg=",
        );
    }

    /// TQ-54.
    #[test]
    fn the_date_header_is_not_signed_beside_x_ms_date() {
        let headers = [("date", "Thu, 27 Oct 2022 00:00:00 GMT"), DATED, V2021];
        let text = request("GET", "/devstoreaccount1/orders", &headers);
        let text = String::from_utf8(text.string_to_sign(Scheme::SharedKey)).unwrap();
        assert!(text.starts_with("GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:"), "{text}");
    }

    #[test]
    fn av_13_values_of_parameters_are_decoded() {
        let headers = [DATED, V2021];
        let target = "/devstoreaccount1/orders/messages/ccd5714a-4793-4ecf-967b-e0789715a8a3?\
                      popreceipt=AgAAAAMAAAAAAAAATo9G3YHt2AE%3D";
        check(
            &request("DELETE", target, &headers),
            Scheme::SharedKey,
            "DELETE\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\n\
             x-ms-version:2021-02-12\n/devstoreaccount1/devstoreaccount1/orders/messages/\
             ccd5714a-4793-4ecf-967b-e0789715a8a3\npopreceipt:AgAAAAMAAAAAAAAATo9G3YHt2AE=",
            "aVoU6MJUxE79xCFlihVe2pBhGh5C6Il2YhlrX1V4ggo=",
        );
    }

    #[test]
    fn av_14_parameters_are_sorted_in_host_style() {
        let headers = [DATED, V2021];
        check(
            &request("GET", "/?prefix=a%20b&comp=list&Include=metadata", &headers),
            Scheme::SharedKey,
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\n\
             x-ms-version:2021-02-12\n/devstoreaccount1/\ncomp:list\ninclude:metadata\nprefix:a b",
            "v5V7J/sZYbZ84b8kWazOivWeBKdFVIbZuxnKTEAMvuc=",
        );
    }

    #[test]
    fn av_15_and_av_16_shared_key_lite_signs_comp_alone() {
        let headers = [DATED, V2021];
        check(
            &request("GET", "/devstoreaccount1/orders?comp=metadata&timeout=30", &headers),
            Scheme::SharedKeyLite,
            "GET\n\n\n\nx-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\nx-ms-version:2021-02-12\n\
             /devstoreaccount1/devstoreaccount1/orders?comp=metadata",
            "5TXW/W9A/QFIbIC+aPFA3t9b682KsCkGM71ChuZ6178=",
        );
        let headers = [("content-length", "68"), ("content-type", "application/xml"), DATED, V2021];
        check(
            &request("POST", "/devstoreaccount1/orders/messages?messagettl=60", &headers),
            Scheme::SharedKeyLite,
            "POST\n\napplication/xml\n\nx-ms-date:Thu, 27 Oct 2022 22:04:39 GMT\n\
             x-ms-version:2021-02-12\n/devstoreaccount1/devstoreaccount1/orders/messages",
            "JrTQ29DX9FOQleoUTxDtL075T0i+88OnKkbZ8tQPZag=",
        );
    }

    /// TQ-62.
    #[test]
    fn all_eleven_headers_are_signed_as_sent() {
        let headers = [
            ("range", "bytes=0-1"),
            ("if-unmodified-since", "d2"),
            ("if-none-match", "n"),
            ("if-match", "m"),
            ("if-modified-since", "d1"),
            ("content-type", "t"),
            ("content-md5", "5"),
            ("content-length", "7"),
            ("content-language", "en"),
            ("content-encoding", "gzip"),
            ("date", DATE),
            ("accept", "not signed"),
            V2021,
        ];
        let text =
            request("PUT", "/devstoreaccount1/a", &headers).string_to_sign(Scheme::SharedKey);
        let expect =
            format!("PUT\ngzip\nen\n7\n5\nt\n{DATE}\nd1\nm\nn\nd2\nbytes=0-1\nx-ms-version:");
        assert!(String::from_utf8(text).unwrap().starts_with(&expect));
    }

    ///
    #[test]
    fn a_client_request_id_left_out_does_not_sign() {
        let with = [("x-ms-client-request-id", "a"), DATED, V2021];
        let target = "/devstoreaccount1/orders";
        let signature = request("GET", target, &with[1..]).sign(Scheme::SharedKey, &key());
        let signed = |headers| {
            let request = request("GET", target, headers);
            request.is_signed_by(&[key()], Scheme::SharedKey, &signature.to_string())
        };
        assert!(signed(&with[1..]) && !signed(&with));
    }

    /// `-` has no weight.
    #[test]
    fn headers_may_be_signed_in_the_order_of_the_service() {
        let weighted = compare_weighted("x-ms-meta-ab", "x-ms-meta-a-c");
        assert_eq!(
            (weighted, "x-ms-meta-ab".cmp("x-ms-meta-a-c")),
            (Ordering::Less, Ordering::Greater)
        );
        assert_eq!(compare_weighted("x-ms-meta-a_b", "x-ms-meta-a1"), Ordering::Less);
        assert_eq!(compare_weighted("x-ms-meta-a1", "x-ms-meta-ab"), Ordering::Less);
        let headers = [("x-ms-meta-a-c", "1"), ("x-ms-meta-ab", "2"), DATED, V2021];
        let request = request("PUT", "/devstoreaccount1/orders", &headers);
        let spelling = Spelling { headers: HeaderOrder::Weighted, plus_is_space: false };
        let text = request.spelled(Scheme::SharedKey, spelling);
        assert_ne!(text, request.string_to_sign(Scheme::SharedKey));
        let signature = key().sign(&[&text]).to_string();
        assert!(request.is_signed_by(&[key()], Scheme::SharedKey, &signature));
    }

    #[track_caller]
    fn check_spelling(sent: &str, signed: &str, expect: bool) {
        let headers = [DATED, V2021];
        let signature =
            request("GET", signed, &headers).sign(Scheme::SharedKey, &key()).to_string();
        let sent = request("GET", sent, &headers);
        assert_eq!(sent.is_signed_by(&[key()], Scheme::SharedKey, &signature), expect, "{signed}");
    }

    ///
    #[test]
    fn other_spellings_of_the_same_request_sign_too() {
        check_spelling("/devstoreaccount1/?comp=list", "/devstoreaccount1?comp=list", true);
        check_spelling("/devstoreaccount1/a%2Db", "/devstoreaccount1/a-b", true);
        check_spelling("/devstoreaccount1-secondary/a", "/devstoreaccount1/a", true);
        check_spelling("/devstoreaccount1/a?prefix=a+b", "/devstoreaccount1/a?prefix=a%20b", true);
        check_spelling("/devstoreaccount1/a?prefix=a+b", "/devstoreaccount1/a?prefix=a%2Bb", true);
        check_spelling("/devstoreaccount1/a?b=1&B=0", "/devstoreaccount1/a?b=0&b=1", true);
        check_spelling("/devstoreaccount1/a", "/devstoreaccount1/b", false);
        check_spelling("/devstoreaccount1/a?comp=acl", "/devstoreaccount1/a", false);
    }

    proptest! {
        #[test]
        fn a_request_is_signed_by_what_signed_it(path in any::<String>(), query in any::<String>(), value in any::<Vec<u8>>()) {
            let headers = || [("x-ms-meta-a", value.as_slice()), ("x-ms-date", b"d")];
            let request = CanonicalRequest::new("GET", headers(), ACCOUNT, &path, &query, ApiVersion::NEWEST);
            let signature = request.sign(Scheme::SharedKey, &key()).to_string();
            prop_assert!(request.is_signed_by(&[key()], Scheme::SharedKey, &signature));
            let other = CanonicalRequest::new("PUT", headers(), ACCOUNT, &path, &query, ApiVersion::NEWEST);
            prop_assert!(!other.is_signed_by(&[key()], Scheme::SharedKey, &signature));
            prop_assert!(request.other_spellings(Scheme::SharedKey).len() <= 31);
        }
    }
}
