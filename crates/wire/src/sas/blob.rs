//! Service SAS for blobs: a token for a blob or a container, which the URL names (A-11); and the same
//! signed with a user delegation key (B-3.25).

use super::terms::{ServiceTerms, terms_of};
use super::{Parse, SasError, UserDelegationKey, given, optional, required, verify, write_token};
use crate::shared_key::SigningKey;
use crate::uri::Query;
use crate::version::ApiVersion;

/// The letter of the Blob service in `sks`.
pub const BLOB_SERVICE: &str = "b";

/// The response headers that a token sets: `rscc`, `rscd`, `rsce`, `rscl`, `rsct`.
const RESPONSE_HEADERS: [&str; 5] = ["rscc", "rscd", "rsce", "rscl", "rsct"];

/// A token for a blob or a container: the texts of its parameters, decoded. Empty means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlobSas<'a> {
    /// `sv`
    pub version: &'a str,
    /// `sr`: `b` for a blob, `c` for a container and its blobs.
    pub resource: &'a str,
    /// `st`
    pub start: &'a str,
    /// `se`
    pub expiry: &'a str,
    /// `sp`
    pub permissions: &'a str,
    /// `si`: the stored access policy that completes the token.
    pub policy: &'a str,
    /// `sip`
    pub addresses: &'a str,
    /// `spr`
    pub protocol: &'a str,
    /// `ses`
    pub encryption_scope: &'a str,
    /// Cache-Control, Content-Disposition, -Encoding, -Language and -Type of responses.
    pub response_headers: [&'a str; 5],
    /// `sig`; empty in a token not yet signed.
    pub signature: &'a str,
}

impl<'a> Parse<'a> for BlobSas<'a> {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let (terms, signature) = ServiceTerms::parse(query)?;
        terms.form()?;
        let resource = required(query, "sr")?;
        // Tokens for snapshots, versions and directories sign fields that we do not know.
        if !matches!(resource, "b" | "c") {
            return Err(SasError::Malformed("sr"));
        }
        let ServiceTerms { version, start, expiry, permissions, policy, addresses, protocol } =
            terms;
        Ok(Self {
            version,
            resource,
            start,
            expiry,
            permissions,
            policy,
            addresses,
            protocol,
            encryption_scope: optional(query, "ses"),
            response_headers: RESPONSE_HEADERS.map(|name| optional(query, name)),
            signature,
        })
    }
}

impl<'a> BlobSas<'a> {
    /// The text that a token for `path` signs, by its version. The path is that of a container, or of a
    /// blob in it, with the blob's name unescaped (A-11.3).
    pub fn string_to_sign(&self, account: &str, path: &str) -> Result<String, SasError> {
        let version = self.terms().form()?;
        let mut more = Vec::new();
        if version.signs_blob_resource() {
            more.extend([self.resource, ""]);
        }
        more.extend(self.scope(version));
        more.extend(self.headers(version));
        self.terms().string_to_sign("/blob", account, path, &more)
    }

    /// Checks that a key of the account made the signature for `path`.
    pub fn verify(&self, account: &str, path: &str, keys: &[SigningKey]) -> Result<(), SasError> {
        verify(&self.string_to_sign(account, path)?, keys, self.signature)
    }

    /// Signs the token for `path` and returns it as a query string.
    pub fn token(&self, account: &str, path: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account, path)?.as_bytes()]);
        Ok(write_token(&self.parameters(), &signature))
    }

    /// The encryption scope, if the version signs it.
    fn scope(&self, version: ApiVersion) -> Option<&'a str> {
        version.signs_encryption_scope().then_some(self.encryption_scope)
    }

    /// The headers of responses, if the version signs them.
    fn headers(&self, version: ApiVersion) -> impl Iterator<Item = &'a str> + use<'a> {
        let headers = version.signs_response_headers().then_some(self.response_headers);
        headers.into_iter().flatten()
    }

    /// The parameters of the token in the URL, except its signature.
    fn parameters(&self) -> Vec<(&'static str, Option<&'a str>)> {
        let headers = RESPONSE_HEADERS.into_iter().zip(self.response_headers.map(given));
        let mut parameters = self.terms().parameters().to_vec();
        parameters.extend([("sr", given(self.resource)), ("ses", given(self.encryption_scope))]);
        parameters.extend(headers);
        parameters
    }

    fn terms(&self) -> ServiceTerms<'a> {
        terms_of!(self)
    }
}

/// A token for a blob or a container signed with a user delegation key.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlobDelegationSas<'a> {
    /// What it has in common with every token for a blob.
    pub blob: BlobSas<'a>,
    pub key: UserDelegationKey<'a>,
    /// `skdutid` and `sduoid`: the one user who may use the token, together with a bearer token.
    pub delegate: [&'a str; 2],
}

impl<'a> Parse<'a> for BlobDelegationSas<'a> {
    fn parse(query: &'a Query<'_>) -> Result<Self, SasError> {
        let (key, delegate) = UserDelegationKey::parse(query)?;
        let blob = BlobSas::parse(query)?;
        if !blob.terms().form()?.signs_blob_resource() {
            return Err(SasError::Version);
        }
        Ok(Self { blob, key, delegate })
    }
}

impl<'a> BlobDelegationSas<'a> {
    /// The text that a token for `path` signs, by its version (B-3.25).
    pub fn string_to_sign(&self, account: &str, path: &str) -> Result<String, SasError> {
        let version = self.blob.terms().form()?;
        let resource = format!("/blob/{account}/{path}");
        let mut agents = Vec::new();
        if version.signs_delegation_agents() {
            // `saoid`, `suoid` and `scid`, which name users of a hierarchical namespace.
            agents.extend([""; 3]);
        }
        if version.signs_delegate() {
            agents.extend(self.delegate);
        }
        let mut more = vec![self.blob.resource, ""];
        more.extend(self.blob.scope(version));
        if version.signs_request_headers() {
            // `srh` and `srq`, which bind a token to headers and parameters of a request.
            more.extend([""; 2]);
        }
        more.extend(self.blob.headers(version));
        self.key.string_to_sign(&self.blob.terms(), &resource, &agents, &more)
    }

    /// Checks that the user delegation key made the signature for `path`.
    pub fn verify(&self, account: &str, path: &str, key: &SigningKey) -> Result<(), SasError> {
        let text = self.string_to_sign(account, path)?;
        verify(&text, std::slice::from_ref(key), self.blob.signature)
    }

    /// Signs the token for `path` with a user delegation key and returns it as a query string.
    pub fn token(&self, account: &str, path: &str, key: &SigningKey) -> Result<String, SasError> {
        let signature = key.sign(&[self.string_to_sign(account, path)?.as_bytes()]);
        let mut parameters = self.blob.parameters();
        parameters.extend(self.key.parameters(self.delegate));
        Ok(write_token(&parameters, &signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sas::BlobToken;
    use proptest::prelude::*;

    const KEY: &str =
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    const ACCOUNT: &str = "devstoreaccount1";
    const SAS: BlobSas<'_> = BlobSas {
        version: "2021-12-02",
        resource: "b",
        start: "",
        expiry: "2030-01-01T00:00:00Z",
        permissions: "r",
        policy: "",
        addresses: "",
        protocol: "",
        encryption_scope: "",
        response_headers: [""; 5],
        signature: "",
    };

    fn key() -> SigningKey {
        SigningKey::from_base64(KEY).unwrap()
    }

    #[track_caller]
    fn check(sas: BlobSas<'_>, path: &str, text: &str, signature: &str) {
        assert_eq!(sas.string_to_sign(ACCOUNT, path).unwrap(), text);
        let signed = BlobSas { signature, ..sas };
        assert_eq!(signed.verify(ACCOUNT, path, &[key()]), Ok(()));
        assert_eq!(signed.verify(ACCOUNT, "other", &[key()]), Err(SasError::Signature));
        let token = sas.token(ACCOUNT, path, &key()).unwrap();
        let query = Query::parse_lenient(&token).unwrap();
        let Ok(Some(BlobToken::Service(read))) = BlobToken::parse(&query) else {
            panic!("{token}")
        };
        assert_eq!(read.verify(ACCOUNT, path, &[key()]), Ok(()), "{token}");
        assert_eq!(read.response_headers, sas.response_headers);
    }

    #[test]
    fn vectors_of_every_form() {
        check(
            SAS,
            "pics/2026/a b.txt",
            "r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/pics/2026/a b.txt\n\n\n\n2021-12-02\nb\n\n\n\n\n\n\n",
            "uWq/1RTcEzzihYnoMGu9DMnSNAsr82HabgBOV/Qj1rI=",
        );
        check(
            BlobSas {
                resource: "c",
                start: "2029-01-01T00:00:00Z",
                permissions: "racwdl",
                addresses: "10.0.0.1-10.0.0.9",
                protocol: "https",
                response_headers: ["no-store", "", "", "", "text/plain"],
                ..SAS
            },
            "pics",
            "racwdl\n2029-01-01T00:00:00Z\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/pics\n\n10.0.0.1-10.0.0.9\nhttps\n2021-12-02\nc\n\n\nno-store\n\n\n\ntext/plain",
            "9vNcpnRmIcHl6W7jdVktnBVrTCT7vt4a0IS6tHwQUxg=",
        );
        check(
            BlobSas { version: "2019-02-02", ..SAS },
            "pics/a",
            "r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/pics/a\n\n\n\n2019-02-02\nb\n\n\n\n\n\n",
            "26LqqkuK3tKaYJGY/FkKgT20RjAWcxnJAggk/iTfaYo=",
        );
        check(
            BlobSas { version: "2017-11-09", policy: "pol", permissions: "", expiry: "", ..SAS },
            "pics/a",
            "\n\n\n/blob/devstoreaccount1/pics/a\npol\n\n\n2017-11-09\n\n\n\n\n",
            "tG8yNDfcxki5dp43NTOh1ESbM4YV+dFnMRYKWyplQDA=",
        );
    }

    #[test]
    fn vectors_with_a_user_delegation_key() {
        // AV-28: B-3.25.
        let delegated = UserDelegationKey {
            object_id: "11111111-1111-1111-1111-111111111111",
            tenant_id: "22222222-2222-2222-2222-222222222222",
            start: "2029-12-31T00:00:00Z",
            expiry: "2030-01-02T00:00:00Z",
            service: "b",
            version: "2021-12-02",
        };
        let value =
            SigningKey::from_base64("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
        let sas = BlobDelegationSas { blob: SAS, key: delegated, delegate: [""; 2] };
        let ids = "11111111-1111-1111-1111-111111111111\n22222222-2222-2222-2222-222222222222\n\
                   2029-12-31T00:00:00Z\n2030-01-02T00:00:00Z\nb\n2021-12-02";
        let text = format!(
            "r\n\n2030-01-01T00:00:00Z\n/blob/devstoreaccount1/pics/a\n{ids}\n\n\n\n\n\n2021-12-02\nb\n\n\n\n\n\n\n"
        );
        assert_eq!(sas.string_to_sign(ACCOUNT, "pics/a").unwrap(), text);
        let token = sas.token(ACCOUNT, "pics/a", &value).unwrap();
        let query = Query::parse_lenient(&token).unwrap();
        let Ok(Some(BlobToken::UserDelegation(read))) = BlobToken::parse(&query) else { panic!() };
        assert_eq!(read.blob.signature, "gmVEzOxNyIHphOpLbR1rBTZFGKrlCWrBN9jRCwJWHRk=");
        assert_eq!(read.verify(ACCOUNT, "pics/a", &value), Ok(()));
        assert_eq!(read.verify(ACCOUNT, "pics/a", &key()), Err(SasError::Signature));
        // Older and newer forms differ in their number of fields.
        for (version, fields) in
            [("2019-12-12", 20), ("2020-02-10", 23), ("2025-07-05", 26), ("2026-04-06", 28)]
        {
            let sas = BlobDelegationSas { blob: BlobSas { version, ..SAS }, ..sas };
            let text = sas.string_to_sign(ACCOUNT, "pics/a").unwrap();
            assert_eq!(text.split('\n').count(), fields, "{version}");
        }
    }

    #[test]
    fn what_signs_more_than_we_know_is_refused() {
        for query in
            ["sv=2021-12-02&sr=bs&se=2030-01-01&sig=A", "sv=2021-12-02&se=2030-01-01&sig=A"]
        {
            let query = Query::parse_lenient(query).unwrap();
            assert!(BlobToken::parse(&query).is_err());
        }
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let signed = format!("sig=a&sv=2021-12-02&{text}");
            let _ = BlobToken::parse(&Query::parse(&signed).unwrap_or_default());
        }
    }
}
