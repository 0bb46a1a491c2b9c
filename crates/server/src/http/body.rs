//! Reads request bodies, bounded individually and in total.

use crate::error::{ApiError, ApiResult};
use crate::http::memory::{Memory, Share};
use bytes::{Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt;
use lazuli_model::limits::REQUEST_BODY_BYTES_MAX;
use lazuli_wire::error_code::{ErrorCode, message};
use std::time::Duration;

/// How much of a refused body is still read. Our own limit: enough for an honest mistake.
const DISCARDED_BYTES_MAX: usize = 4 * REQUEST_BODY_BYTES_MAX;
/// How long reading it may take.
const DISCARD_TIME_MAX: Duration = Duration::from_secs(5);

/// A body in memory, and its reservation from the body memory.
pub(crate) struct RequestBody {
    pub(crate) bytes: Bytes,
    _share: Option<Share>,
}

impl RequestBody {
    pub(crate) fn empty() -> Self {
        Self { bytes: Bytes::new(), _share: None }
    }
}

/// Memory for request bodies: a body is read only after it has reserved its memory.
#[derive(Debug)]
pub(crate) struct BodyMemory(Memory);

impl BodyMemory {
    pub(crate) fn new(bytes_max: usize, wait_max: Duration) -> Self {
        Self(Memory::new(bytes_max, wait_max))
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.0
    }

    pub(crate) async fn read<B>(&self, body: &mut B) -> ApiResult<RequestBody>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        if body.is_end_stream() {
            return Ok(RequestBody::empty());
        }
        let hint = body.size_hint();
        if hint.lower() > REQUEST_BODY_BYTES_MAX as u64 {
            return Err(ErrorCode::RequestBodyTooLarge.into());
        }
        let bytes_max = hint.upper().unwrap_or(u64::MAX).min(REQUEST_BODY_BYTES_MAX as u64);
        let share = self.0.take(bytes_max as usize).await?;
        let bytes = collect(body, bytes_max as usize).await?;
        Ok(RequestBody { bytes, _share: Some(share) })
    }
}

/// Reads and discards the rest of a refused request's body. If the connection were closed while the
/// client is still sending, the client would see a broken connection instead of the refusal.
pub(crate) async fn discard(body: &mut (impl Body<Data = Bytes> + Unpin)) {
    let frames = async {
        let mut left = DISCARDED_BYTES_MAX;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            let Some(fewer) = left.checked_sub(bytes) else { return };
            left = fewer;
        }
    };
    // Slow clients are not waited for.
    let _ = tokio::time::timeout(DISCARD_TIME_MAX, frames).await;
}

/// Most bodies arrive in one piece, which is used without a copy.
async fn collect(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    expected: usize,
) -> ApiResult<Bytes> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // The connection broke, or the framing was wrong.
        let frame = frame.map_err(|_| ApiError::invalid_input(message::ERROR_WHILE_PROCESSING))?;
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + rest.len() + data.len() > REQUEST_BODY_BYTES_MAX {
            return Err(ErrorCode::RequestBodyTooLarge.into());
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            rest.reserve(expected.max(first.len() + data.len()).min(REQUEST_BODY_BYTES_MAX));
            rest.extend_from_slice(&first);
            first = Bytes::new();
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}
