//! An issuer of bearer tokens for tests, with a fresh key on the curve P-256.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The name of the issuer in its tokens.
pub const ISSUER: &str = "https://issuer.test/tenant/v2.0";
/// The user that tokens name, and the tenant.
pub const OBJECT_ID: &str = "11111111-1111-1111-1111-111111111111";
pub const TENANT_ID: &str = "22222222-2222-2222-2222-222222222222";

/// Issues tokens.
#[derive(Debug)]
pub struct TestIssuer {
    key: EcdsaKeyPair,
    id: &'static str,
}

impl TestIssuer {
    /// An issuer with one key, named `id`.
    #[expect(clippy::expect_used, reason = "a machine without randomness tests nothing")]
    pub fn new(id: &'static str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a new key");
        Self { key, id }
    }

    /// The public key in JSON.
    pub fn jwk(&self) -> String {
        // An uncompressed point: a byte that says so, then both coordinates.
        let point = self.key.public_key().as_ref();
        let coordinate = |from, to| base64(point.get(from..to).unwrap_or_default());
        let (x, y, id) = (coordinate(1, 33), coordinate(33, 65), self.id);
        format!(r#"{{"kty":"EC","crv":"P-256","use":"sig","kid":"{id}","x":"{x}","y":"{y}"}}"#)
    }

    /// The set of its keys, as issuers publish it.
    pub fn jwks(&self) -> String {
        format!(r#"{{"keys":[{}]}}"#, self.jwk())
    }

    /// A token with this content.
    pub fn token(&self, claims: &str) -> String {
        self.token_with(&format!(r#"{{"alg":"ES256","kid":"{}","typ":"JWT"}}"#, self.id), claims)
    }

    /// A token with this header and content, signed with the issuer's key.
    #[expect(clippy::expect_used, reason = "a key that signed once signs again")]
    pub fn token_with(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", base64(header.as_bytes()), base64(claims.as_bytes()));
        let signature =
            self.key.sign(&SystemRandom::new(), signed.as_bytes()).expect("a signature");
        format!("{signed}.{}", base64(signature.as_ref()))
    }
}

/// The content of a valid token, from `now` for one hour; claims in `more` replace the usual ones.
/// A value is JSON; an empty one removes the claim.
pub fn claims(now_unix_seconds: u64, more: &[(&str, &str)]) -> String {
    let (exp, nbf) = ((now_unix_seconds + 3600).to_string(), now_unix_seconds.to_string());
    let text = |text: &str| format!("\"{text}\"");
    let usual = [
        ("iss", text(ISSUER)),
        ("aud", text("https://storage.azure.com")),
        ("exp", exp),
        ("nbf", nbf),
        ("oid", text(OBJECT_ID)),
        ("tid", text(TENANT_ID)),
        ("roles", r#"["Storage Table Data Reader"]"#.to_owned()),
    ];
    let replaced = |name: &str| more.iter().any(|(other, _)| *other == name);
    let kept = usual.iter().filter(|(name, _)| !replaced(name));
    let kept = kept.map(|(name, value)| (*name, value.as_str()));
    let given = more.iter().copied().filter(|(_, value)| !value.is_empty());
    let members: Vec<_> = kept.chain(given).map(|(n, v)| format!("\"{n}\":{v}")).collect();
    format!("{{{}}}", members.join(","))
}

/// Base64 as used in tokens.
pub fn base64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
