//! Who sends a request, and what they may do.

use crate::accounts::Account;
use crate::error::{ApiError, ApiResult};
use crate::table::Call;
use http::HeaderMap;
use http::header;
use lazuli_model::Timestamp;
use lazuli_model::limits::REQUEST_DATE_SKEW_MINUTES_MAX;
use lazuli_table::KeyBounds;
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::shared_key::{Authorization, Scheme, SignedRequest};

/// Whom a valid credential names.
#[derive(Clone, Debug)]
pub(crate) enum Principal {
    /// A holder of an account key: may do everything.
    Owner,
}

impl Principal {
    /// Refuses an operation that the credential does not cover.
    pub(crate) fn permit(&self, _call: &Call<'_>) -> ApiResult<()> {
        match self {
            Self::Owner => Ok(()),
        }
    }

    /// The entities the credential lets its holder see.
    pub(crate) fn bounds(&self) -> KeyBounds {
        match self {
            Self::Owner => KeyBounds::default(),
        }
    }
}

/// The parts of a request that credentials speak of.
pub(crate) struct Presented<'a> {
    pub(crate) method: &'a str,
    /// As sent, with the account segment in path style.
    pub(crate) path: &'a str,
    pub(crate) comp: Option<&'a str>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) now: Timestamp,
    /// Whether the date must be near the clock's.
    pub(crate) date_check: bool,
    /// Whether a request without credentials is told how to get a token.
    pub(crate) challenge: bool,
}

impl<'a> Presented<'a> {
    fn header(&self, name: impl header::AsHeaderName) -> &'a str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// `x-ms-date` wins over `Date`, whatever the other says.
    fn date(&self) -> &'a str {
        match self.header("x-ms-date") {
            "" => self.header(header::DATE),
            date => date,
        }
    }
}

/// Finds out who sends the request, or refuses it.
pub(crate) fn authenticate(account: &Account, presented: &Presented<'_>) -> ApiResult<Principal> {
    let text = match presented.headers.get(header::AUTHORIZATION) {
        None if presented.challenge => return Err(ErrorCode::NoAuthenticationInformation.into()),
        None => return Err(ErrorCode::AuthenticationFailed.into()),
        Some(value) => value.to_str().map_err(|_| ErrorCode::InvalidAuthenticationInfo)?,
    };
    match Authorization::parse(text).map_err(|_| ErrorCode::InvalidAuthenticationInfo)? {
        Authorization::Signed { scheme, account: named, signature } => {
            if named != account.name.as_str() {
                return Err(ErrorCode::AuthenticationFailed.into());
            }
            verify_signature(account, presented, scheme, signature)
        }
        Authorization::Bearer(_) => Err(ErrorCode::InvalidBearerToken.into()),
    }
}

fn verify_signature(
    account: &Account,
    presented: &Presented<'_>,
    scheme: Scheme,
    signature: &str,
) -> ApiResult<Principal> {
    let request = SignedRequest {
        method: presented.method,
        content_md5: presented.header("content-md5"),
        content_type: presented.header(header::CONTENT_TYPE),
        date: presented.date(),
        account: account.name.as_str(),
        path: presented.path,
        comp: presented.comp,
    };
    let failed = ApiError::from(ErrorCode::AuthenticationFailed);
    if presented.date_check && !date_is_near(presented.date(), presented.now) {
        tracing::debug!(date = presented.date(), now = %presented.now, "date outside the window");
        return Err(failed);
    }
    if !request.is_signed_by(&account.keys, scheme, signature) {
        let text = request.string_to_sign(scheme).concat();
        tracing::debug!(string_to_sign = %String::from_utf8_lossy(&text), "signature mismatch");
        return Err(failed);
    }
    Ok(Principal::Owner)
}

/// Whether an RFC 1123 date lies within 15 minutes of `now`, either way.
fn date_is_near(date: &str, now: Timestamp) -> bool {
    let Some(date) = Timestamp::parse_rfc1123(date) else { return false };
    let skew_ms = date.millis_since(now).max(now.millis_since(date));
    skew_ms <= REQUEST_DATE_SKEW_MINUTES_MAX * 60_000
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{Accounts, WELL_KNOWN_ACCOUNT, WELL_KNOWN_KEY};

    const DATE: &str = "Thu, 09 Dec 2021 00:23:06 GMT";

    fn account() -> Account {
        let text = format!("{WELL_KNOWN_ACCOUNT}:{WELL_KNOWN_KEY}");
        Accounts::parse(&text).unwrap().remove(0)
    }

    fn check(headers: &[(&'static str, &str)], now: &str) -> Result<(), ErrorCode> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let presented = Presented {
            method: "GET",
            path: "/devstoreaccount1/Orders()",
            comp: None,
            headers: &map,
            now: Timestamp::parse_rfc1123(now).unwrap(),
            date_check: true,
            challenge: false,
        };
        authenticate(&account(), &presented).map(|_| ()).map_err(|error| error.code)
    }

    /// The vector AV-2.
    const SIGNED: &str =
        "SharedKeyLite devstoreaccount1:BiXBNxcCbxj1LL6VyhNX12HqC5V/0FTVn3IJusRly+w=";

    #[test]
    fn x_ms_date_wins_over_date() {
        // TR-94: an emulator takes Date first.
        let other = ("date", "Thu, 09 Dec 2021 00:20:00 GMT");
        let headers = [("x-ms-date", DATE), other, ("authorization", SIGNED)];
        assert_eq!(check(&headers, DATE), Ok(()));
        assert_eq!(check(&[("date", DATE), ("authorization", SIGNED)], DATE), Ok(()));
    }

    #[test]
    fn the_date_must_be_within_fifteen_minutes() {
        let headers = [("x-ms-date", DATE), ("authorization", SIGNED)];
        let failed = Err(ErrorCode::AuthenticationFailed);
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:38:06 GMT"), Ok(()));
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:38:07 GMT"), failed);
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:08:06 GMT"), Ok(()));
        assert_eq!(check(&headers, "Thu, 09 Dec 2021 00:08:05 GMT"), failed);
        assert_eq!(check(&[("authorization", SIGNED)], DATE), failed);
    }

    #[test]
    fn anything_else_is_refused() {
        let failed = Err(ErrorCode::AuthenticationFailed);
        let malformed = Err(ErrorCode::InvalidAuthenticationInfo);
        let with = |text| check(&[("x-ms-date", DATE), ("authorization", text)], DATE);
        assert_eq!(check(&[("x-ms-date", DATE)], DATE), failed);
        assert_eq!(with("SharedKeyLite devstoreaccount1:AAAA"), failed);
        assert_eq!(with(&SIGNED.replace("devstoreaccount1", "other")), failed);
        assert_eq!(with(&SIGNED.replace("SharedKeyLite", "SharedKey")), failed);
        assert_eq!(with("SharedKey devstoreaccount1"), malformed);
        assert_eq!(with("Basic abc"), malformed);
    }
}
