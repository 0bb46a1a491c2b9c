//! The tokens of the Queue service.

use lazuli_wire::sas::{QueueDelegationSas, QueueSas, SasError};

/// A token of the Queue service, and the queue in the URL, which is part of the string to sign.
pub(crate) struct Token<'q> {
    pub(crate) queue: &'q str,
    pub(crate) sas: TokenKind<'q>,
}

pub(crate) enum TokenKind<'q> {
    Queue(QueueSas<'q>),
    UserDelegation(QueueDelegationSas<'q>),
}

impl Token<'_> {
    pub(crate) fn string_to_sign(&self, account: &str) -> Result<String, SasError> {
        match &self.sas {
            TokenKind::Queue(sas) => sas.string_to_sign(account, self.queue),
            TokenKind::UserDelegation(sas) => sas.string_to_sign(account, self.queue),
        }
    }
}
