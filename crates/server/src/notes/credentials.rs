//! How notes are signed, and what their tokens permit.

use super::book::Notes;
use super::operation::NoteResource;
use crate::auth::accounts::Account;
use crate::auth::bearer::{RoleGrant, RoleNames};
use crate::auth::credentials::{BearerRefusal, Credentials, Grant, Presented, Sas};
use crate::auth::keyring::Keyring;
use crate::error::ApiResult;
use crate::operation::Facts;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::{self, Caller, Permissions, SasError};
use lazuli_wire::shared_key::{Scheme, Signature};

const READER: RoleGrant = RoleGrant { objects: Permissions::READ, ..RoleGrant::NONE };

/// A token for one note: `nn` its name, `sp` letters of `rw` or `si` a policy, `sig`.
pub(crate) struct NoteToken<'q> {
    note: &'q str,
    letters: &'q str,
    policy: &'q str,
    signature: &'q str,
}

#[derive(Clone, Debug)]
pub(crate) struct NoteGrant {
    note: String,
    permissions: Permissions,
}

/// What a request for a note signs.
pub(crate) fn string_to_sign(method: &str, date: &str, path: &str) -> String {
    format!("notes\n{method}\n{date}\n{path}")
}

/// What a token for a note signs.
pub(crate) fn token_to_sign(note: &str, letters: &str, policy: &str) -> String {
    format!("{note}\n{letters}\n{policy}")
}

fn signing_key(account: &Account, text: &str, signature: &str) -> Option<usize> {
    let signature = Signature::parse(signature)?;
    account.keys.iter().position(|key| key.verify(&[text.as_bytes()], &signature))
}

impl Credentials for Notes {
    type Token<'q> = NoteToken<'q>;
    type Grant = NoteGrant;

    const LETTER: char = 'n';
    const ROLES: &'static RoleNames = &RoleNames {
        service: "note",
        objects: "notes",
        containers: "books",
        roles: &[("reader", READER)],
        actions: &[],
    };

    fn missing_credential(_: &Presented<'_>) -> ErrorCode {
        ErrorCode::NoAuthenticationInformation
    }

    fn refused_bearer(_: &Presented<'_>, _: BearerRefusal) -> ErrorCode {
        ErrorCode::InvalidBearerToken
    }

    fn signing_key(
        account: &Account,
        presented: &Presented<'_>,
        _: Scheme,
        signature: &str,
    ) -> Option<usize> {
        let text = string_to_sign(presented.method, presented.date(), presented.path);
        signing_key(account, &text, signature)
    }

    fn explain_signature(p: &Presented<'_>, _: Scheme, _: &str, _: &Keyring<'_>) -> String {
        format!("Notes sign {:?}.", string_to_sign(p.method, p.date(), p.path))
    }

    fn parse_sas<'q>(
        presented: &'q Presented<'_>,
    ) -> Result<Option<Sas<'q, NoteToken<'q>>>, SasError> {
        let query = presented.query;
        let get = |name| query.get(name).unwrap_or_default();
        if query.contains("srt") {
            return match sas::TableToken::parse(query)? {
                Some(sas::TableToken::Account(sas)) => Ok(Some(Sas::Account(sas))),
                _ => Err(SasError::Malformed("srt")),
            };
        }
        Ok(query.get("sig").map(|signature| {
            let (note, letters, policy) = (get("nn"), get("sp"), get("si"));
            Sas::Service(NoteToken { note, letters, policy, signature })
        }))
    }

    async fn grant(
        &self,
        account: &Account,
        token: &Self::Token<'_>,
        _: &Caller,
    ) -> ApiResult<Result<NoteGrant, SasError>> {
        let text = token_to_sign(token.note, token.letters, token.policy);
        if signing_key(account, &text, token.signature).is_none() {
            return Ok(Err(SasError::Signature));
        }
        let letters = match token.policy {
            "" => Some(token.letters),
            policy => self.policies.get(policy).copied(),
        };
        Ok(letters.ok_or(SasError::UnknownPolicy).map(|letters| NoteGrant {
            note: token.note.to_owned(),
            permissions: Permissions::parse(letters),
        }))
    }

    fn explain_token(token: &Self::Token<'_>, _: &Keyring<'_>) -> String {
        format!("Tokens sign {:?}.", token_to_sign(token.note, token.letters, token.policy))
    }
}

impl Grant for NoteGrant {
    type Resource = NoteResource;

    fn permit(&self, facts: &Facts, resource: &NoteResource) -> ApiResult<()> {
        match (resource, facts.service_sas) {
            (NoteResource::Note(name), Some(needed)) if *name == self.note => {
                match self.permissions.contains(needed) {
                    true => Ok(()),
                    false => Err(SasError::Permission.into()),
                }
            }
            _ => Err(SasError::Resource.into()),
        }
    }
}
