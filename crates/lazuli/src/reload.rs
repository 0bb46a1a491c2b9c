//! What SIGHUP does: reloads accounts, certificate and tokens, and reopens the log file.

use crate::admin;
use crate::certificate;
use crate::config::{AccountsChoice, Settings};
use crate::logging::LogQueue;
use crate::memory;
use crate::notify::Notify;
use anyhow::Result;
use lazuli_admin::Tokens;
use lazuli_cli::failure::{log_line, with_hint};
use lazuli_model::{Clock, SystemClock};
use lazuli_server::{Accounts, Tls};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::Signal;

/// What is reloaded, and where it goes.
#[derive(Debug)]
pub(crate) struct Reload {
    /// The command line, which names the files.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) accounts: Arc<Accounts>,
    /// Whether accounts were given at the start.
    pub(crate) accounts_given: bool,
    pub(crate) tls: Option<Arc<Tls>>,
    /// The tokens of the admin listener, if it needs any.
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) log: LogQueue,
    pub(crate) notify: Arc<Notify>,
    /// Where a self-signed certificate is kept, and its names.
    pub(crate) data: PathBuf,
    pub(crate) names: Vec<String>,
}

impl Reload {
    /// Reloads everything at each signal. If anything cannot be read, nothing changes.
    pub(crate) async fn at_each(self, mut signal: Signal) {
        while signal.recv().await.is_some() {
            self.notify.reloading();
            self.log.reopen();
            // The files are small, and signals rare.
            match self.once() {
                Ok(accounts) => {
                    tracing::info!(accounts, "reloaded accounts, certificate and tokens")
                }
                Err(error) => tracing::error!(
                    error = log_line(&error),
                    "reload failed; accounts, certificate and tokens are unchanged"
                ),
            }
            self.notify.ready();
        }
    }

    /// Reads everything, then replaces it. Returns the number of accounts.
    fn once(&self) -> Result<usize> {
        let settings = Settings::load(&self.arguments, memory::cgroup_limit())?;
        if self.accounts_given && matches!(settings.accounts, AccountsChoice::WellKnown) {
            return Err(with_hint(
                "no accounts are configured any more",
                "restart to serve the well-known development account",
            ));
        }
        let accounts = settings.accounts.list()?;
        let count = accounts.len();
        let certificate =
            certificate::load(&settings.tls, &self.data, &self.names, SystemClock.now())?;
        let tokens = match &self.tokens {
            Some(_) => admin::load_tokens(&settings, &self.data)?,
            None => Vec::new(),
        };
        self.accounts.replace(accounts)?;
        if let Some(replaced) = &self.tokens {
            replaced.replace(tokens);
        }
        if let (Some(tls), Some(certificate)) = (&self.tls, certificate) {
            tls.replace(certificate);
        }
        Ok(count)
    }
}
