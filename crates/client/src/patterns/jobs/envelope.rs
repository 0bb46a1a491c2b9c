//! The body of a job's message (P-3.1).

use crate::error::Error;
use crate::{Guid, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

/// The version of the format.
const VERSION: u32 = 1;

/// How much of an error a message keeps.
const ERROR_CHARS_MAX: usize = 500;

/// The largest envelope for a message: 48 KiB of body, minus room for an error and the fields of a
/// poisoned job.
const BYTES_MAX: usize = 48 * 1024 - 4 * 1024;

/// A job in a message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Envelope {
    pub(super) v: u32,
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) sent: String,
    /// `None` if it is in a blob. A job without fields is JSON's null, which differs from `None`.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub(super) job: Option<serde_json::Value>,
    /// The name of the blob with the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) blob: Option<String>,
    /// Why the last run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// When it was put into the poison queue, and its dequeue count at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) poisoned: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) dequeues: Option<u32>,
}

impl Envelope {
    pub(super) fn new(kind: &str, id: Guid, now: Timestamp, job: serde_json::Value) -> Self {
        Self {
            v: VERSION,
            kind: kind.to_owned(),
            id: id.to_string(),
            sent: text_of(now),
            job: Some(job),
            blob: None,
            error: None,
            poisoned: None,
            dequeues: None,
        }
    }

    /// Parses the envelope in a body, or says why it is invalid.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let envelope: Self = serde_json::from_slice(body)
            .map_err(|error| format!("the message is not a job: {error}"))?;
        match envelope.v {
            VERSION => Ok(envelope),
            other => Err(format!("the message is a job of version {other}")),
        }
    }

    pub(super) fn to_body(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::protocol(error.to_string()))
    }

    /// Whether it fits into a message.
    pub(super) fn fits(body: &[u8]) -> bool {
        body.len() <= BYTES_MAX
    }

    /// Records why a run failed; long texts are truncated.
    pub(super) fn fail(&mut self, reason: &str) {
        self.error = Some(reason.chars().take(ERROR_CHARS_MAX).collect());
    }
}

/// A value that is present, even if it is null.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<serde_json::Value>, D::Error> {
    serde_json::Value::deserialize(value).map(Some)
}

pub(super) fn text_of(time: Timestamp) -> String {
    time.text(&mut [0; Timestamp::TEXT_BYTES_MAX]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_json_of_a_fixed_form() {
        // P-3.1.
        let now = Timestamp::from_unix_seconds(1_000_000_000);
        let mut envelope = Envelope::new("a", Guid([1; 16]), now, serde_json::json!({"id": 456}));
        let body = String::from_utf8(envelope.to_body().unwrap()).unwrap();
        let expect = "{\"v\":1,\"kind\":\"a\",\"id\":\"01010101-0101-0101-0101-010101010101\",\
                      \"sent\":\"2001-09-09T01:46:40Z\",\"job\":{\"id\":456}}";
        assert_eq!(body, expect);
        envelope.fail(&"é".repeat(1000));
        let failed = Envelope::parse(&envelope.to_body().unwrap()).unwrap();
        assert_eq!(failed.error.map(|error| error.chars().count()), Some(500));
        assert!(Envelope::parse(b"{\"v\":2,\"kind\":\"a\",\"id\":\"\",\"sent\":\"\"}").is_err());
        assert!(Envelope::parse(b"hello").is_err());
        let unit = Envelope::new("a", Guid([1; 16]), now, serde_json::Value::Null);
        let read = Envelope::parse(&unit.to_body().unwrap()).unwrap();
        assert_eq!(read.job, Some(serde_json::Value::Null), "a job without fields");
    }

    #[test]
    fn room_is_left_for_an_error_and_the_words_of_poison() {
        let now = Timestamp::from_unix_seconds(0);
        let mut envelope = Envelope::new("a", Guid([1; 16]), now, serde_json::json!(""));
        let spare = BYTES_MAX - envelope.to_body().unwrap().len();
        envelope.job = Some("x".repeat(spare).into());
        assert!(Envelope::fits(&envelope.to_body().unwrap()));
        // The characters with the longest encodings: four bytes, and a control character's six.
        for long in ["\u{1}", "🦀"] {
            envelope.fail(&long.repeat(1000));
            envelope.poisoned = Some(text_of(now));
            envelope.dequeues = Some(u32::MAX);
            assert!(envelope.to_body().unwrap().len() <= 48 * 1024);
        }
    }
}
