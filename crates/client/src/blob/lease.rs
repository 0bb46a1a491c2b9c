//! Leases of blobs.

use super::{Blob, LEASE_ID};
use crate::call::{Answer, header, text_value};
use crate::error::Error;
use crate::rest::Parameters;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use lazuli_model::limits::{LEASE_SECONDS_MAX, LEASE_SECONDS_MIN};

const ACTION: HeaderName = HeaderName::from_static("x-ms-lease-action");
const DURATION: HeaderName = HeaderName::from_static("x-ms-lease-duration");
const PROPOSED_ID: HeaderName = HeaderName::from_static("x-ms-proposed-lease-id");
const BREAK_PERIOD: HeaderName = HeaderName::from_static("x-ms-lease-break-period");
const LEASE_TIME: HeaderName = HeaderName::from_static("x-ms-lease-time");

/// How long a lease lasts unless it is renewed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseTime {
    /// 15 to 60 seconds.
    Seconds(u32),
    /// Until it is released or broken.
    Infinite,
}

/// A lease on a blob. Dropping it does not release it.
#[derive(Clone, Debug)]
pub struct Lease {
    blob: Blob,
    id: String,
}

impl Lease {
    /// The lease's id, a GUID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// A lease with the id `id` that another process acquired.
    pub fn resume(blob: &Blob, id: &str) -> Self {
        Self { blob: blob.clone(), id: id.to_owned() }
    }

    pub(super) async fn acquire(blob: &Blob, time: LeaseTime) -> Result<Self, Error> {
        let operation = "acquire lease";
        let duration = match time {
            LeaseTime::Infinite => "-1".to_owned(),
            LeaseTime::Seconds(seconds @ LEASE_SECONDS_MIN..=LEASE_SECONDS_MAX) => {
                seconds.to_string()
            }
            LeaseTime::Seconds(_) => {
                return Err(blob.place(operation, Error::config("a lease holds 15 to 60 seconds")));
            }
        };
        // The client chooses the id: after a lost answer, a retry finds its own lease and succeeds (B-5.3).
        let id = blob.account.0.env.guid().to_string();
        let headers = [(DURATION, &*duration), (PROPOSED_ID, &*id)];
        let answer = send(blob, operation, "acquire", &headers).await?;
        if answer.status != StatusCode::CREATED {
            return Err(blob.refusal(answer, operation));
        }
        Ok(Self { blob: blob.clone(), id })
    }

    /// Renews the lease for its full time. Fails with a conflict if it is lost.
    pub async fn renew(&self) -> Result<(), Error> {
        let answer =
            send(&self.blob, "renew lease", "renew", &[(LEASE_ID, self.id.as_str())]).await?;
        match answer.status {
            StatusCode::OK => Ok(()),
            _ => Err(self.blob.refusal(answer, "renew lease")),
        }
    }

    /// Releases the lease: others can acquire one at once.
    pub async fn release(self) -> Result<(), Error> {
        let answer =
            send(&self.blob, "release lease", "release", &[(LEASE_ID, self.id.as_str())]).await?;
        match answer.status {
            StatusCode::OK => Ok(()),
            // An earlier attempt released it, or it was lost: either way it is no longer ours.
            StatusCode::CONFLICT if answer.is_after_lost => Ok(()),
            _ => Err(self.blob.refusal(answer, "release lease")),
        }
    }
}

pub(super) async fn break_lease(blob: &Blob, after_seconds: Option<u32>) -> Result<u32, Error> {
    let operation = "break lease";
    let place = |error| blob.place(operation, error);
    let period = after_seconds.map(|seconds| seconds.to_string());
    if after_seconds.is_some_and(|seconds| seconds > LEASE_SECONDS_MAX) {
        return Err(place(Error::config("a lease is broken after 60 seconds at most")));
    }
    let headers = period.as_deref().map(|period| (BREAK_PERIOD, period));
    let answer = send(blob, operation, "break", headers.as_slice()).await?;
    if answer.status != StatusCode::ACCEPTED {
        return Err(blob.refusal(answer, operation));
    }
    let seconds = header(&answer.headers, &LEASE_TIME).and_then(|text| text.parse().ok());
    seconds.ok_or_else(|| place(Error::protocol("the answer has no lease time")))
}

async fn send(
    blob: &Blob,
    operation: &'static str,
    action: &'static str,
    headers: &[(HeaderName, &str)],
) -> Result<Answer, Error> {
    let mut call = blob.call(operation, Method::PUT, Parameters::new().and("comp", "lease"));
    call.headers.insert(ACTION, HeaderValue::from_static(action));
    for (name, value) in headers {
        let value = text_value(value).map_err(|error| blob.place(operation, error))?;
        call.headers.insert(name, value);
    }
    blob.send(&call).await
}
