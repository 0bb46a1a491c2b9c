//! Credentials from `azure_core`, and so from `azure_identity` (C-1.6).

use crate::credential::{AccessToken, Credential, Secret, TokenCredential};
use crate::{BoxError, BoxFuture};
use azure_core::credentials::TokenCredential as AzureCredential;
use lazuli_model::Timestamp;
use std::sync::Arc;

/// Adapts a credential from `azure_core`. This library caches its tokens.
#[derive(Debug)]
struct Adapted(Arc<dyn AzureCredential>);

impl TokenCredential for Adapted {
    fn token<'a>(&'a self, scope: &'a str) -> BoxFuture<'a, Result<AccessToken, BoxError>> {
        Box::pin(async move {
            let token = self.0.get_token(&[scope], None).await?;
            let expires = u64::try_from(token.expires_on.unix_timestamp()).unwrap_or(0);
            Ok(AccessToken {
                secret: Secret::new(token.token.secret()),
                expires: Timestamp::from_unix_seconds(expires),
            })
        })
    }
}

impl From<Arc<dyn AzureCredential>> for Credential {
    fn from(credential: Arc<dyn AzureCredential>) -> Self {
        Self::token(Adapted(credential))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use azure_core::credentials::{AccessToken as AzureToken, TokenRequestOptions};
    use azure_core::time::OffsetDateTime;

    #[derive(Debug)]
    struct Fixed;

    #[async_trait::async_trait]
    impl AzureCredential for Fixed {
        async fn get_token(
            &self,
            scopes: &[&str],
            _options: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<AzureToken> {
            let end = OffsetDateTime::from_unix_timestamp(1_800_000_000).unwrap();
            Ok(AzureToken::new(scopes.join(" "), end))
        }
    }

    #[tokio::test]
    async fn a_token_keeps_its_text_and_its_end() {
        let credential: Arc<dyn AzureCredential> = Arc::new(Fixed);
        let token = Adapted(credential.clone()).token("scope").await.unwrap();
        assert_eq!(token.secret.expose(), "scope");
        assert_eq!(token.expires.unix_seconds(), 1_800_000_000);
        assert!(!format!("{:?}", Credential::from(credential)).contains("scope"));
    }
}
