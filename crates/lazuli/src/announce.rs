//! What the server prints and writes at start-up: the greeting, the port file, the log line `started`.

use crate::address::reachable;
use crate::certificate;
use crate::config::{AccountsChoice, Settings, TlsChoice};
use crate::engine_choice::EngineChoice;
use crate::memory;
use crate::options::ServiceName;
use anyhow::Result;
use lazuli_cli::failure::{usage, with_hint};
use lazuli_server::{WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The commit that the program was built from, if the build sets it.
pub(crate) const REVISION: &str = match option_env!("LAZULI_REVISION") {
    Some(revision) => revision,
    None => "unknown",
};

/// A server that accepts requests.
pub(crate) struct Started<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) data: &'a Path,
    /// The address of each service.
    pub(crate) services: Vec<(ServiceName, SocketAddr)>,
    /// The address of the admin listener, and whether it speaks HTTPS.
    pub(crate) admin: Option<(SocketAddr, bool)>,
    /// Where the admin token is, if the listener needs one.
    pub(crate) token_file: Option<PathBuf>,
    /// How long the store took to open.
    pub(crate) recovery: Duration,
}

impl Started<'_> {
    /// Writes the port file, the greeting and the log line.
    pub(crate) fn announce(&self) -> Result<()> {
        if let Some(file) = &self.settings.options.port_file {
            write_whole(file, &self.port_file())
                .map_err(|error| with_hint(unwritable(file, &error), PORT_FILE_ADVICE))?;
        }
        let well_known = matches!(self.settings.accounts, AccountsChoice::WellKnown);
        if well_known && self.services.iter().any(|(_, at)| !at.ip().is_loopback()) {
            tracing::warn!(
                "the key of {WELL_KNOWN_ACCOUNT} is public, and this server is open to the network; \
                 configure your own accounts"
            );
        }
        self.log();
        if !self.settings.options.silent {
            // The server is useful even if nobody reads this.
            let _ = io::stdout().write_all(self.greeting().as_bytes());
        }
        Ok(())
    }

    fn log(&self) {
        let options = &self.settings.options;
        let accounts = match &self.settings.accounts {
            AccountsChoice::Given(accounts) => accounts.len(),
            AccountsChoice::WellKnown => 1,
        };
        let shared_mib = match self.settings.engine {
            EngineChoice::Local => None,
            _ => Some(options.engine.engine_chunks_mib.get()),
        };
        tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            revision = REVISION,
            engine = self.settings.engine.name(),
            data = self.place(),
            data_format = self.settings.engine.format(),
            durability = %options.durability,
            recovery_ms = u64::try_from(self.recovery.as_millis()).unwrap_or(u64::MAX),
            addresses = self.addresses().map(|(_, url)| url).collect::<Vec<_>>().join(" "),
            accounts,
            tls = self.settings.tls != TlsChoice::Off,
            memory_bound_mib = memory::bound_mib(&options.bounds, shared_mib),
            profile = %options.profile,
            extensions = %options.extensions,
            pid = std::process::id(),
            "started"
        );
    }

    /// Where the data is.
    fn place(&self) -> String {
        match &self.settings.engine {
            EngineChoice::Local => self.data.display().to_string(),
            shared => shared.to_string(),
        }
    }

    /// The URL of each listener, by name.
    fn addresses(&self) -> impl Iterator<Item = (&'static str, String)> {
        let admin = self.admin.map(|(address, https)| ("admin", url(https, address)));
        self.endpoints().map(|(name, url)| (name.as_str(), url)).chain(admin)
    }

    fn endpoints(&self) -> impl Iterator<Item = (ServiceName, String)> {
        let https = self.settings.tls != TlsChoice::Off;
        self.services.iter().map(move |(name, address)| (*name, url(https, *address)))
    }

    /// `{"table":"http://127.0.0.1:10002","queue":"http://127.0.0.1:10001","admin":"http://127.0.0.1:10003"}`
    fn port_file(&self) -> String {
        let entries = self.addresses().map(|(name, url)| format!("\"{name}\":\"{url}\""));
        format!("{{{}}}\n", entries.collect::<Vec<_>>().join(","))
    }

    /// What a person sees who starts the server on a terminal.
    fn greeting(&self) -> String {
        let Self { settings, data, .. } = self;
        let options = &settings.options;
        let mut text = format!("lazuli {}\n", env!("CARGO_PKG_VERSION"));
        for (name, endpoint) in self.endpoints() {
            text += &format!("  {:<8} {endpoint}\n", format!("{}s", name.as_str()));
        }
        if let Some((address, https)) = self.admin {
            text += &format!("  admin    {}\n", url(https, address));
        }
        if let Some(file) = &self.token_file {
            text += &format!("  token    {} (for the metrics)\n", file.display());
        }
        text += &match (&settings.engine, options.in_memory) {
            (EngineChoice::Local, true) => "  data     nowhere (--in-memory)\n".to_owned(),
            (EngineChoice::Local, false) => {
                format!("  data     {} (durability: {})\n", data.display(), options.durability)
            }
            (shared, _) => format!("  data     {shared}\n"),
        };
        if settings.tls == TlsChoice::SelfSigned {
            text += &format!("  trust    {}\n", certificate::trust_file(data).display());
        }
        text += &match &settings.accounts {
            AccountsChoice::Given(accounts) => {
                let names: Vec<_> = accounts.iter().map(|account| account.name.as_str()).collect();
                format!("  accounts {}\n", names.join(", "))
            }
            AccountsChoice::WellKnown => {
                let scheme = if settings.tls == TlsChoice::Off { "http" } else { "https" };
                let endpoints = self.endpoints().map(|(name, endpoint)| {
                    let name = match name {
                        ServiceName::Table => "TableEndpoint",
                        ServiceName::Queue => "QueueEndpoint",
                    };
                    format!("{name}={endpoint}/{WELL_KNOWN_ACCOUNT};")
                });
                format!(
                    "\nconnection string:\n\
                     DefaultEndpointsProtocol={scheme};AccountName={WELL_KNOWN_ACCOUNT};\
                     AccountKey={WELL_KNOWN_KEY};{}\n",
                    endpoints.collect::<String>()
                )
            }
        };
        text
    }
}

fn url(https: bool, address: SocketAddr) -> String {
    format!("{}://{}", if https { "https" } else { "http" }, reachable(address))
}

const PORT_FILE_ADVICE: &str =
    "check that the directory given with --port-file exists and that this user may write there";

fn unwritable(file: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", file.display())
}

/// Whether the port file can be written once the server accepts requests; leaves nothing there. The
/// data directory may be created until then.
pub(crate) fn check_port_file(file: &Path, data: &Path) -> Result<()> {
    let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
    if directory == Some(data) && !data.exists() {
        return Ok(());
    }
    let probe = match file.is_dir() {
        true => Err(io::ErrorKind::IsADirectory.into()),
        false => tempfile::tempfile_in(directory.unwrap_or(Path::new("."))),
    };
    probe.map(drop).map_err(|error| usage(unwritable(file, &error), PORT_FILE_ADVICE))
}

/// Writes the file atomically: a reader sees all of it or nothing.
fn write_whole(file: &Path, text: &str) -> io::Result<()> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    std::fs::write(&part, text)?;
    std::fs::rename(&part, file)
}
