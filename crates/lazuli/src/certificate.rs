//! The certificate for HTTPS: read from files, or generated once and kept in the data directory.
//!
//! ```text
//! tls/certificate.pem  what clients must trust
//! tls/key.pem          its private key, readable only by its owner
//! tls/about.txt        its names, and when it expires
//! ```

use crate::config::TlsChoice;
use anyhow::{Context, Result};
use lazuli_cli::failure::{chain, with_hint};
use lazuli_model::Timestamp;
use lazuli_server::{Certificate, CertificateError, SelfSigned};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A certificate that expires sooner than this is replaced.
const RENEW_SECONDS: u64 = 30 * 24 * 3600;

/// The certificate that `choice` asks for; `None` without HTTPS.
pub(crate) fn load(
    choice: &TlsChoice,
    data: &Path,
    names: &[String],
    now: Timestamp,
) -> Result<Option<Certificate>> {
    match choice {
        TlsChoice::Off => Ok(None),
        TlsChoice::SelfSigned => kept_or_new(&directory(data), names, now).map(Some),
        TlsChoice::Files { certificate, key } => from_files(certificate, key).map(Some),
    }
}

/// The certificate that can be used before this process holds the data directory, and may write to
/// it: the given one, or one that an earlier start generated.
pub(crate) fn load_kept(choice: &TlsChoice, data: &Path) -> Result<Option<Certificate>> {
    match choice {
        TlsChoice::Off => Ok(None),
        TlsChoice::SelfSigned => Ok(kept(&directory(data)).map(|(certificate, _)| certificate)),
        TlsChoice::Files { certificate, key } => from_files(certificate, key).map(Some),
    }
}

/// The file that clients must trust when the certificate is self-signed.
pub(crate) fn trust_file(data: &Path) -> PathBuf {
    directory(data).join(CERTIFICATE)
}

/// The names in a self-signed certificate: this machine's, and every name under `suffixes`.
pub(crate) fn names(host: &str, suffixes: &[String]) -> Vec<String> {
    let own = ["localhost", "127.0.0.1", "::1", "*.table.localhost", "*.queue.localhost"];
    let own = own.map(str::to_owned);
    let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
    let is_any = host.parse().is_ok_and(|address: std::net::IpAddr| address.is_unspecified());
    let suffixes = suffixes.iter().map(|suffix| format!("*.{suffix}"));
    let mut names: Vec<String> = own.into_iter().chain(suffixes).collect();
    if !is_any && !names.contains(&host) {
        names.push(host);
    }
    names
}

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";
const ABOUT: &str = "about.txt";

fn directory(data: &Path) -> PathBuf {
    data.join("tls")
}

fn from_files(certificate: &Path, key: &Path) -> Result<Certificate> {
    let read = |path: &Path, flag: &str| {
        fs::read(path).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => format!("check the path given with {flag}"),
                _ => "check that this user may read it".to_owned(),
            };
            with_hint(format!("cannot read {}: {error}", path.display()), advice)
        })
    };
    let pems = (read(certificate, "--tls-cert")?, read(key, "--tls-key")?);
    Certificate::from_pem(&pems.0, &pems.1).map_err(|error| {
        let (file, advice) = match &error {
            CertificateError::NoKey => {
                (key, "remove the password with: openssl pkey -in KEY -out NEW")
            }
            CertificateError::Mismatch => (
                key,
                "give the certificate's own key, and put the server's certificate first in its file",
            ),
            CertificateError::NoCertificate => {
                (certificate, "turn DER into PEM with: openssl x509 -in CERT -inform der -out NEW")
            }
            _ => (certificate, "check both files with: openssl x509 -text, openssl pkey -check"),
        };
        with_hint(format!("{}: {}", file.display(), chain(&error)), advice)
    })
}

/// The stored certificate if it is still usable, else a new one.
fn kept_or_new(directory: &Path, names: &[String], now: Timestamp) -> Result<Certificate> {
    let mut all = names.to_vec();
    if let Some((certificate, about)) = kept(directory) {
        let lasts = about.valid_until > now.plus_seconds(RENEW_SECONDS);
        if lasts && names.iter().all(|name| about.names.contains(name)) {
            return Ok(certificate);
        }
        all.extend(about.names.into_iter().filter(|name| !names.contains(name)));
    }
    let made = SelfSigned::generate(&all, now).context("generate a certificate")?;
    keep(directory, &made, &all)
        .with_context(|| format!("write the certificate to {}", directory.display()))?;
    tracing::info!(
        file = %directory.join(CERTIFICATE).display(),
        "generated a self-signed certificate; clients must trust this file"
    );
    Ok(Certificate::from_pem(made.certificate.as_bytes(), made.key.as_bytes())?)
}

/// The stored certificate, if its files are complete and match.
fn kept(directory: &Path) -> Option<(Certificate, About)> {
    let about = About::parse(&fs::read_to_string(directory.join(ABOUT)).ok()?)?;
    let pem = |name| fs::read(directory.join(name)).ok();
    let certificate = Certificate::from_pem(&pem(CERTIFICATE)?, &pem(KEY)?).ok()?;
    Some((certificate, about))
}

/// The description is written last: without it the other files are ignored.
fn keep(directory: &Path, made: &SelfSigned, names: &[String]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    remove(&directory.join(ABOUT))?;
    let about = About { names: names.to_vec(), valid_until: made.not_after };
    write(&directory.join(KEY), 0o600, &made.key)?;
    write(&directory.join(CERTIFICATE), 0o644, &made.certificate)?;
    write(&directory.join(ABOUT), 0o644, &about.text())
}

fn write(path: &Path, mode: u32, text: &str) -> io::Result<()> {
    // An existing file would keep its mode.
    remove(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What a stored certificate was generated for.
#[derive(Debug, PartialEq, Eq)]
struct About {
    names: Vec<String>,
    valid_until: Timestamp,
}

impl About {
    fn text(&self) -> String {
        let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
        let until = self.valid_until.text(&mut buffer);
        format!("valid until: {until}\nnames: {}\n", self.names.join(" "))
    }

    fn parse(text: &str) -> Option<Self> {
        let (until, names) = text.strip_prefix("valid until: ")?.split_once("\nnames: ")?;
        let names = names.split_whitespace().map(str::to_owned).collect();
        Some(Self { names, valid_until: Timestamp::parse(until)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const NOW: Timestamp = Timestamp::from_unix_seconds(1_800_000_000);
    const DAY: u64 = 24 * 3600;

    /// Loads a self-signed certificate and returns its text.
    #[track_caller]
    fn load_kept(data: &Path, names: &[&str], now: Timestamp) -> String {
        let names: Vec<String> = names.iter().copied().map(str::to_owned).collect();
        assert!(load(&TlsChoice::SelfSigned, data, &names, now).unwrap().is_some());
        fs::read_to_string(trust_file(data)).unwrap()
    }

    #[test]
    fn a_generated_certificate_is_used_again() {
        let data = tempfile::tempdir().unwrap();
        let first = load_kept(data.path(), &["localhost", "127.0.0.1"], NOW);
        let later = NOW.plus_seconds(700 * DAY);
        assert_eq!(load_kept(data.path(), &["127.0.0.1"], later), first);
    }

    #[test]
    fn a_certificate_that_does_not_serve_is_replaced() {
        let data = tempfile::tempdir().unwrap();
        let first = load_kept(data.path(), &["localhost"], NOW);
        let second = load_kept(data.path(), &["localhost"], NOW.plus_seconds(780 * DAY));
        assert_ne!(second, first, "it ends soon");
        let third = load_kept(data.path(), &["db.example.org"], NOW);
        assert_ne!(third, second, "another name");
        assert_eq!(load_kept(data.path(), &["localhost"], NOW), third, "names add up");
        fs::write(directory(data.path()).join(KEY), "").unwrap();
        assert_ne!(load_kept(data.path(), &["localhost"], NOW), third, "no key");
    }

    #[test]
    fn only_the_owner_reads_the_key() {
        let data = tempfile::tempdir().unwrap();
        load_kept(data.path(), &["localhost"], NOW);
        let key = fs::metadata(directory(data.path()).join(KEY)).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn names_are_this_machine_and_what_is_configured() {
        let own = ["localhost", "127.0.0.1", "::1", "*.table.localhost", "*.queue.localhost"];
        for host in ["127.0.0.1", "[::1]", "LOCALHOST", "0.0.0.0", "::"] {
            assert_eq!(names(host, &[]), own, "{host}");
        }
        let more = names("Db.example.org", &["table.example.org".to_owned()]);
        assert_eq!(more.get(5..).unwrap(), ["*.table.example.org", "db.example.org"]);
    }

    #[track_caller]
    fn check_files(certificate: &str, key: &str, problem: &str, advice: &str) {
        let scratch = tempfile::tempdir().unwrap();
        let made = SelfSigned::generate(&["localhost".to_owned()], NOW).unwrap();
        let other = SelfSigned::generate(&["localhost".to_owned()], NOW).unwrap();
        let path = |name: &str| scratch.path().join(name);
        fs::write(path("cert"), made.certificate).unwrap();
        fs::write(path("key"), made.key).unwrap();
        fs::write(path("other"), other.key).unwrap();
        let choice = TlsChoice::Files { certificate: path(certificate), key: path(key) };
        let outcome = load(&choice, scratch.path(), &[], NOW);
        let Err(error) = outcome else {
            assert_eq!(problem, "");
            return;
        };
        let hint = error.downcast_ref::<lazuli_cli::failure::Hint>().unwrap();
        assert!(hint.problem.contains(problem), "{}", hint.problem);
        assert!(hint.advice.contains(advice), "{}", hint.advice);
    }

    #[test]
    fn given_files_are_read_or_explained() {
        check_files("cert", "key", "", "");
        check_files("none", "key", "cannot read", "--tls-cert");
        check_files("cert", "none", "cannot read", "--tls-key");
        check_files("cert", "other", "does not match the certificate", "the certificate's own key");
        check_files("cert", "cert", "no private key", "openssl pkey");
        check_files("key", "key", "no certificate", "openssl x509");
    }
}
