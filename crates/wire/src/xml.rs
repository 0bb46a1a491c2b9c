//! The XML documents of the services: access policies, service properties, statistics; messages and
//! lists of queues; lists of blobs.
//!
//! We write what the recorded services write, including the byte-order mark (T-9.1, T-9.2, Q-2.10).
//! We accept elements in any order, with any declaration or none (T-9.3, Q-6.1).

mod blob;
mod fault;
mod message;
mod queue;
mod queue_answer;
mod tree;
mod walk;
mod write;

pub use blob::{
    AnsweredBlob, AnsweredContainer, BlobPage, ContainerPage, read_blobs, read_containers,
    write_block_list,
};
pub use fault::{XmlError, XmlFault};
pub use message::read_message_text;
pub use queue::{ListedMessage, MessageForm, QueueListing, write_messages, write_queues};
pub use queue_answer::{
    AnsweredMessage, AnsweredQueue, QueuePage, read_messages, read_queues, write_message_text,
};
pub(crate) use write::{BYTE_ORDER_MARK, leaf as write_leaf, write_text};
pub use write::{
    is_storable, write_key_info, write_service_properties, write_service_properties_patch,
    write_service_stats, write_signed_identifiers, write_user_delegation_key,
};

use crate::version::ApiVersion;
use fault::Fault;
use lazuli_model::access_policy::AccessPolicyError;
use lazuli_model::limits::ACCESS_POLICY_ID_CHARS_MAX;
use lazuli_model::service_properties::{CorsRule, Logging, Metrics, Retention};
use lazuli_model::{AccessPolicies, AccessPolicy, ServicePropertiesPatch, Timestamp};
use tree::Element;

/// Characters of one origin or header in a CORS rule (T-9.30); likewise the next four.
const CORS_ITEM_CHARS_MAX: usize = 256;
/// From the tests of the .NET and Java clients.
const CORS_ORIGINS_MAX: usize = 64;
const CORS_LITERAL_HEADERS_MAX: usize = 64;
const CORS_PREFIXED_HEADERS_MAX: usize = 2;
const CORS_RULES_BYTES_MAX: usize = 2 * 1024;
/// Days of a retention policy (T-9.8, Q-9.5).
const RETENTION_DAYS_MAX: u16 = 365;
/// Methods that a CORS rule may allow (T-9.29). The tests of the .NET and Java clients set the last
/// two, which are undocumented.
const CORS_METHODS: [&str; 10] =
    ["DELETE", "GET", "HEAD", "MERGE", "PATCH", "POST", "OPTIONS", "PUT", "TRACE", "CONNECT"];

/// The replication status of the secondary location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeoReplication {
    Live { last_sync: Timestamp },
    Bootstrap,
    Unavailable,
}

/// Reads the access policies of a table. An empty body clears them, as an empty list does (T-9.19).
pub fn read_signed_identifiers(document: &[u8]) -> Result<AccessPolicies, XmlFault> {
    read_policies(document, AccessPolicies::new)
}

/// Reads the access policies of a queue.
pub fn read_queue_policies(document: &[u8]) -> Result<AccessPolicies, XmlFault> {
    read_policies(document, AccessPolicies::of_queue)
}

/// Reads service properties: the sections to change (T-9.7).
///
/// Before 2013-08-15 there are two, and both are required (T-9.14).
pub fn read_service_properties(
    document: &[u8],
    version: ApiVersion,
) -> Result<ServicePropertiesPatch, XmlFault> {
    read_properties(document, version).map_err(|fault| fault.locate(document))
}

/// Reads service statistics.
pub fn read_service_stats(document: &[u8]) -> Result<GeoReplication, XmlFault> {
    read_stats(document).map_err(|fault| fault.locate(document))
}

/// Reads a request for a user delegation key: an optional start and an expiry.
pub fn read_key_info(document: &[u8]) -> Result<(Option<Timestamp>, Timestamp), XmlFault> {
    let read = || {
        let root = Element::parse(document, "KeyInfo")?;
        root.expect_children(&["Start", "Expiry"])?;
        let time = |text: &str| Timestamp::parse(text).ok_or(XmlError::InvalidValue);
        let start = root.child_text("Start").map(time).transpose()?;
        Ok((start, time(root.required("Expiry")?.text())?))
    };
    read().map_err(|fault: Fault| fault.locate(document))
}

/// A user delegation key as the service issues it. It is a secret, so `Debug` shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct AnsweredUserDelegationKey {
    pub object_id: String,
    pub tenant_id: String,
    pub start: String,
    pub expiry: String,
    pub service: String,
    pub version: String,
    /// The key itself, in base64.
    pub value: String,
}

impl std::fmt::Debug for AnsweredUserDelegationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AnsweredUserDelegationKey(..)")
    }
}

/// Reads the response to Get User Delegation Key.
pub fn read_user_delegation_key(document: &[u8]) -> Result<AnsweredUserDelegationKey, XmlFault> {
    let read = || {
        let root = Element::parse_answer(document, "UserDelegationKey")?;
        let text =
            |name| -> Result<String, XmlError> { Ok(root.required(name)?.text().to_owned()) };
        Ok(AnsweredUserDelegationKey {
            object_id: text("SignedOid")?,
            tenant_id: text("SignedTid")?,
            start: text("SignedStart")?,
            expiry: text("SignedExpiry")?,
            service: text("SignedService")?,
            version: text("SignedVersion")?,
            value: text("Value")?,
        })
    };
    read().map_err(|fault: Fault| fault.locate(document))
}

/// The content of an error document.
pub(crate) struct ErrorElements {
    pub(crate) code: String,
    pub(crate) message: String,
    /// The other elements: name and text.
    pub(crate) others: Vec<(String, String)>,
}

/// Reads an error; `None` for any other document.
pub(crate) fn read_error(document: &[u8]) -> Option<ErrorElements> {
    let (root, code, message) = match Element::parse(document, "error") {
        Ok(root) => (root, "code", "message"),
        Err(_) => (Element::parse(document, "Error").ok()?, "Code", "Message"),
    };
    let text = |name| root.child_text(name).unwrap_or_default().to_owned();
    let others = root.children.iter().filter(|child| !child.is(code) && !child.is(message));
    let others = others.map(|child| (child.name().to_owned(), child.text().to_owned())).collect();
    Some(ErrorElements { code: text(code), message: text(message), others })
}

fn read_policies(
    document: &[u8],
    check: fn(Vec<AccessPolicy>) -> Result<AccessPolicies, AccessPolicyError>,
) -> Result<AccessPolicies, XmlFault> {
    if document.is_empty() {
        return Ok(AccessPolicies::default());
    }
    let read = || {
        let root = Element::parse(document, "SignedIdentifiers")?;
        root.children.iter().map(read_signed_identifier).collect::<Result<Vec<_>, Fault>>()
    };
    let policies = read().map_err(|fault| fault.locate(document))?;
    check(policies).map_err(|_| XmlError::OutOfRange.into())
}

fn read_properties(document: &[u8], version: ApiVersion) -> Result<ServicePropertiesPatch, Fault> {
    let root = Element::parse(document, "StorageServiceProperties")?;
    if root.is_self_closing {
        return Err(Fault::at(XmlError::EmptyRoot, root.end));
    }
    let patch = if version.has_partial_service_properties() {
        root.expect_children(&["Logging", "HourMetrics", "MinuteMetrics", "Cors"])?;
        ServicePropertiesPatch {
            logging: root.child("Logging").map(read_logging).transpose()?,
            hour_metrics: root.child("HourMetrics").map(read_metrics).transpose()?,
            minute_metrics: root.child("MinuteMetrics").map(read_metrics).transpose()?,
            cors: root.child("Cors").map(read_cors).transpose()?,
        }
    } else {
        root.expect_children(&["Logging", "Metrics"])?;
        ServicePropertiesPatch {
            logging: Some(read_logging(root.required("Logging")?)?),
            hour_metrics: Some(read_metrics(root.required("Metrics")?)?),
            ..ServicePropertiesPatch::default()
        }
    };
    patch.check().map_err(|_| XmlError::OutOfRange)?;
    Ok(patch)
}

fn read_stats(document: &[u8]) -> Result<GeoReplication, Fault> {
    let root = Element::parse(document, "StorageServiceStats")?;
    let replication = root.required("GeoReplication")?;
    match replication.required("Status")?.text() {
        "live" => {
            let text = replication.required("LastSyncTime")?.text();
            let last_sync = Timestamp::parse_rfc1123(text).ok_or(XmlError::InvalidValue)?;
            Ok(GeoReplication::Live { last_sync })
        }
        "bootstrap" => Ok(GeoReplication::Bootstrap),
        "unavailable" => Ok(GeoReplication::Unavailable),
        _ => Err(XmlError::InvalidValue.into()),
    }
}

/// Every part except the id may be missing, or present and empty (T-9.21, Q-10.3).
fn read_signed_identifier(element: &Element) -> Result<AccessPolicy, Fault> {
    if !element.is("SignedIdentifier") {
        return Err(XmlError::UnexpectedNode.into());
    }
    element.expect_children(&["Id", "AccessPolicy"])?;
    let none = Element::default();
    let policy = element.child("AccessPolicy").unwrap_or(&none);
    policy.expect_children(&["Start", "Expiry", "Permission"])?;
    let time = |name| match policy.child_text(name) {
        Some(text) => Timestamp::parse(text).map(Some).ok_or(XmlError::InvalidValue),
        None => Ok(None),
    };
    let id = element.required("Id")?;
    if !(1..=ACCESS_POLICY_ID_CHARS_MAX).contains(&id.text().chars().count()) {
        return Err(Fault::at(XmlError::PolicyId, id.end));
    }
    Ok(AccessPolicy {
        id: id.text().to_owned(),
        start: time("Start")?,
        expiry: time("Expiry")?,
        permissions: policy.child_text("Permission").map(str::to_owned),
    })
}

fn read_logging(element: &Element) -> Result<Logging, Fault> {
    element.expect_children(&["Version", "Delete", "Read", "Write", "RetentionPolicy"])?;
    check_version(element)?;
    Ok(Logging {
        read: boolean(element, "Read")?,
        write: boolean(element, "Write")?,
        delete: boolean(element, "Delete")?,
        retention: read_retention(element)?,
    })
}

/// `IncludeAPIs` is required while metrics are enabled and ignored otherwise (T-9.9, T-9.10).
fn read_metrics(element: &Element) -> Result<Metrics, Fault> {
    element.expect_children(&["Version", "Enabled", "IncludeAPIs", "RetentionPolicy"])?;
    check_version(element)?;
    let enabled = boolean(element, "Enabled")?;
    let include_apis = enabled.then(|| boolean(element, "IncludeAPIs")).transpose()?;
    Ok(Metrics { enabled, include_apis, retention: read_retention(element)? })
}

/// `Days` is required while retention is enabled and refused otherwise (T-9.9a, T-9.10).
fn read_retention(section: &Element) -> Result<Retention, Fault> {
    let element = section.required("RetentionPolicy")?;
    element.expect_children(&["Enabled", "Days"])?;
    if !boolean(element, "Enabled")? {
        return match element.child("Days") {
            Some(_) => Err(XmlError::UnexpectedNode.into()),
            None => Ok(Retention(None)),
        };
    }
    let days: u32 = number(element, "Days")?;
    match u16::try_from(days) {
        Ok(days @ 1..=RETENTION_DAYS_MAX) => Ok(Retention(Some(days))),
        _ => Err(Fault::at(XmlError::RetentionDays, element.required("Days")?.end)),
    }
}

fn read_cors(element: &Element) -> Result<Vec<CorsRule>, Fault> {
    let rules: Result<Vec<_>, _> = element.children.iter().map(read_cors_rule).collect();
    let rules = rules?;
    let bytes: usize = rules.iter().flat_map(texts).map(String::len).sum();
    if bytes > CORS_RULES_BYTES_MAX {
        return Err(XmlError::CorsList.into());
    }
    Ok(rules)
}

/// All five elements are required; the two lists of headers may be empty (T-9.3a).
fn read_cors_rule(element: &Element) -> Result<CorsRule, XmlError> {
    if !element.is("CorsRule") {
        return Err(XmlError::UnexpectedNode);
    }
    element.expect_children(&[
        "AllowedOrigins",
        "AllowedMethods",
        "AllowedHeaders",
        "ExposedHeaders",
        "MaxAgeInSeconds",
    ])?;
    let list = |name| {
        let items = element.required(name)?.text().split(',');
        Ok(items.map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect())
    };
    let rule = CorsRule {
        allowed_origins: list("AllowedOrigins")?,
        allowed_methods: list("AllowedMethods")?,
        allowed_headers: list("AllowedHeaders")?,
        exposed_headers: list("ExposedHeaders")?,
        max_age_seconds: number(element, "MaxAgeInSeconds")?,
    };
    check_cors_rule(&rule)?;
    Ok(rule)
}

fn check_cors_rule(rule: &CorsRule) -> Result<(), XmlError> {
    if rule.allowed_origins.is_empty() || rule.allowed_methods.is_empty() {
        return Err(XmlError::MissingNode);
    }
    let headers_fit = |headers: &[String]| {
        let prefixed = headers.iter().filter(|header| header.ends_with('*')).count();
        prefixed <= CORS_PREFIXED_HEADERS_MAX
            && headers.len() - prefixed <= CORS_LITERAL_HEADERS_MAX
    };
    let fits = rule.allowed_methods.iter().all(|method| CORS_METHODS.contains(&method.as_str()))
        && rule.allowed_origins.len() <= CORS_ORIGINS_MAX
        && headers_fit(&rule.allowed_headers)
        && headers_fit(&rule.exposed_headers)
        && texts(rule).all(|text| text.chars().count() <= CORS_ITEM_CHARS_MAX);
    if fits { Ok(()) } else { Err(XmlError::CorsList) }
}

/// Every item of a rule's lists.
fn texts(rule: &CorsRule) -> impl Iterator<Item = &String> {
    let headers = rule.allowed_headers.iter().chain(&rule.exposed_headers);
    rule.allowed_origins.iter().chain(&rule.allowed_methods).chain(headers)
}

/// Version 1.0 of logging and metrics is the only one (T-9.12).
fn check_version(section: &Element) -> Result<(), XmlError> {
    match section.required("Version")?.text() {
        "1.0" => Ok(()),
        _ => Err(XmlError::OutOfRange),
    }
}

/// Old Python clients write `True` and `False` (T-9.3b).
fn boolean(element: &Element, name: &str) -> Result<bool, XmlError> {
    match element.required(name)?.text() {
        "true" | "True" | "1" => Ok(true),
        "false" | "False" | "0" => Ok(false),
        _ => Err(XmlError::InvalidValue),
    }
}

fn number(element: &Element, name: &str) -> Result<u32, XmlError> {
    element.required(name)?.text().parse().map_err(|_| XmlError::InvalidValue)
}

#[cfg(test)]
mod tests;
