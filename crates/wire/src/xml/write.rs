//! Writes the documents.

use super::GeoReplication;
use crate::sas::UserDelegationKey;
use crate::version::ApiVersion;
use crate::words::{below, equal, or_not_ascii, plain_prefix};
use lazuli_model::service_properties::{CorsRule, Logging, Metrics, Retention};
use lazuli_model::{
    AccessPolicies, AccessPolicy, ServiceProperties, ServicePropertiesPatch, Timestamp,
};

/// Successful XML bodies begin with it (T-9.1).
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Appends the access policies of a table or queue; their times have seven fraction digits (T-9.18).
pub fn write_signed_identifiers(out: &mut Vec<u8>, policies: &AccessPolicies) {
    write_document(out, |out| {
        if policies.is_empty() {
            return leaf(out, "SignedIdentifiers", "");
        }
        node(out, "SignedIdentifiers", |out| {
            for policy in policies.iter() {
                node(out, "SignedIdentifier", |out| write_policy(out, policy));
            }
        });
    });
}

/// Appends service properties in the form of `version` (T-9.14).
pub fn write_service_properties(
    out: &mut Vec<u8>,
    properties: &ServiceProperties,
    version: ApiVersion,
) {
    write_document(out, |out| {
        node(out, "StorageServiceProperties", |out| {
            node(out, "Logging", |out| write_logging(out, &properties.logging));
            if !version.has_partial_service_properties() {
                node(out, "Metrics", |out| write_metrics(out, &properties.hour_metrics));
                return;
            }
            node(out, "HourMetrics", |out| write_metrics(out, &properties.hour_metrics));
            node(out, "MinuteMetrics", |out| write_metrics(out, &properties.minute_metrics));
            write_cors(out, &properties.cors);
        });
    });
}

/// Appends a change of service properties, in the form of current versions: the sections that it has
/// (T-9.7).
pub fn write_service_properties_patch(out: &mut Vec<u8>, patch: &ServicePropertiesPatch) {
    write_document(out, |out| {
        node(out, "StorageServiceProperties", |out| {
            if let Some(logging) = &patch.logging {
                node(out, "Logging", |out| write_logging(out, logging));
            }
            if let Some(metrics) = &patch.hour_metrics {
                node(out, "HourMetrics", |out| write_metrics(out, metrics));
            }
            if let Some(metrics) = &patch.minute_metrics {
                node(out, "MinuteMetrics", |out| write_metrics(out, metrics));
            }
            if let Some(rules) = &patch.cors {
                write_cors(out, rules);
            }
        });
    });
}

/// Appends service statistics; the time is empty unless the secondary is live (T-9.17). An empty
/// time is written with both tags, unlike any other element.
pub fn write_service_stats(out: &mut Vec<u8>, replication: GeoReplication) {
    let (status, last_sync) = match replication {
        GeoReplication::Live { last_sync } => ("live", last_sync.rfc1123()),
        GeoReplication::Bootstrap => ("bootstrap", String::new()),
        GeoReplication::Unavailable => ("unavailable", String::new()),
    };
    write_document(out, |out| {
        node(out, "StorageServiceStats", |out| {
            node(out, "GeoReplication", |out| {
                leaf(out, "Status", status);
                node(out, "LastSyncTime", |out| write_text(out, &last_sync));
            });
        });
    });
}

/// Appends a request for a user delegation key, without a byte-order mark: clients send none.
pub fn write_key_info(out: &mut Vec<u8>, start: Timestamp, expiry: Timestamp) {
    node(out, "KeyInfo", |out| {
        leaf(out, "Start", &start.to_string());
        leaf(out, "Expiry", &expiry.to_string());
    });
}

/// Appends a user delegation key and its value, which is base64.
pub fn write_user_delegation_key(out: &mut Vec<u8>, key: &UserDelegationKey<'_>, value: &str) {
    write_document(out, |out| {
        node(out, "UserDelegationKey", |out| {
            leaf(out, "SignedOid", key.object_id);
            leaf(out, "SignedTid", key.tenant_id);
            leaf(out, "SignedStart", key.start);
            leaf(out, "SignedExpiry", key.expiry);
            leaf(out, "SignedService", key.service);
            leaf(out, "SignedVersion", key.version);
            leaf(out, "Value", value);
        });
    });
}

/// Appends text with `&`, `<`, `>` and carriage returns escaped; a raw carriage return would be
/// read as a line feed. Characters that XML does not allow are replaced.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    let special = |word| {
        or_not_ascii(
            word,
            below(word, b' ') | equal(word, b'&') | equal(word, b'<') | equal(word, b'>'),
        )
    };
    let mut rest = text;
    while let Some((plain, special)) = rest.split_at_checked(plain_prefix(rest.as_bytes(), special))
    {
        out.extend_from_slice(plain.as_bytes());
        let mut characters = special.chars();
        let Some(character) = characters.next() else { return };
        write_character(out, character);
        rest = characters.as_str();
    }
}

fn write_character(out: &mut Vec<u8>, character: char) {
    match character {
        '&' => out.extend_from_slice(b"&amp;"),
        '<' => out.extend_from_slice(b"&lt;"),
        '>' => out.extend_from_slice(b"&gt;"),
        '\r' => out.extend_from_slice(b"&#xD;"),
        _ if is_in_xml(character) => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        _ => out.extend_from_slice("\u{FFFD}".as_bytes()),
    }
}

/// Whether every character of `text` is one that XML allows.
pub fn is_storable(text: &str) -> bool {
    text.chars().all(is_in_xml)
}

/// Whether XML allows the character, even as a numeric reference.
pub(super) const fn is_in_xml(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..)
}

fn write_policy(out: &mut Vec<u8>, policy: &AccessPolicy) {
    leaf(out, "Id", &policy.id);
    let permissions = policy.permissions.as_deref().filter(|letters| !letters.is_empty());
    if policy.start.is_none() && policy.expiry.is_none() && permissions.is_none() {
        return;
    }
    node(out, "AccessPolicy", |out| {
        for (name, time) in [("Start", policy.start), ("Expiry", policy.expiry)] {
            if let Some(time) = time {
                leaf(out, name, time.text_full(&mut [0; Timestamp::TEXT_BYTES_MAX]));
            }
        }
        if let Some(letters) = permissions {
            leaf(out, "Permission", letters);
        }
    });
}

fn write_logging(out: &mut Vec<u8>, logging: &Logging) {
    leaf(out, "Version", "1.0");
    leaf(out, "Read", boolean(logging.read));
    leaf(out, "Write", boolean(logging.write));
    leaf(out, "Delete", boolean(logging.delete));
    write_retention(out, logging.retention);
}

fn write_metrics(out: &mut Vec<u8>, metrics: &Metrics) {
    leaf(out, "Version", "1.0");
    leaf(out, "Enabled", boolean(metrics.enabled));
    if let Some(include_apis) = metrics.include_apis.filter(|_| metrics.enabled) {
        leaf(out, "IncludeAPIs", boolean(include_apis));
    }
    write_retention(out, metrics.retention);
}

fn write_retention(out: &mut Vec<u8>, Retention(days): Retention) {
    node(out, "RetentionPolicy", |out| {
        leaf(out, "Enabled", boolean(days.is_some()));
        if let Some(days) = days {
            leaf(out, "Days", &days.to_string());
        }
    });
}

fn write_cors(out: &mut Vec<u8>, rules: &[CorsRule]) {
    if rules.is_empty() {
        return leaf(out, "Cors", "");
    }
    node(out, "Cors", |out| {
        for rule in rules {
            node(out, "CorsRule", |out| write_cors_rule(out, rule));
        }
    });
}

fn write_cors_rule(out: &mut Vec<u8>, rule: &CorsRule) {
    leaf(out, "AllowedMethods", &rule.allowed_methods.join(","));
    leaf(out, "AllowedOrigins", &rule.allowed_origins.join(","));
    leaf(out, "AllowedHeaders", &header_list(&rule.allowed_headers));
    leaf(out, "ExposedHeaders", &header_list(&rule.exposed_headers));
    leaf(out, "MaxAgeInSeconds", &rule.max_age_seconds.to_string());
}

/// The service lists literal headers before prefixes, each in the order given (recorded in python
/// test_table_service_properties.test_set_cors).
fn header_list(headers: &[String]) -> String {
    let mut sorted: Vec<&str> = headers.iter().map(String::as_str).collect();
    sorted.sort_by_key(|header| header.ends_with('*'));
    sorted.join(",")
}

const fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

pub(super) fn write_document(out: &mut Vec<u8>, root: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(BYTE_ORDER_MARK);
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"utf-8\"?>");
    root(out);
}

pub(super) fn node(out: &mut Vec<u8>, name: &str, content: impl FnOnce(&mut Vec<u8>)) {
    extend(out, ["<", name, ">"]);
    content(out);
    extend(out, ["</", name, ">"]);
}

/// An element with text only; without text it is written as `<Name />` (T-9.2, Q-2.11).
pub(crate) fn leaf(out: &mut Vec<u8>, name: &str, text: &str) {
    if text.is_empty() {
        return extend(out, ["<", name, " />"]);
    }
    node(out, name, |out| write_text(out, text));
}

fn extend(out: &mut Vec<u8>, texts: [&str; 3]) {
    texts.iter().for_each(|text| out.extend_from_slice(text.as_bytes()));
}
