//! An issuer of bearer tokens that a server trusts.

use super::Lazuli;
use lazuli_model::Clock;
use lazuli_server::{
    AuthOptions, FrontOptions, IssuerOptions, KeySource, ROLES, RoleMap, TokenIssuer,
};
use lazuli_testkit::issuer::{self, ISSUER, TestIssuer};
use std::sync::Arc;
use tempfile::TempDir;

pub(crate) struct TrustedIssuer {
    issuer: TestIssuer,
    /// Where the server reads the keys of the issuer.
    _keys: TempDir,
}

impl Lazuli {
    /// An empty server that takes the tokens of an issuer.
    pub(crate) fn trusting() -> (Self, TrustedIssuer) {
        let issuer = TestIssuer::new("k1");
        let keys = tempfile::tempdir().unwrap();
        let file = keys.path().join("keys.json");
        std::fs::write(&file, issuer.jwks()).unwrap();
        let trusted = TokenIssuer::new(IssuerOptions {
            issuer: ISSUER.to_owned(),
            audiences: Vec::new(),
            keys: KeySource::File(file),
            roles: RoleMap::new(ROLES),
        });
        let auth = AuthOptions {
            issuer: Some(Arc::new(trusted)),
            bearer_over_http: true,
            ..AuthOptions::default()
        };
        let lazuli = Self::with_options(FrontOptions { auth, ..FrontOptions::default() });
        (lazuli, TrustedIssuer { issuer, _keys: keys })
    }
}

impl TrustedIssuer {
    /// The `Authorization` of somebody with the role Storage Table Data Contributor.
    pub(crate) fn contributor(&self, lazuli: &Lazuli) -> String {
        let roles = [("roles", r#"["Storage Table Data Contributor"]"#)];
        let claims = issuer::claims(lazuli.clock.now().unix_seconds(), &roles);
        format!("Bearer {}", self.issuer.token(&claims))
    }
}
