//! The options for bearer tokens, and the issuer built from them.

use crate::options::web_address;
use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args};
use lazuli_cli::failure::{chain, usage};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{AuthOptions, IssuerOptions, KeySource, ROLES, RoleMap, TokenIssuer};
use std::sync::Arc;

/// Bearer tokens; see docs/authorization.md.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Bearer tokens")]
pub(crate) struct AuthArguments {
    /// Accept bearer tokens whose `iss` is ISSUER; without this option all bearer tokens are
    /// refused
    #[arg(long, value_name = "ISSUER", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) oidc_issuer: Option<String>,

    /// The issuer's public keys: a JSON Web Key Set in a file or at an http or https URL
    #[arg(long, value_name = "FILE|URL", value_parser = KeySource::parse)]
    pub(crate) oidc_jwks: Option<KeySource>,

    /// Accept tokens for this `aud` instead of https://storage.azure.com and the account's own
    /// https://ACCOUNT.table.core.windows.net or https://ACCOUNT.queue.core.windows.net; may be
    /// repeated
    #[arg(long, value_name = "AUDIENCE", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) oidc_audience: Vec<String>,

    /// Permissions for a value of the claims roles, groups, scp or scope: reader, contributor, or
    /// data actions separated by commas; may be repeated. Azure's roles for tables and queues, such
    /// as `Storage Table Data Reader` and `Storage Queue Data Contributor`, are built in
    #[arg(long, value_name = "VALUE=ROLE")]
    pub(crate) oidc_role: Vec<String>,

    /// Where a 401 response sends clients for a token, such as
    /// https://login.microsoftonline.com/TENANT/oauth2/authorize
    #[arg(long, value_name = "URI", value_parser = web_address)]
    pub(crate) oidc_authorization_uri: Option<String>,

    /// Accept bearer tokens over plain HTTP too, where anyone on the network can read them
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) bearer_over_http: bool,

    /// Issue user delegation keys, and accept the shared access signatures signed with them
    #[arg(long, action = ArgAction::Set, default_value_t)]
    pub(crate) user_delegation: bool,

    /// Tell callers why their credential was refused: the string the server signed, and where the
    /// client's string differs. For client authors; never use it on a server that strangers can
    /// reach
    #[arg(long, help_heading = "Diagnostics", action = ArgAction::Set, default_value_t)]
    pub(crate) explain_auth: bool,
}

impl AuthArguments {
    pub(crate) async fn options(&self) -> Result<AuthOptions> {
        if self.explain_auth {
            tracing::warn!(
                "--explain-auth TELLS EVERY CALLER WHY A CREDENTIAL WAS REFUSED; \
                 use it only to develop a client"
            );
        }
        let defaults = AuthOptions::default();
        let uri = self.oidc_authorization_uri.clone();
        Ok(AuthOptions {
            issuer: self.issuer().await?.map(Arc::new),
            bearer_over_http: self.bearer_over_http,
            authorization_uri: uri.unwrap_or(defaults.authorization_uri),
            user_delegation: self.user_delegation,
            explain: self.explain_auth,
        })
    }

    async fn issuer(&self) -> Result<Option<TokenIssuer>> {
        let (issuer, keys) = match (&self.oidc_issuer, &self.oidc_jwks) {
            (Some(issuer), Some(keys)) => (issuer, keys),
            _ => match self.needs_issuer() {
                None => return Ok(None),
                Some(option) => {
                    return Err(usage(
                        format!("{option} is given without an issuer and its keys"),
                        "give both --oidc-issuer and --oidc-jwks",
                    ));
                }
            },
        };
        let mut roles = RoleMap::new(ROLES);
        for mapping in &self.oidc_role {
            roles.add(mapping).map_err(|error| {
                let advice =
                    "give VALUE=reader, VALUE=contributor, or VALUE=tables/entities/read,…";
                usage(format!("--oidc-role: {error}"), advice)
            })?;
        }
        let audiences = self.oidc_audience.clone();
        let options =
            IssuerOptions { issuer: issuer.clone(), audiences, keys: keys.clone(), roles };
        let tokens = TokenIssuer::new(options);
        match (tokens.load_keys(SystemClock.now()).await, keys) {
            (Ok(_), _) => Ok(Some(tokens)),
            // The issuer may start after this server; an invalid file will not become valid.
            (Err(error), KeySource::Url(_)) => {
                let error = chain(&error);
                tracing::warn!(%keys, error, "cannot load the issuer's keys; will retry");
                Ok(Some(tokens))
            }
            (Err(error), KeySource::File(_)) => Err(usage(
                format!("the keys in {keys}: {}", chain(&error)),
                "give --oidc-jwks the issuer's JSON Web Key Set, as its jwks_uri serves it",
            )),
        }
    }

    /// An option that is given and needs an issuer with its keys.
    fn needs_issuer(&self) -> Option<&'static str> {
        let given = [
            ("--oidc-issuer", self.oidc_issuer.is_some()),
            ("--oidc-jwks", self.oidc_jwks.is_some()),
            ("--oidc-audience", !self.oidc_audience.is_empty()),
            ("--oidc-role", !self.oidc_role.is_empty()),
            ("--user-delegation", self.user_delegation),
        ];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        auth: AuthArguments,
    }

    /// The error with which the server refuses to start with these arguments.
    async fn problem(arguments: &[&str]) -> String {
        let line = Line::try_parse_from([&["lazuli"], arguments].concat());
        let options = match line {
            Ok(line) => line.auth.options().await,
            Err(error) => return error.to_string(),
        };
        options.map_or_else(|error| error.to_string(), |_| String::new())
    }

    async fn problem_of_issuer(keys: &str, roles: &[&str]) -> String {
        let mut arguments = vec!["--oidc-issuer", "https://issuer.test", "--oidc-jwks", keys];
        arguments.extend(roles.iter().flat_map(|role| ["--oidc-role", role]));
        problem(&arguments).await
    }

    #[tokio::test]
    async fn a_wrong_issuer_is_reported_at_the_start() {
        assert_eq!(problem(&[]).await, "");
        assert!(problem(&["--user-delegation", "true"]).await.contains("without an issuer"));
        assert!(problem_of_issuer("http://", &[]).await.contains("'http://' is not a URL"));
        let role = "--oidc-role: 'owner' is neither a role nor a data action";
        assert_eq!(problem_of_issuer("keys.json", &["a=owner"]).await, role);
        let file = problem_of_issuer("no such file", &["a=reader"]).await;
        assert!(file.starts_with("the keys in no such file: cannot read them: "), "{file}");
        // Nothing listens on port 1 now, but something may later.
        assert_eq!(problem_of_issuer("http://127.0.0.1:1/", &[]).await, "");
    }
}
