//! The context of a command that uses an account.

use crate::connect::Target;
use crate::interrupt::Interrupt;
use crate::output::Output;
use anyhow::Result;
use lazuli_client::{Account, Table};

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

    /// A table, if the name is valid. Makes no request.
    pub(crate) fn table(&self, name: &str) -> Result<Table> {
        Ok(self.account.tables().table(name)?)
    }
}
