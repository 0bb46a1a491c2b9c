//! What every error of a request repeats: its id and time, and optionally why a credential was
//! refused.

use crate::auth::explain;
use crate::error::ApiError;
use crate::request_id::RequestId;
use lazuli_model::Timestamp;
use lazuli_wire::error_body::{self, AUTHENTICATION_DETAIL, Detail, Shape};

/// Why a credential was refused, with `--explain-auth`.
const AUTH_DETAIL: &str = "x-lazuli-auth-detail";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Trailer {
    pub(crate) id: RequestId,
    pub(crate) now: Timestamp,
    pub(crate) explain: bool,
}

impl Trailer {
    /// Appends the body of an error. The reason for refusing a credential goes to the log, and into
    /// the body only with `--explain-auth`.
    pub(crate) fn write(self, out: &mut Vec<u8>, shape: Shape, error: &ApiError, text: &str) {
        self.write_detailed(out, shape, error, text, Vec::new());
    }

    /// The same, with the service's details after the message.
    pub(crate) fn write_detailed(
        self,
        out: &mut Vec<u8>,
        shape: Shape,
        error: &ApiError,
        text: &str,
        mut details: Vec<Detail>,
    ) {
        let message = error_body::message_with_trailer(text, self.id.as_str(), self.now);
        let explanation = error.explanation.as_deref();
        if let Some(explanation) = explanation {
            let (id, code) = (self.id.as_str(), error.code.name());
            tracing::debug!(id, code, explanation, "credential refused");
        }
        let shown = explanation.filter(|_| self.explain);
        details.extend(shown.map(|text| (AUTHENTICATION_DETAIL, text.to_owned())));
        error_body::write_detailed(out, shape, error.code.name(), &message, &details);
    }

    /// The same in a header, for clients that show no bodies.
    pub(crate) fn detail(self, error: &ApiError) -> Vec<(&'static str, String)> {
        let shown = error.explanation.as_deref().filter(|_| self.explain);
        shown.map(|text| (AUTH_DETAIL, explain::header_text(text))).into_iter().collect()
    }
}
