//! Settings of an account's table service: logging, metrics and CORS.

use crate::limits::CORS_RULES_MAX;

/// The settings; the default is what a new account has (T-9.5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceProperties {
    pub logging: Logging,
    pub hour_metrics: Metrics,
    pub minute_metrics: Metrics,
    pub cors: Vec<CorsRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    pub read: bool,
    pub write: bool,
    pub delete: bool,
    pub retention: Retention,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    pub enabled: bool,
    /// Set only while metrics are enabled (T-9.9).
    pub include_apis: Option<bool>,
    pub retention: Retention,
}

/// Days to keep; `None` when retention is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention(pub Option<u16>);

/// Which other origins may make requests. The lists are stored as given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsRule {
    pub allowed_origins: Vec<String>,
    pub allowed_methods: Vec<String>,
    pub allowed_headers: Vec<String>,
    pub exposed_headers: Vec<String>,
    pub max_age_seconds: u32,
}

/// A change of the settings: sections that are absent keep their values (T-9.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePropertiesPatch {
    pub logging: Option<Logging>,
    pub hour_metrics: Option<Metrics>,
    pub minute_metrics: Option<Metrics>,
    pub cors: Option<Vec<CorsRule>>,
}

impl ServiceProperties {
    #[must_use]
    pub fn patched(self, patch: ServicePropertiesPatch) -> Self {
        Self {
            logging: patch.logging.unwrap_or(self.logging),
            hour_metrics: patch.hour_metrics.unwrap_or(self.hour_metrics),
            minute_metrics: patch.minute_metrics.unwrap_or(self.minute_metrics),
            cors: patch.cors.unwrap_or(self.cors),
        }
    }
}

/// Why settings cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a setting is outside its range")]
pub struct ServicePropertiesError;

impl ServicePropertiesPatch {
    /// Checks the ranges: 1 to 365 days of retention, at most five CORS rules (T-9.8, T-9.11).
    pub fn check(&self) -> Result<(), ServicePropertiesError> {
        let retentions = [
            self.logging.as_ref().map(|s| s.retention),
            self.hour_metrics.as_ref().map(|s| s.retention),
            self.minute_metrics.as_ref().map(|s| s.retention),
        ];
        let in_range = |r: &Retention| r.0.is_none_or(|days| (1..=365).contains(&days));
        let rules = self.cors.as_ref().map_or(0, Vec::len);
        if retentions.iter().flatten().all(in_range) && rules <= CORS_RULES_MAX {
            Ok(())
        } else {
            Err(ServicePropertiesError)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_sections_keep_their_values() {
        let logging = Logging { read: true, ..Logging::default() };
        let before = ServiceProperties { logging: logging.clone(), ..Default::default() };
        let metrics = Metrics { enabled: true, include_apis: Some(true), ..Default::default() };
        let patch =
            ServicePropertiesPatch { minute_metrics: Some(metrics.clone()), ..Default::default() };
        let after = before.patched(patch);
        assert_eq!((after.logging, after.minute_metrics), (logging, metrics));
        assert_eq!(after.hour_metrics, Metrics::default());
    }

    #[test]
    fn retention_is_1_to_365_days() {
        for (days, fits) in [(0, false), (1, true), (365, true), (366, false)] {
            let logging = Logging { retention: Retention(Some(days)), ..Default::default() };
            let patch = ServicePropertiesPatch { logging: Some(logging), ..Default::default() };
            assert_eq!(patch.check().is_ok(), fits, "{days}");
        }
    }
}
