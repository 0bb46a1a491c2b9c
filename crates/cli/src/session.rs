//! The context of a command that uses an account.

use crate::connect::Target;
use crate::interrupt::Interrupt;
use crate::output::Output;
use anyhow::Result;
use lazuli_client::{Account, Table};
use lazuli_wire::connection_string::StorageService;

pub(crate) struct Session {
    pub(crate) account: Account,
    pub(crate) out: Output,
    pub(crate) interrupt: Interrupt,
}

impl Session {
    /// Finds the account. Makes no request.
    pub(crate) fn open(target: &Target, out: Output, interrupt: Interrupt) -> Result<Self> {
        Ok(Self { account: target.account(&out)?, out, interrupt })
    }

    /// The address of a service, as far as the account names one.
    pub(crate) fn endpoint(&self, service: StorageService) -> &str {
        let endpoint = match service {
            StorageService::Table => self.account.table_endpoint(),
            StorageService::Queue => self.account.queue_endpoint(),
            StorageService::Blob => self.account.blob_endpoint(),
        };
        endpoint.unwrap_or_default()
    }

    /// A table, if the name is valid. Makes no request.
    pub(crate) fn table(&self, name: &str) -> Result<Table> {
        Ok(self.account.tables().table(name)?)
    }
}
