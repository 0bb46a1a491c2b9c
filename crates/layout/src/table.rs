//! The values around tables: catalog record, access policies, service properties, the next id, and
//! tombstones. Each starts with a version byte. Queues share all but the first.

use crate::codec::{Reader, Writer};
use crate::settings::TableSettings;
use crate::{CorruptRecord, TableId};
use lazuli_model::service_properties::{CorsRule, Logging, Metrics, Retention};
use lazuli_model::{AccessPolicies, AccessPolicy, ServiceProperties, TableName, Timestamp};

const VERSION: u8 = 1;

/// The version of a catalog record with settings.
const WITH_SETTINGS: u8 = 2;

/// The catalog record of a table. Written when the table is created, and again when its settings
/// change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogRecord {
    pub id: TableId,
    /// In the case given at creation.
    pub name: TableName,
    pub created: Timestamp,
    pub settings: TableSettings,
}

impl CatalogRecord {
    pub fn encode(&self) -> Vec<u8> {
        let has_settings = !self.settings.is_none();
        let mut out = if has_settings { Writer(vec![WITH_SETTINGS]) } else { begin() };
        out.u64(self.id.0);
        out.u64(self.created.ticks());
        if has_settings {
            self.settings.encode(&mut out);
        }
        out.0.extend_from_slice(self.name.as_str().as_bytes());
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let (mut reader, has_settings) = Self::reader(bytes)?;
        let id = TableId(reader.u64()?);
        let created = reader.timestamp()?;
        let settings = match has_settings {
            true => TableSettings::decode(&mut reader)?,
            false => TableSettings::default(),
        };
        let name = reader.rest()?;
        let name = TableName::parse_any(&name).map_err(|_| reader.corrupt())?;
        Ok(Self { id, name, created, settings })
    }

    /// Only the id and the settings, which are all that most operations need.
    pub fn decode_facts(bytes: &[u8]) -> Result<(TableId, Option<TableSettings>), CorruptRecord> {
        let (mut reader, has_settings) = Self::reader(bytes)?;
        let id = TableId(reader.u64()?);
        if !has_settings {
            return Ok((id, None));
        }
        reader.timestamp()?;
        Ok((id, Some(TableSettings::decode(&mut reader)?)))
    }

    /// Starts after the version, which says whether there are settings.
    fn reader(bytes: &[u8]) -> Result<(Reader<'_>, bool), CorruptRecord> {
        const WHAT: &str = "catalog record";
        match bytes.first() {
            Some(&WITH_SETTINGS) => Ok((Reader::new(WHAT, WITH_SETTINGS, bytes)?, true)),
            _ => Ok((Reader::new(WHAT, VERSION, bytes)?, false)),
        }
    }
}

/// The next table id to assign.
pub fn encode_next_table_id(next: TableId) -> Vec<u8> {
    let mut out = begin();
    out.u64(next.0);
    out.0
}

pub fn decode_next_table_id(bytes: &[u8]) -> Result<TableId, CorruptRecord> {
    let mut reader = Reader::new("next table id", VERSION, bytes)?;
    let next = TableId(reader.u64()?);
    reader.end()?;
    Ok(next)
}

/// The tombstone of a dropped table, or of dropped messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReclaimMark {
    pub dropped: Timestamp,
    /// Whether the space has been reclaimed once, on a store with many writers: the tombstone stays
    /// for a second pass, which finds what a slow commit wrote after the first.
    pub is_swept: bool,
}

/// The version of a [`ReclaimMark`] that is swept.
const SWEPT_VERSION: u8 = 2;

impl ReclaimMark {
    pub fn encode(self) -> Vec<u8> {
        let mut out = Writer(vec![if self.is_swept { SWEPT_VERSION } else { VERSION }]);
        out.u64(self.dropped.ticks());
        out.0
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptRecord> {
        let is_swept = bytes.first() == Some(&SWEPT_VERSION);
        let version = if is_swept { SWEPT_VERSION } else { VERSION };
        let mut reader = Reader::new("reclaim mark", version, bytes)?;
        let dropped = reader.timestamp()?;
        reader.end()?;
        Ok(Self { dropped, is_swept })
    }
}

/// The tombstone of what is dropped at `dropped`.
pub fn encode_reclaim(dropped: Timestamp) -> Vec<u8> {
    ReclaimMark { dropped, is_swept: false }.encode()
}

const POLICY_HAS_START: u8 = 1;
const POLICY_HAS_EXPIRY: u8 = 2;
const POLICY_HAS_PERMISSIONS: u8 = 4;

pub fn encode_access_policies(policies: &AccessPolicies) -> Vec<u8> {
    let mut out = begin();
    out.count(policies.iter().count());
    for policy in policies.iter() {
        out.text(&policy.id);
        let flag = |present: bool, flag: u8| if present { flag } else { 0 };
        out.u8(flag(policy.start.is_some(), POLICY_HAS_START)
            | flag(policy.expiry.is_some(), POLICY_HAS_EXPIRY)
            | flag(policy.permissions.is_some(), POLICY_HAS_PERMISSIONS));
        for time in [policy.start, policy.expiry].into_iter().flatten() {
            out.u64(time.ticks());
        }
        if let Some(letters) = &policy.permissions {
            out.text(letters);
        }
    }
    out.0
}

pub fn decode_access_policies(bytes: &[u8]) -> Result<AccessPolicies, CorruptRecord> {
    let mut reader = Reader::new("access policies", VERSION, bytes)?;
    let policies = reader.list(|reader| {
        let id = reader.text()?;
        let flags = reader.u8()?;
        if flags & !(POLICY_HAS_START | POLICY_HAS_EXPIRY | POLICY_HAS_PERMISSIONS) != 0 {
            return Err(reader.corrupt());
        }
        let has = |flag: u8| flags & flag != 0;
        Ok(AccessPolicy {
            id,
            start: has(POLICY_HAS_START).then(|| reader.timestamp()).transpose()?,
            expiry: has(POLICY_HAS_EXPIRY).then(|| reader.timestamp()).transpose()?,
            permissions: has(POLICY_HAS_PERMISSIONS).then(|| reader.text()).transpose()?,
        })
    })?;
    let policies = AccessPolicies::of_any(policies).map_err(|_| reader.corrupt())?;
    reader.end()?;
    Ok(policies)
}

const LOG_READ: u8 = 1;
const LOG_WRITE: u8 = 2;
const LOG_DELETE: u8 = 4;

pub fn encode_service_properties(properties: &ServiceProperties) -> Vec<u8> {
    let mut out = begin();
    let Logging { read, write, delete, retention } = properties.logging.clone();
    let flag = |on: bool, flag: u8| if on { flag } else { 0 };
    out.u8(flag(read, LOG_READ) | flag(write, LOG_WRITE) | flag(delete, LOG_DELETE));
    put_retention(&mut out, retention);
    for metrics in [&properties.hour_metrics, &properties.minute_metrics] {
        out.u8(metrics.enabled.into());
        out.u8(option_code(metrics.include_apis));
        put_retention(&mut out, metrics.retention);
    }
    out.count(properties.cors.len());
    for rule in &properties.cors {
        for list in [
            &rule.allowed_origins,
            &rule.allowed_methods,
            &rule.allowed_headers,
            &rule.exposed_headers,
        ] {
            out.count(list.len());
            list.iter().for_each(|text| out.text(text));
        }
        out.u32(rule.max_age_seconds);
    }
    out.0
}

pub fn decode_service_properties(bytes: &[u8]) -> Result<ServiceProperties, CorruptRecord> {
    let mut reader = Reader::new("service properties", VERSION, bytes)?;
    let flags = reader.u8()?;
    if flags & !(LOG_READ | LOG_WRITE | LOG_DELETE) != 0 {
        return Err(reader.corrupt());
    }
    let properties = ServiceProperties {
        logging: Logging {
            read: flags & LOG_READ != 0,
            write: flags & LOG_WRITE != 0,
            delete: flags & LOG_DELETE != 0,
            retention: retention(&mut reader)?,
        },
        hour_metrics: metrics(&mut reader)?,
        minute_metrics: metrics(&mut reader)?,
        cors: reader.list(cors_rule)?,
    };
    reader.end()?;
    Ok(properties)
}

fn begin() -> Writer {
    Writer(vec![VERSION])
}

fn put_retention(out: &mut Writer, Retention(days): Retention) {
    out.u8(days.is_some().into());
    out.u16(days.unwrap_or_default());
}

fn retention(reader: &mut Reader<'_>) -> Result<Retention, CorruptRecord> {
    match (reader.u8()?, reader.u16()?) {
        (0, 0) => Ok(Retention(None)),
        (1, days) => Ok(Retention(Some(days))),
        _ => Err(reader.corrupt()),
    }
}

fn metrics(reader: &mut Reader<'_>) -> Result<Metrics, CorruptRecord> {
    let enabled = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return Err(reader.corrupt()),
    };
    let include_apis = match reader.u8()? {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        _ => return Err(reader.corrupt()),
    };
    Ok(Metrics { enabled, include_apis, retention: retention(reader)? })
}

fn option_code(value: Option<bool>) -> u8 {
    match value {
        None => 0,
        Some(false) => 1,
        Some(true) => 2,
    }
}

fn cors_rule(reader: &mut Reader<'_>) -> Result<CorsRule, CorruptRecord> {
    let mut texts = || reader.list(Reader::text);
    Ok(CorsRule {
        allowed_origins: texts()?,
        allowed_methods: texts()?,
        allowed_headers: texts()?,
        exposed_headers: texts()?,
        max_age_seconds: reader.u32()?,
    })
}

#[cfg(test)]
mod tests;
