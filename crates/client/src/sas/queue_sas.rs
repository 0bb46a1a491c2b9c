//! Tokens for a queue (C-16.1).

use super::{
    Letters, SAS_VERSION, SasToken, Signer, Terms, UserDelegationKey, sas_signer, sas_terms, signed,
};
use crate::account::Account;
use crate::error::Error;
use crate::queue::Queue;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::sas::{Permissions, QueueDelegationSas, QueueSas};

const LETTERS: Letters = Letters {
    of: "a queue",
    allowed: Permissions::READ
        .union(Permissions::ADD)
        .union(Permissions::UPDATE)
        .union(Permissions::PROCESS),
    names: "READ, ADD, UPDATE and PROCESS",
    order: "raup",
};

impl Queue {
    /// Begins a token for this queue: to peek at messages (`READ`), put (`ADD`), change (`UPDATE`), or receive and
    /// delete them (`PROCESS`). It is signed locally, without a request.
    pub fn sas(&self, permissions: Permissions) -> QueueSasBuilder {
        QueueSasBuilder {
            account: self.account().clone(),
            queue: self.name().to_owned(),
            permissions,
            policy: String::new(),
            terms: Terms::default(),
            delegated: None,
        }
    }
}

/// A token for a queue, not signed yet.
#[derive(Clone, Debug)]
#[must_use = "no token is made before `build`"]
pub struct QueueSasBuilder {
    account: Account,
    queue: String,
    permissions: Permissions,
    policy: String,
    terms: Terms,
    delegated: Option<UserDelegationKey>,
}

impl QueueSasBuilder {
    sas_terms!();
    sas_signer!();

    /// Signs the token.
    pub fn build(&self) -> Result<SasToken, Error> {
        let signer = Signer::of(&self.account, self.delegated.as_ref(), StorageService::Queue)?;
        let letters = LETTERS.check(self.permissions, &self.policy, &self.terms, &signer)?;
        let texts = self.terms.texts()?;
        let sas = QueueSas {
            version: signer.sas_version(SAS_VERSION),
            start: &texts.start,
            expiry: &texts.expiry,
            permissions: &letters,
            policy: &self.policy,
            addresses: &texts.addresses,
            protocol: texts.protocol,
            signature: "",
        };
        let token = match &signer {
            Signer::Account(account, key) => sas.token(account, &self.queue, key),
            Signer::User(user) => {
                let sas = QueueDelegationSas { queue: sas, key: user.texts(), delegate: [""; 2] };
                sas.token(&user.account, &self.queue, &user.value)
            }
        };
        signed(token)
    }
}
