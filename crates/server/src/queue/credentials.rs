//! How requests to the Queue service are signed, and what its tokens and roles permit.

use crate::auth::accounts::Account;
use crate::auth::bearer::{RoleGrant, RoleNames};
use crate::auth::credentials::{BearerRefusal, ContainerGrant, Credentials, Grant, Presented, Sas};
use crate::auth::delegation;
use crate::auth::keyring::Keyring;
use crate::error::ApiResult;
use crate::operation::Facts;
use crate::operation::letters::{ADD, CREATE, DELETE, PROCESS, READ, UPDATE, WRITE};
use crate::queue::api::QueueApi;
use crate::queue::explain;
use crate::queue::operation::Resource;
use crate::queue::token::{Token, TokenKind};
use lazuli_model::{AccessPolicies, QueueName, Timestamp};
use lazuli_queue::QueueError;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{Caller, QueueGrant, QueueSas, QueueToken, SasError};
use lazuli_wire::shared_key::{CanonicalRequest, Scheme};
use lazuli_wire::uri::split_account;

/// The roles of the Queue service and its data actions.
pub(crate) const ROLES: &RoleNames = &RoleNames {
    service: "queue",
    objects: "messages",
    containers: "queues",
    roles: &[
        ("reader", RoleGrant { objects: READ, containers: READ, service: READ, delegation: true }),
        (
            "contributor",
            RoleGrant {
                objects: READ.union(ADD).union(UPDATE).union(DELETE).union(PROCESS),
                containers: READ.union(CREATE).union(WRITE).union(DELETE),
                service: READ.union(WRITE),
                delegation: true,
            },
        ),
        ("messagesender", RoleGrant { delegation: true, ..RoleGrant::on_objects(ADD) }),
        (
            "messageprocessor",
            RoleGrant { delegation: true, ..RoleGrant::on_objects(READ.union(PROCESS)) },
        ),
        ("delegator", RoleGrant::DELEGATION),
    ],
    actions: &[
        ("queues/messages/read", RoleGrant::on_objects(READ)),
        ("queues/messages/add/action", RoleGrant::on_objects(ADD)),
        ("queues/messages/process/action", RoleGrant::on_objects(PROCESS)),
        ("queues/messages/write", RoleGrant::on_objects(ADD.union(UPDATE))),
        ("queues/messages/delete", RoleGrant::on_objects(DELETE)),
        ("queues/read", RoleGrant::on_containers(READ)),
        ("queues/write", RoleGrant::on_containers(CREATE.union(WRITE))),
        ("queues/delete", RoleGrant::on_containers(DELETE)),
        ("read", RoleGrant::on_service(READ)),
        ("write", RoleGrant::on_service(WRITE)),
        ("generateUserDelegationKey/action", RoleGrant::DELEGATION),
    ],
};

impl Credentials for QueueApi {
    type Token<'q> = Token<'q>;
    type Grant = QueueGrant;

    const LETTER: char = 'q';
    const ROLES: &'static RoleNames = ROLES;

    ///
    fn missing_credential(presented: &Presented<'_>) -> ErrorCode {
        match presented.version.has_challenge_of_queues() {
            true => ErrorCode::NoAuthenticationInformation,
            false => ErrorCode::AuthenticationFailed,
        }
    }

    ///
    fn refused_bearer(presented: &Presented<'_>, refusal: BearerRefusal) -> ErrorCode {
        match refusal {
            BearerRefusal::Token if presented.version.has_bearer_tokens() => {
                ErrorCode::InvalidBearerToken
            }
            BearerRefusal::Token | BearerRefusal::NotTaken => ErrorCode::InvalidAuthenticationInfo,
        }
    }

    ///
    fn takes_bearer(presented: &Presented<'_>, is_private: bool) -> bool {
        presented.version.has_bearer_tokens() && is_private
    }

    fn signing_key(
        account: &Account,
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
    ) -> Option<usize> {
        canonical(account, presented).signing_key(&account.keys, scheme, signature)
    }

    fn explain_signature(
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
        keys: &Keyring<'_>,
    ) -> String {
        let request = canonical(keys.account, presented);
        explain::shared_key(&request, scheme, signature, presented, keys)
    }

    fn signature_detail(
        account: &Account,
        presented: &Presented<'_>,
        scheme: Scheme,
        signature: &str,
    ) -> Option<String> {
        let text = canonical(account, presented).string_to_sign(scheme);
        Some(format!(
            "The MAC signature found in the HTTP request '{signature}' is not the same as any \
             computed signature. Server used following string to sign: '{}'.",
            String::from_utf8_lossy(&text)
        ))
    }

    fn parse_sas<'q>(presented: &'q Presented<'_>) -> Result<Option<Sas<'q, Token<'q>>>, SasError> {
        let queue = split_account(presented.resource).0;
        Ok(QueueToken::parse(presented.query)?.map(|sas| match sas {
            QueueToken::Account(sas) => Sas::Account(sas),
            QueueToken::Service(sas) => Sas::Service(Token { queue, sas: TokenKind::Queue(sas) }),
            QueueToken::UserDelegation(sas) => {
                Sas::Service(Token { queue, sas: TokenKind::UserDelegation(sas) })
            }
        }))
    }

    async fn grant(
        &self,
        account: &Account,
        token: &Self::Token<'_>,
        caller: &Caller,
    ) -> ApiResult<Result<QueueGrant, SasError>> {
        // The root names no queue that a token could be signed for.
        if token.queue.is_empty() {
            return Ok(Err(SasError::Resource));
        }
        let (Token { queue, sas }, name) = (token, account.name.as_str());
        match sas {
            TokenKind::Queue(sas) => {
                if let Err(error) = sas.verify(name, queue, &account.keys) {
                    return Ok(Err(error));
                }
                let policies = self.stored_policies(account, queue, sas).await?;
                Ok(sas.grant(queue, policies.find(sas.policy), caller))
            }
            TokenKind::UserDelegation(sas) if self.gives_delegation_keys() => {
                let verify = |key: &_| sas.verify(name, queue, key).is_ok();
                let owner = delegation::owner_permissions(account, &sas.key, ROLES, verify);
                Ok(owner.and_then(|owner| Ok(sas.grant(queue, caller)?.within(owner))))
            }
            // No client can have such a token: we issue no keys to sign it with.
            TokenKind::UserDelegation(_) => Ok(Err(SasError::Signature)),
        }
    }

    fn explain_token(token: &Token<'_>, keys: &Keyring<'_>) -> String {
        explain::token(token, keys)
    }

    fn token_detail(
        account: &Account,
        sas: &Sas<'_, Token<'_>>,
        error: SasError,
        now: Timestamp,
    ) -> Option<String> {
        let name = account.name.as_str();
        let (start, expiry) = match error {
            SasError::Signature => {
                let text = match sas {
                    Sas::Account(sas) => sas.string_to_sign(name),
                    Sas::Service(token) => token.string_to_sign(name),
                };
                let text = text.unwrap_or_default();
                return Some(format!("Signature did not match. String to sign used was {text}"));
            }
            SasError::NotStarted(start) => (Some(start), sas_times(sas).1),
            SasError::Expired(expiry) => (sas_times(sas).0, Some(expiry)),
            _ => return None,
        };
        Some(format!(
            "Signature not valid in the specified time frame: Start [{}] - Expiry [{}] - Current \
             [{}]",
            start.unwrap_or(Timestamp::MIN).rfc1123(),
            expiry.unwrap_or(Timestamp::MAX).rfc1123(),
            now.rfc1123(),
        ))
    }
}

/// The times that a token itself names.
fn sas_times(sas: &Sas<'_, Token<'_>>) -> (Option<Timestamp>, Option<Timestamp>) {
    let (start, expiry) = match sas {
        Sas::Account(sas) => (sas.start, sas.expiry),
        Sas::Service(Token { sas: TokenKind::Queue(sas), .. }) => (sas.start, sas.expiry),
        Sas::Service(Token { sas: TokenKind::UserDelegation(sas), .. }) => {
            (sas.queue.start, sas.queue.expiry)
        }
    };
    (Timestamp::parse(start), Timestamp::parse(expiry))
}

fn canonical<'a>(account: &'a Account, presented: &Presented<'a>) -> CanonicalRequest<'a> {
    let headers = presented.headers.all.iter();
    let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
    CanonicalRequest::new(
        presented.method,
        headers,
        account.name.as_str(),
        presented.path,
        presented.raw_query,
        presented.version,
    )
}

impl QueueApi {
    /// The stored policies of the token's queue, if the token names one.
    async fn stored_policies(
        &self,
        account: &Account,
        queue: &str,
        sas: &QueueSas<'_>,
    ) -> ApiResult<AccessPolicies> {
        let queue = match (sas.policy, QueueName::parse(queue)) {
            ("", _) | (_, Err(_)) => return Ok(AccessPolicies::default()),
            (_, Ok(queue)) => queue,
        };
        match self.queues.access_policies(&account.name, &queue).await {
            Err(QueueError::QueueNotFound) => Ok(AccessPolicies::default()),
            policies => Ok(policies?),
        }
    }
}

impl Grant for QueueGrant {
    type Resource = Resource;

    /// An operation that no such token permits has a different error code from a missing permission
    /// (Q-10.6, Q-10.7, TQ-58).
    fn permit(&self, facts: &Facts, resource: &Resource) -> ApiResult<()> {
        let queue = resource.queue().map(QueueName::as_str);
        let is_own = queue.is_some_and(|queue| self.check_queue(queue).is_ok());
        let (name, permissions) = (self.queue(), self.permissions());
        ContainerGrant { kind: "queue", name, permissions }.permit(facts, queue, is_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_wire::sas::Permissions;

    ///
    #[test]
    fn roles_open_what_the_reference_says() {
        let grant = |role| ROLES.roles.iter().find(|(name, _)| *name == role).unwrap().1;
        let (sender, processor) = (grant("messagesender"), grant("messageprocessor"));
        assert_eq!(sender.objects, ADD);
        assert_eq!(processor.objects, READ.union(PROCESS));
        assert_eq!(sender.containers.union(processor.containers), Permissions::NONE);
    }
}
