//! Whether requests of all kinds can succeed, and why not.

use lazuli_meter::{Family, Gauge, Label, Source};
use lazuli_model::{Clock, Timestamp};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

lazuli_meter::label! {
    /// Why requests of some kind would fail.
    pub enum Reason {
        /// The store is being opened.
        Starting => "starting",
        /// A signal asked the server to stop; it is draining.
        Stopping => "stopping",
        /// A write failed, and the store has not been reopened yet.
        StoreRefusesWrites => "store-refuses-writes",
        /// Less disk space is free than the reserve.
        DiskFull => "disk-full",
        /// The engine does not answer.
        EngineUnreachable => "engine-unreachable",
        /// The HTTPS certificate has expired, and clients refuse it.
        CertificateExpired => "certificate-expired",
    }
}

/// The current reasons. A server without any is ready.
pub struct Readiness {
    clock: Arc<dyn Clock>,
    reasons: Mutex<BTreeMap<Reason, Held>>,
}

struct Held {
    since: Timestamp,
    detail: String,
}

impl Readiness {
    /// Not ready yet: a server begins in the starting state.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let readiness = Self { clock, reasons: Mutex::default() };
        readiness.set(Reason::Starting, Some("the store is being opened".to_owned()));
        readiness
    }

    /// Sets `reason` with a detail, or clears it. A reason that continues keeps its start time.
    pub fn set(&self, reason: Reason, detail: Option<String>) {
        let mut reasons = self.reasons();
        match detail {
            Some(detail) => {
                let since =
                    reasons.get(&reason).map_or_else(|| self.clock.now(), |held| held.since);
                reasons.insert(reason, Held { since, detail });
            }
            None => drop(reasons.remove(&reason)),
        }
    }

    pub fn is_ready(&self) -> bool {
        self.reasons().is_empty()
    }

    /// `{"ready":false,"reasons":[{"code":"…","since":"…Z","detail":"…"}]}`
    pub(crate) fn to_json(&self) -> String {
        let reasons = self.reasons();
        let mut json = format!("{{\"ready\":{},\"reasons\":[", reasons.is_empty());
        for (place, (reason, held)) in reasons.iter().enumerate() {
            let mut buffer = [0; Timestamp::TEXT_BYTES_MAX];
            let (code, since) = (reason.name(), held.since.text(&mut buffer));
            let comma = if place == 0 { "" } else { "," };
            json += comma;
            json += "{\"code\":\"";
            json += code;
            json += "\",\"since\":\"";
            json += since;
            json += "\",\"detail\":\"";
            push_escaped(&mut json, &held.detail);
            json += "\"}";
        }
        json + "]}\n"
    }

    fn reasons(&self) -> MutexGuard<'_, BTreeMap<Reason, Held>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.reasons().keys()).finish()
    }
}

impl Source for Readiness {
    fn report(&self) -> Vec<Family> {
        let ready = Gauge::default();
        ready.set(self.is_ready().into());
        vec![Family::of("lazuli_ready", "1 if /readyz answers 200, else 0", &ready)]
    }
}

/// Appends `text` as the content of a JSON string.
pub(crate) fn push_escaped(json: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            // Writing to a string does not fail.
            control if control < ' ' => drop(write!(json, "\\u{:04x}", u32::from(control))),
            other => json.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[derive(Default)]
    struct Seconds(AtomicU64);

    impl Clock for Seconds {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_seconds(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_server_is_ready_when_nothing_speaks_against_it() {
        let clock = Arc::new(Seconds::default());
        let readiness = Readiness::new(clock.clone());
        let starting = r#"{"ready":false,"reasons":[{"code":"starting","since":"1970-01-01T00:00:00Z","detail":"the store is being opened"}]}"#;
        assert_eq!(readiness.to_json().trim_end(), starting);
        readiness.set(Reason::Starting, None);
        assert!(readiness.is_ready());
        assert_eq!(readiness.to_json(), "{\"ready\":true,\"reasons\":[]}\n");
    }

    #[test]
    fn a_reason_keeps_the_time_it_began() {
        let clock = Arc::new(Seconds::default());
        let readiness = Readiness::new(clock.clone());
        readiness.set(Reason::Starting, None);
        readiness.set(Reason::DiskFull, Some("1 MiB".to_owned()));
        clock.0.store(60, Ordering::Relaxed);
        readiness.set(Reason::DiskFull, Some("a \"quoted\" \\ line\n".to_owned()));
        readiness.set(Reason::Stopping, Some("SIGTERM".to_owned()));
        let json = readiness.to_json();
        let stopping = r#"{"code":"stopping","since":"1970-01-01T00:01:00Z","detail":"SIGTERM"}"#;
        let full = r#"{"code":"disk-full","since":"1970-01-01T00:00:00Z","detail":"a \"quoted\" \\ line\u000a"}"#;
        assert_eq!(json, format!("{{\"ready\":false,\"reasons\":[{stopping},{full}]}}\n"));
    }
}
