//! The admin listener of this server: its address and its tokens.

use crate::address::{cannot_listen, resolve};
use crate::config::{Settings, TlsChoice};
use crate::options::{AdminChoice, ServeOptions, read_text};
use anyhow::{Context, Result};
use lazuli_admin::{Admin, AdminOptions, Metrics, Readiness, Tokens};
use lazuli_cli::failure::usage;
use lazuli_server::Tls;
use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The default address of the listener.
const DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), AdminChoice::PORT);

/// A listener that is bound but does not serve yet.
pub(crate) struct BoundAdmin {
    listener: TcpListener,
    /// HTTPS, with the certificate of the service.
    pub(crate) https: bool,
    /// Other machines can connect.
    is_open: bool,
    tokens: Arc<Tokens>,
}

/// Binds the address in `settings`. If the default port is taken, there is no listener.
pub(crate) async fn bind(settings: &Settings) -> Result<Option<BoundAdmin>> {
    let (host, port) = match &settings.options.admin {
        AdminChoice::Off => return Ok(None),
        AdminChoice::Auto => return Ok(bind_if_free(DEFAULT).map(BoundAdmin::on_loopback)),
        AdminChoice::At { host, port } => (host, *port),
    };
    let address = SocketAddr::new(resolve(host, "--admin").await?, port);
    let has_tls = settings.tls != TlsChoice::Off;
    let is_open = !address.ip().is_loopback();
    if is_open && !has_tls && !settings.options.admin_insecure {
        return Err(usage(
            format!("the admin listener on {address} would be open to the network without HTTPS"),
            "keep --admin on 127.0.0.1, turn on --tls, or accept the risk with --admin-insecure",
        ));
    }
    if is_open && !has_tls {
        tracing::warn!(%address, "THE ADMIN LISTENER IS OPEN TO THE NETWORK WITHOUT HTTPS");
    }
    let listener = TcpListener::bind(address)
        .map_err(|error| cannot_listen(address, error, "--admin", "--admin"))?;
    let tokens = Arc::default();
    Ok(Some(BoundAdmin { listener, https: is_open && has_tls, is_open, tokens }))
}

/// Two servers on one machine are common; the second runs without this listener.
fn bind_if_free(address: SocketAddr) -> Option<TcpListener> {
    match TcpListener::bind(address) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(
                %address,
                %error,
                "no admin listener; set another address with --admin, or use --admin off"
            );
            None
        }
    }
}

impl BoundAdmin {
    fn on_loopback(listener: TcpListener) -> Self {
        Self { listener, https: false, is_open: false, tokens: Arc::default() }
    }

    /// The tokens for `/metrics`; `None` on loopback, which needs no token.
    pub(crate) fn tokens(&self) -> Option<Arc<Tokens>> {
        self.is_open.then(|| self.tokens.clone())
    }

    /// Starts serving, with `watch` on the same thread.
    pub(crate) fn start(
        self,
        names: &[String],
        tls: Option<Arc<Tls>>,
        readiness: Arc<Readiness>,
        metrics: Arc<Metrics>,
        watch: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Admin> {
        let options = AdminOptions {
            names: names.to_vec(),
            tls: tls.filter(|_| self.https),
            tokens: self.tokens(),
            readiness,
            metrics,
        };
        Admin::start(self.listener, options, watch).context("start the admin listener")
    }
}

/// The tokens of the admin listener: the admin token, which is created at the first start, and the
/// token for metrics only, if given.
pub(crate) fn load_tokens(settings: &Settings, data: &Path) -> Result<Vec<String>> {
    let (admin, metrics) = given_tokens(&settings.options)?;
    let admin = match admin {
        Some(token) => token,
        None => kept_or_new_token(&token_file(&settings.options, data))?.trim().to_owned(),
    };
    Ok([Some(admin), metrics].into_iter().flatten().collect())
}

/// Where the admin token is.
pub(crate) fn token_file(options: &ServeOptions, data: &Path) -> PathBuf {
    options.admin_token_file.clone().unwrap_or_else(|| data.join("admin-token"))
}

/// The tokens that options name files of: the admin token, and the one for metrics only.
pub(crate) fn given_tokens(options: &ServeOptions) -> Result<(Option<String>, Option<String>)> {
    let read = |path: &Option<PathBuf>, flag: &str| {
        let Some(path) = path else { return Ok(None) };
        let text = read_text(path, flag)?;
        match text.trim() {
            "" => Err(usage(
                format!("{} holds no token", path.display()),
                format!("write a token into the file given with {flag}"),
            )),
            token => Ok(Some(token.to_owned())),
        }
    };
    let admin = read(&options.admin_token_file, "--admin-token-file")?;
    Ok((admin, read(&options.metrics_token_file, "--metrics-token-file")?))
}

/// The token in a file that only its owner can read.
fn kept_or_new_token(path: &Path) -> Result<String> {
    match std::fs::read_to_string(path) {
        Ok(token) => return Ok(token),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    }
    let token = Tokens::generate().context("generate an admin token")?;
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    written
        .and_then(|mut file| file.write_all(format!("{token}\n").as_bytes()))
        .with_context(|| format!("write {}", path.display()))?;
    tracing::info!(file = %path.display(), "generated an admin token");
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_default_gives_way_to_a_server_that_was_there_before() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let first = bind_if_free(any).unwrap();
        assert!(bind_if_free(first.local_addr().unwrap()).is_none());
    }

    #[test]
    fn a_token_is_made_once_for_the_owner_alone() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("admin-token");
        let first = kept_or_new_token(&path).unwrap();
        assert_eq!(kept_or_new_token(&path).unwrap().trim(), first);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
