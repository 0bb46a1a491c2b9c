//! The stored notes.

use crate::http::analytics::Counts;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Notes by name.
pub(crate) struct Notes {
    pub(super) stored: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Letters by the name of a stored access policy.
    pub(super) policies: BTreeMap<&'static str, &'static str>,
    pub(super) counts: Counts,
    pub(super) host_suffixes: Vec<String>,
}

impl Notes {
    pub(crate) fn new() -> Self {
        Self {
            stored: Mutex::default(),
            policies: BTreeMap::from([("readers", "r")]),
            counts: Counts::default(),
            host_suffixes: vec!["note.localhost".to_owned()],
        }
    }
}
