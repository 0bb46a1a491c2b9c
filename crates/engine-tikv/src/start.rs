//! Opens a cluster for a server: waits for it, checks that it is usable, and claims its keys.

use crate::engine::{TikvEngine, TikvOptions};
use crate::patience::ClientError;
use crate::read::{CHUNK_BYTES_MAX, RangeRead};
use crate::timestamp::Timestamp;
use bytes::Bytes;
use lazuli_engine::{
    Check, Commit, CommitError, Direction, Engine, EngineError, Expect, Key, KeyRange, Revision,
    Write,
};

/// The key of the format record. No other key begins with `L` and a zero byte.
pub(crate) const FORMAT_KEY: &[u8] = b"L\0format";
/// Prefix of the key that is written and deleted at every start.
const PROBE_PREFIX: &[u8] = b"L\0probe";
/// The format that this version reads and writes. Raise it when older gateways must no longer use
/// the cluster.
pub const FORMAT_VERSION: u32 = 1;

/// How long a server waits for the cluster when it starts.
const CONNECT_MS_MAX: u64 = 30_000;
const VERSION_MIN: (u32, u32) = (6, 5);
const REPLICAS_MIN: u32 = 3;
const TICKS_PER_MS: u64 = 10_000;
const SKEW_WARN_MS: u64 = 5_000;
const SKEW_MAX_MS: u64 = 15 * 60 * 1000;

/// An engine that is ready, and what the operator should know.
pub struct Opened {
    pub engine: TikvEngine,
    /// The id of the store, from its format record.
    pub cluster: String,
    /// The time by the cluster's clock, which stamps the revisions.
    pub clock: Revision,
    pub warnings: Vec<String>,
}

/// Why a cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file that the address names for TLS. Nothing was sent.
    #[error("cannot use {0}")]
    Files(String),
    #[error("no answer from {address} within 30 s: {reason}")]
    Away { address: String, reason: String },
    #[error("store {address} runs TiKV {version}; {}.{} or newer is needed", VERSION_MIN.0, VERSION_MIN.1)]
    OldVersion { address: String, version: String },
    #[error("the cluster's clock and this machine's are {minutes} minutes apart")]
    Clock { minutes: u64 },
    #[error("the cluster holds format {found}; this version knows formats up to {FORMAT_VERSION}")]
    NewerFormat { found: u32 },
    #[error("the cluster holds keys that begin with 'L' and are not Lazuli's, such as {key}")]
    ForeignData { key: String },
    #[error("the cluster holds no data of lazuli")]
    Empty,
    #[error("the cluster does not behave like TiKV: {0}")]
    Probe(String),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl OpenError {
    /// What the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Files(_) => {
                "ca, cert and key of the address name PEM files that this process can read"
            }
            Self::Away { .. } => {
                "check that the placement drivers run and that the address names them, as in \
                 tikv://pd1:2379,pd2:2379"
            }
            Self::OldVersion { .. } => "upgrade the cluster",
            Self::Clock { .. } => "set the clocks by NTP: signatures and expiry depend on them",
            Self::NewerFormat { .. } => "use the newer lazuli version that wrote it",
            Self::ForeignData { .. } => {
                "use another cluster: Lazuli needs the keys that begin with L"
            }
            Self::Empty => "check the address; lazuli serve --engine creates the format record",
            Self::Probe(_) => "check that the address is that of a TiKV cluster",
            Self::Engine(_) => "check that all stores of the cluster run",
        }
    }
}

impl From<ClientError> for OpenError {
    fn from(error: ClientError) -> Self {
        Self::Engine(error.into())
    }
}

impl TikvEngine {
    /// Waits up to 30 s for the cluster and checks it. `now` is this machine's time.
    pub async fn open(
        options: TikvOptions,
        now: impl Fn() -> Revision,
    ) -> Result<Opened, OpenError> {
        let engine = Self::new(&options)?;
        let at = engine.connect(&options.address.to_string(), options.pace.now_ms()).await?;
        let mut warnings = Vec::new();
        warnings.extend(check_clock(at.revision(), now())?);
        warnings.extend(engine.check_stores().await?);
        let cluster = match options.creates {
            true => engine.claim(&options.created_by).await?,
            false => engine.format().await?.ok_or(OpenError::Empty)?,
        };
        if options.creates {
            engine.probe(at).await?;
        }
        Ok(Opened { engine, cluster, clock: at.revision(), warnings })
    }

    /// A first timestamp. Logs every failed try.
    async fn connect(&self, address: &str, started_ms: u64) -> Result<Timestamp, OpenError> {
        let cluster = &self.shared.cluster;
        loop {
            let error = match cluster.oracle.now(&mut cluster.patience()).await {
                Ok(at) => return Ok(at),
                Err(ClientError::Unavailable(_)) => self.why_away().await,
                Err(error) => return Err(error.into()),
            };
            if cluster.pace.now_ms().saturating_sub(started_ms) >= CONNECT_MS_MAX {
                return Err(OpenError::Away { address: address.to_owned(), reason: error });
            }
            tracing::warn!(address, error, "the TiKV cluster does not answer; trying again");
        }
    }

    /// The error of the driver's connection; the timestamp's error says only that none came.
    async fn why_away(&self) -> String {
        let cluster = &self.shared.cluster;
        let mut patience = crate::patience::Patience::new(&cluster.pace, &cluster.meter, 0);
        match cluster.driver.stores(&mut patience).await {
            Ok(_) => "no timestamps".to_owned(),
            Err(ClientError::Unavailable(reason)) => reason,
            Err(error) => error.to_string(),
        }
    }

    async fn check_stores(&self) -> Result<Vec<String>, OpenError> {
        let cluster = &self.shared.cluster;
        let mut warnings = Vec::new();
        for store in cluster.driver.stores(&mut cluster.patience()).await? {
            match version(&store.version) {
                Some(version) if version < VERSION_MIN => {
                    let (address, version) = (store.address, store.version);
                    return Err(OpenError::OldVersion { address, version });
                }
                Some(_) => {}
                None => warnings.push(format!("store {} tells no version", store.address)),
            }
        }
        let replicas = cluster.driver.replicas(&mut cluster.patience()).await?;
        if replicas < REPLICAS_MIN {
            warnings.push(format!(
                "the cluster keeps {replicas} replicas of each range; with fewer than \
                 {REPLICAS_MIN} a lost machine may lose acknowledged writes"
            ));
        }
        Ok(warnings)
    }

    /// Reads the format record, or writes it into a cluster that has no keys of ours.
    async fn claim(&self, created_by: &str) -> Result<String, OpenError> {
        let key = Key::from(FORMAT_KEY.to_vec());
        loop {
            if let Some(cluster) = self.format().await? {
                return Ok(cluster);
            }
            if let Some(foreign) = self.any_key().await? {
                return Err(OpenError::ForeignData { key: foreign });
            }
            let pace = &self.shared.cluster.pace;
            let id = format!("{:016x}{:016x}", pace.random(), pace.random());
            let record = format!("{FORMAT_VERSION} {id} {created_by}");
            let absent = Check { key: key.clone(), expect: Expect::Absent };
            let write = Write::Put(key.clone(), record.into());
            let commit = Commit { checks: vec![absent], ..Commit::new(Revision(0), vec![write]) };
            match self.commit(commit).await {
                // Another process may have been faster: its record is read like any other.
                Ok(_) | Err(CommitError::CheckFailed { .. } | CommitError::Conflict) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// The cluster's id in the format record, if there is one.
    async fn format(&self) -> Result<Option<String>, OpenError> {
        let key = Key::from(FORMAT_KEY.to_vec());
        let found = self.read(std::slice::from_ref(&key)).await?.pop().flatten();
        found.map(|found| check_format(&found.value)).transpose()
    }

    /// A key that begins with `L` and is not a probe.
    async fn any_key(&self) -> Result<Option<String>, OpenError> {
        let cluster = &self.shared.cluster;
        let mut patience = cluster.patience();
        let at = cluster.oracle.now(&mut patience).await?;
        let mut left = Some(KeyRange::prefix(b"L"));
        while let Some(range) = left {
            let read = RangeRead { range, direction: Direction::Forward, at, keys_only: true };
            let chunk = cluster.scan(&read, 1, CHUNK_BYTES_MAX, &mut patience).await?;
            let is_foreign = |(key, _): &&(Bytes, Bytes)| {
                !key.starts_with(PROBE_PREFIX) && key.as_ref() != FORMAT_KEY
            };
            if let Some((key, _)) = chunk.entries.iter().find(is_foreign) {
                return Ok(Some(format!("'{}'", key.escape_ascii())));
            }
            left = chunk.rest;
        }
        Ok(None)
    }

    /// A put, a get, a conflict and a delete (K-8.4).
    async fn probe(&self, at: Timestamp) -> Result<(), OpenError> {
        let number = self.shared.cluster.pace.random() ^ at.0;
        let key = Key::from([PROBE_PREFIX, &number.to_be_bytes()].concat());
        let absent = Check { key: key.clone(), expect: Expect::Absent };
        let insert = || Commit {
            checks: vec![absent.clone()],
            ..Commit::new(Revision(0), vec![Write::Put(key.clone(), "probe".into())])
        };
        let strange = |what: &str| OpenError::Probe(what.to_owned());
        let revision = self.commit(insert()).await.map_err(failed)?;
        let found = self.read(std::slice::from_ref(&key)).await?.pop().flatten();
        if found.map(|found| found.revision) != Some(revision) {
            return Err(strange("a value that was written is not read"));
        }
        match self.commit(insert()).await {
            Err(CommitError::CheckFailed { index: 0, found }) if found == Some(revision) => {}
            _ => return Err(strange("a second insert of a key is not refused")),
        }
        let delete = Commit::new(Revision(0), vec![Write::Delete(key.clone())]);
        let deleted = self.commit(delete).await.map_err(failed)?;
        if deleted <= revision {
            return Err(strange("revisions do not increase"));
        }
        Ok(())
    }
}

fn failed(error: CommitError) -> OpenError {
    match error {
        CommitError::Engine(error) => error.into(),
        other => OpenError::Probe(other.to_string()),
    }
}

/// The format record: number, the cluster's id, and what created it.
fn check_format(record: &[u8]) -> Result<String, OpenError> {
    let mut words = std::str::from_utf8(record).unwrap_or_default().split(' ');
    let number = words.next().and_then(|number| number.parse().ok());
    let found: u32 = number.ok_or_else(|| EngineError::Corrupt("the format record".to_owned()))?;
    if found > FORMAT_VERSION {
        return Err(OpenError::NewerFormat { found });
    }
    Ok(words.next().unwrap_or_default().to_owned())
}

/// Warns about differing clocks, because signatures and expiry use this machine's (K-8.5).
fn check_clock(cluster: Revision, here: Revision) -> Result<Option<String>, OpenError> {
    let skew = cluster.0.abs_diff(here.0) / TICKS_PER_MS;
    if skew > SKEW_MAX_MS {
        return Err(OpenError::Clock { minutes: skew / 60_000 });
    }
    let warning = || {
        let seconds = skew / 1000;
        format!("the cluster's clock and this machine's are {seconds} s apart; set them by NTP")
    };
    Ok((skew > SKEW_WARN_MS).then(warning))
}

/// Major and minor number of `8.5.0` or `v8.5.0-alpha`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim_start_matches('v').split(['.', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(version("8.5.0"), Some((8, 5)));
        assert_eq!(version("v6.10.1-alpha"), Some((6, 10)));
        assert_eq!(version(""), None);
        assert!(
            version("6.10.0").unwrap() > VERSION_MIN && version("6.4.9").unwrap() < VERSION_MIN
        );
    }

    /// K-8.5.
    #[test]
    fn clocks_may_differ_a_little() {
        let check = |cluster_ms: u64, here_ms: u64| {
            check_clock(Revision(cluster_ms * TICKS_PER_MS), Revision(here_ms * TICKS_PER_MS))
        };
        assert!(matches!(check(1_000_000, 1_004_000), Ok(None)));
        assert!(matches!(check(1_000_000, 994_000), Ok(Some(_))));
        assert!(matches!(check(0, 16 * 60_000), Err(OpenError::Clock { minutes: 16 })));
    }

    /// K-8.2.
    #[test]
    fn newer_and_foreign_format_records_are_refused() {
        assert_eq!(check_format(b"1 abc lazuli 0.1.0").unwrap(), "abc");
        assert!(matches!(check_format(b"2 abc"), Err(OpenError::NewerFormat { found: 2 })));
        assert!(matches!(check_format(b"x"), Err(OpenError::Engine(EngineError::Corrupt(_)))));
    }
}
