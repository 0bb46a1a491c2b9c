//! Protocol versions: the dates in `x-ms-version`, `api-version` and `sv`, and the features of
//! each.

use crate::media::AtomForm;
use lazuli_model::time::days_in_month;
use std::fmt;

/// A version of the protocol, ordered by its date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    year: u16,
    month: u8,
    day: u8,
}

/// The versions the service knows, newest first (T-2.6).
const KNOWN: [ApiVersion; 48] = [
    version(2026, 6, 6),
    version(2026, 4, 6),
    version(2026, 2, 6),
    version(2025, 11, 5),
    version(2025, 7, 5),
    version(2025, 5, 5),
    version(2025, 1, 5),
    version(2024, 11, 4),
    version(2024, 8, 4),
    version(2024, 5, 4),
    version(2024, 2, 4),
    version(2023, 11, 3),
    version(2023, 8, 3),
    version(2023, 1, 3),
    version(2022, 11, 2),
    version(2021, 12, 2),
    version(2021, 10, 4),
    version(2021, 8, 6),
    version(2021, 6, 8),
    version(2021, 4, 10),
    version(2021, 2, 12),
    version(2020, 12, 6),
    version(2020, 10, 2),
    version(2020, 8, 4),
    version(2020, 6, 12),
    version(2020, 4, 8),
    version(2020, 2, 10),
    version(2019, 12, 12),
    version(2019, 10, 10),
    version(2019, 7, 7),
    version(2019, 2, 2),
    version(2018, 11, 9),
    version(2018, 3, 28),
    version(2017, 11, 9),
    version(2017, 7, 29),
    version(2017, 4, 17),
    version(2016, 5, 31),
    version(2015, 12, 11),
    version(2015, 7, 8),
    version(2015, 4, 5),
    version(2015, 2, 21),
    version(2014, 2, 14),
    version(2013, 8, 15),
    version(2012, 2, 12),
    version(2011, 8, 18),
    version(2009, 9, 19),
    version(2009, 7, 17),
    version(2009, 4, 14),
];

impl ApiVersion {
    /// The newest version known.
    pub const NEWEST: Self = version(2026, 6, 6);
    /// The lowest version, for features that always existed.
    pub const FIRST: Self = version(0, 0, 0);
    /// The first with access policies for tables and queues, and service SAS.
    pub const ACCESS_POLICIES: Self = version(2012, 2, 12);
    /// The first with Update Message (2.3 of the Queue rules).
    pub const UPDATE_MESSAGE: Self = version(2011, 8, 18);
    /// The first with Get Service Stats.
    pub const SERVICE_STATS: Self = version(2013, 8, 15);
    /// The version of a Shared Key request that names none (T-2.10).
    pub const UNSTATED: Self = version(2009, 9, 19);

    /// Parses `YYYY-MM-DD`; `None` when `text` is not a date of the calendar (T-2.9).
    /// [`ApiVersion::is_known`] says whether the service published the version.
    pub fn parse(text: &str) -> Option<Self> {
        let &[y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = text.as_bytes() else { return None };
        let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
        let two = |tens, ones| Some(digit(tens)? * 10 + digit(ones)?);
        let year = u16::from(two(y0, y1)?) * 100 + u16::from(two(y2, y3)?);
        let (month, day) = (two(m0, m1)?, two(d0, d1)?);
        let days = days_in_month(year.into(), month.into());
        (1..=days).contains(&u64::from(day)).then_some(Self { year, month, day })
    }

    pub fn is_known(self) -> bool {
        KNOWN.contains(&self)
    }

    /// Every version the service knows, newest first.
    pub fn known() -> impl Iterator<Item = Self> {
        KNOWN.into_iter()
    }

    /// Insert Or Replace, Insert Or Merge (T-5.40).
    pub fn has_upsert(self) -> bool {
        self >= version(2011, 8, 18)
    }

    /// `$select` (T-4.45c).
    pub fn has_select(self) -> bool {
        self >= version(2011, 8, 18)
    }

    /// JSON payloads (T-2.12).
    pub fn has_json(self) -> bool {
        self >= version(2013, 8, 15)
    }

    /// Atom payloads: refused from 2015-12-11 on (T-2.12).
    pub fn has_atom(self) -> bool {
        self < version(2015, 12, 11)
    }

    /// How Atom is written (T-2.64a).
    pub fn atom_form(self) -> AtomForm {
        match self >= version(2013, 8, 15) {
            true => AtomForm::Compact,
            false => AtomForm::Indented,
        }
    }

    /// `odata.etag` in JSON with minimal metadata (T-2.32a).
    pub fn has_minimal_etag(self) -> bool {
        self >= version(2015, 4, 5)
    }

    /// `x-ms-error-code` on responses (T-2.60, Q-2.17).
    pub fn has_error_code_header(self) -> bool {
        self >= version(2017, 7, 29)
    }

    /// Hour and minute metrics, CORS, and partial updates of settings (T-9.7, T-9.14).
    pub fn has_partial_service_properties(self) -> bool {
        self >= version(2013, 8, 15)
    }

    /// `Prefer` (2.2).
    pub fn has_prefer(self) -> bool {
        self >= version(2013, 8, 15)
    }

    /// `/table` or `/queue` before the account in what a service SAS signs.
    pub fn signs_service_prefix(self) -> bool {
        self >= version(2015, 2, 21)
    }

    /// Account SAS; `sip` and `spr` in what a service SAS signs.
    pub fn has_account_sas(self) -> bool {
        self >= version(2015, 4, 5)
    }

    /// Content-Length 0 is signed as empty; before, as `0`.
    pub fn signs_no_zero_length(self) -> bool {
        self >= version(2015, 2, 21)
    }

    /// Bearer tokens with a challenge of the Table service.
    pub fn has_bearer_challenge(self) -> bool {
        self >= version(2020, 12, 6)
    }

    /// Bearer tokens of the Queue and Blob services.
    pub fn has_bearer_tokens(self) -> bool {
        self >= version(2017, 11, 9)
    }

    /// The challenge of the Queue and Blob services to a request without credentials.
    pub fn has_challenge_of_queues(self) -> bool {
        self >= version(2019, 12, 12)
    }

    /// Visibility timeouts on Put Message and up to 7 days, messages of 64 KiB (2.3 of the Queue
    /// rules).
    pub fn has_large_messages(self) -> bool {
        self >= Self::UPDATE_MESSAGE
    }

    /// `ServiceEndpoint` in a listing, and no `Url`.
    pub fn has_service_endpoint(self) -> bool {
        self >= version(2013, 8, 15)
    }

    /// Put Message returns a body, and Get Messages writes DequeueCount after the receipt (Q-2.16,
    ///
    pub fn has_put_message_body(self) -> bool {
        self >= version(2016, 5, 31)
    }

    /// Messages that live longer than 7 days, or forever.
    pub fn has_long_time_to_live(self) -> bool {
        self >= version(2017, 7, 29)
    }

    /// `rscc` to `rsct` in what a SAS of a blob signs.
    pub fn signs_response_headers(self) -> bool {
        self >= version(2013, 8, 15)
    }

    /// `sr` and the snapshot in what a SAS of a blob signs, and user delegation (B-3.25).
    pub fn signs_blob_resource(self) -> bool {
        self >= version(2018, 11, 9)
    }

    /// `saoid`, `suoid` and `scid` in what a user delegation SAS of a blob signs (B-3.25).
    pub fn signs_delegation_agents(self) -> bool {
        self >= version(2020, 2, 10)
    }

    /// `skdutid` and `sduoid` in the same (B-3.25).
    pub fn signs_delegate(self) -> bool {
        self >= version(2025, 7, 5)
    }

    /// `srh` and `srq` in the same (B-3.25).
    pub fn signs_request_headers(self) -> bool {
        self >= version(2026, 4, 6)
    }

    /// `ses` in what an account SAS signs.
    pub fn signs_encryption_scope(self) -> bool {
        self >= version(2020, 12, 6)
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

const fn version(year: u16, month: u8, day: u8) -> ApiVersion {
    ApiVersion { year, month, day }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> ApiVersion {
        ApiVersion::parse(text).unwrap()
    }

    #[test]
    fn versions_are_dates_and_print_as_parsed() {
        for version in ApiVersion::known() {
            assert_eq!(ApiVersion::parse(&version.to_string()), Some(version));
        }
        assert!(ApiVersion::known().is_sorted_by(|a, b| a > b));
        assert_eq!(ApiVersion::known().next(), Some(ApiVersion::NEWEST));
    }

    /// The last is recorded as refused, T-2.8.
    #[test]
    fn what_is_no_date_is_no_version() {
        for text in ["", "2019-2-02", "2019-02-02 ", "+019-02-02", "12.0.0b1"] {
            assert_eq!(ApiVersion::parse(text), None, "{text:?}");
        }
        for text in ["2019-13-01", "2019-00-01", "2019-01-00", "2019-02-31", "2019-02-29"] {
            assert_eq!(ApiVersion::parse(text), None, "{text:?}");
        }
        assert!(ApiVersion::parse("2020-02-29").is_some());
        assert!(!parsed("2019-02-03").is_known());
    }

    #[test]
    fn payload_formats_depend_on_the_version() {
        let formats = |text| (parsed(text).has_json(), parsed(text).has_atom());
        assert_eq!(formats("2012-02-12"), (false, true));
        assert_eq!(formats("2013-08-15"), (true, true));
        assert_eq!(formats("2015-07-08"), (true, true));
        assert_eq!(formats("2015-12-11"), (true, false));
    }

    proptest! {
        #[test]
        fn parse_never_panics(text in any::<String>()) {
            let _ = ApiVersion::parse(&text);
        }
    }
}
