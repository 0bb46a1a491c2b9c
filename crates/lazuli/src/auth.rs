//! The flags that say whose bearer tokens are taken, and the issuer they make.

use crate::failure::{chain, with_hint};
use anyhow::Result;
use clap::Args;
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{AuthOptions, IssuerOptions, KeySource, RoleMap, TokenIssuer};
use serde::Deserialize;
use std::path::Path;
use std::sync::Arc;

/// Bearer tokens; see docs/authorization.md.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[command(next_help_heading = "Bearer tokens")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AuthArguments {
    /// Take bearer tokens whose `iss` is ISSUER; without it every one is refused
    #[arg(long, value_name = "ISSUER", env = "LAZULI_OIDC_ISSUER")]
    pub(crate) oidc_issuer: Option<String>,

    /// The issuer's public keys: a file, or an http or https URL, with a JSON Web Key Set
    #[arg(long, value_name = "FILE|URL", env = "LAZULI_OIDC_JWKS")]
    pub(crate) oidc_jwks: Option<String>,

    /// Take tokens for this `aud` instead of https://storage.azure.com and the account's own
    /// https://ACCOUNT.table.core.windows.net; may be repeated
    #[arg(long, value_name = "AUDIENCE")]
    pub(crate) oidc_audience: Option<Vec<String>>,

    /// What a value of the claims roles, groups, scp or scope permits: reader, contributor, or data
    /// actions with commas between; may be repeated. `Storage Table Data Reader` and `Storage Table
    /// Data Contributor` are known
    #[arg(long, value_name = "VALUE=ROLE")]
    pub(crate) oidc_role: Option<Vec<String>>,

    /// Where clients are told to get a token, such as
    /// https://login.microsoftonline.com/TENANT/oauth2/authorize
    #[arg(long, value_name = "URI")]
    pub(crate) oidc_authorization_uri: Option<String>,

    /// Take bearer tokens over plain HTTP too, where others may read them
    #[arg(
        long,
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) bearer_over_http: Option<bool>,

    /// Give out user delegation keys, and take the shared access signatures made with them
    #[arg(
        long,
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    pub(crate) user_delegation: Option<bool>,

    /// Tell callers why their credential was refused: what the server would have signed, and where
    /// the client's string differs. For those who write clients; never where strangers call
    #[arg(
        long,
        value_name = "BOOL",
        hide_possible_values = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Diagnosis"
    )]
    pub(crate) explain_auth: Option<bool>,
}

impl AuthArguments {
    /// What is said here wins over what `file` says.
    pub(crate) fn or(self, file: Self) -> Self {
        Self {
            oidc_issuer: self.oidc_issuer.or(file.oidc_issuer),
            oidc_jwks: self.oidc_jwks.or(file.oidc_jwks),
            oidc_audience: self.oidc_audience.or(file.oidc_audience),
            oidc_role: self.oidc_role.or(file.oidc_role),
            oidc_authorization_uri: self.oidc_authorization_uri.or(file.oidc_authorization_uri),
            bearer_over_http: self.bearer_over_http.or(file.bearer_over_http),
            user_delegation: self.user_delegation.or(file.user_delegation),
            explain_auth: self.explain_auth.or(file.explain_auth),
        }
    }

    /// Makes a file of keys relative to `directory`.
    pub(crate) fn relative_to(mut self, directory: &Path) -> Self {
        if let Some(keys) = &mut self.oidc_jwks
            && let Ok(KeySource::File(file)) = KeySource::parse(keys)
        {
            *keys = directory.join(file).to_string_lossy().into_owned();
        }
        self
    }

    pub(crate) async fn options(&self) -> Result<AuthOptions> {
        let explain = self.explain_auth.unwrap_or(false);
        if explain {
            tracing::warn!(
                "--explain-auth: EVERY CALLER IS TOLD WHY A CREDENTIAL WAS REFUSED; \
                 use it only while you write a client"
            );
        }
        let defaults = AuthOptions::default();
        let uri = self.oidc_authorization_uri.clone();
        Ok(AuthOptions {
            issuer: self.issuer().await?.map(Arc::new),
            bearer_over_http: self.bearer_over_http.unwrap_or(false),
            authorization_uri: uri.unwrap_or(defaults.authorization_uri),
            user_delegation: self.user_delegation.unwrap_or(false),
            explain,
        })
    }

    async fn issuer(&self) -> Result<Option<TokenIssuer>> {
        let (issuer, keys) = match (&self.oidc_issuer, &self.oidc_jwks) {
            (Some(issuer), Some(keys)) => (issuer, keys),
            (None, None) if !self.speaks_of_tokens() => return Ok(None),
            _ => {
                return Err(with_hint(
                    "bearer tokens are spoken of without their issuer and its keys",
                    "give both --oidc-issuer and --oidc-jwks",
                ));
            }
        };
        let keys = KeySource::parse(keys).map_err(|error| {
            with_hint(format!("--oidc-jwks: {error}"), "give a file, or an http or https URL")
        })?;
        let mut roles = RoleMap::default();
        for mapping in self.oidc_role.iter().flatten() {
            roles.add(mapping).map_err(|error| {
                let advice =
                    "give VALUE=reader, VALUE=contributor, or VALUE=tables/entities/read,…";
                with_hint(format!("--oidc-role: {error}"), advice)
            })?;
        }
        let audiences = self.oidc_audience.clone().unwrap_or_default();
        let options =
            IssuerOptions { issuer: issuer.clone(), audiences, keys: keys.clone(), roles };
        let tokens = TokenIssuer::new(options);
        match (tokens.load_keys(SystemClock.now()).await, &keys) {
            (Ok(_), _) => Ok(Some(tokens)),
            // An issuer may start after us; a file that is wrong now stays so.
            (Err(error), KeySource::Url(_)) => {
                let error = chain(&error);
                tracing::warn!(%keys, error, "cannot use the issuer's keys; will try again");
                Ok(Some(tokens))
            }
            (Err(error), KeySource::File(_)) => Err(with_hint(
                format!("the keys in {keys}: {}", chain(&error)),
                "give --oidc-jwks the issuer's JSON Web Key Set, as its jwks_uri serves it",
            )),
        }
    }

    /// Whether something is said that means nothing without an issuer.
    fn speaks_of_tokens(&self) -> bool {
        let lists = [&self.oidc_audience, &self.oidc_role];
        self.user_delegation == Some(true) || lists.into_iter().flatten().any(|l| !l.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn problem(arguments: AuthArguments) -> String {
        arguments.options().await.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[tokio::test]
    async fn a_wrong_issuer_is_told_at_the_start() {
        let arguments = |keys: &str, roles: &[&str]| AuthArguments {
            oidc_issuer: Some("https://issuer.test".to_owned()),
            oidc_jwks: Some(keys.to_owned()),
            oidc_role: Some(roles.iter().map(|&role| role.to_owned()).collect()),
            ..AuthArguments::default()
        };
        assert_eq!(problem(AuthArguments::default()).await, "");
        let alone = AuthArguments { user_delegation: Some(true), ..AuthArguments::default() };
        assert!(problem(alone).await.contains("without their issuer"));
        assert_eq!(problem(arguments("http://", &[])).await, "--oidc-jwks: 'http://' is not a URL");
        let role = "--oidc-role: 'owner' is neither a role nor a data action";
        assert_eq!(problem(arguments("keys.json", &["a=owner"])).await, role);
        let file = problem(arguments("no such file", &["a=reader"])).await;
        assert!(file.starts_with("the keys in no such file: cannot read them: "), "{file}");
        // Nobody listens on port 1, but somebody may.
        assert_eq!(problem(arguments("http://127.0.0.1:1/", &[])).await, "");
    }
}
