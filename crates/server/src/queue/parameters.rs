//! The query parameters of the Queue service: numbers with ranges, receipts, flags.

use crate::error::{ApiError, ApiResult, invalid_parameter};
use crate::queue::error::{missing_parameter, parameter_out_of_range};
use lazuli_model::limits::{
    MESSAGES_PER_GET_MAX, QUEUES_PER_PAGE_MAX, TIME_TO_LIVE_SECONDS_MAX_2009,
    VISIBILITY_SECONDS_MAX_2009, VISIBILITY_SECONDS_OF_GET,
};
use lazuli_model::{PopReceipt, PutTimes, TimeToLive, VisibilityTimeout};
use lazuli_wire::pop_receipt;
use lazuli_wire::uri::Query;
use lazuli_wire::version::ApiVersion;
use std::ops::RangeInclusive;

pub(crate) const NUM_OF_MESSAGES: &str = "numofmessages";
const VISIBILITY_TIMEOUT: &str = "visibilitytimeout";
const MESSAGE_TTL: &str = "messagettl";
const POP_RECEIPT: &str = "popreceipt";
const MAX_RESULTS: &str = "maxresults";
const INCLUDE: &str = "include";

/// The reason for an invalid number. The service's own text is not known.
const NOT_A_NUMBER: &str = "Not a valid integer";
/// The largest time to live shown in a response. Larger ones are accepted.
const TIME_TO_LIVE_SHOWN_MAX: i64 = i32::MAX as i64;

/// The value of a parameter; names are case-insensitive, and an empty value counts as absent
///
pub(crate) fn value<'q>(query: &'q Query<'_>, name: &str) -> Option<&'q str> {
    query.find(name).filter(|value| !value.is_empty())
}

/// Maximum messages that Get Messages and Peek Messages return.
pub(crate) fn number_of_messages(query: &Query<'_>) -> ApiResult<usize> {
    let range = 1..=MESSAGES_PER_GET_MAX as i64;
    let number = number_in(query, NUM_OF_MESSAGES, &range)?.unwrap_or(1);
    Ok(usize::try_from(number).unwrap_or(MESSAGES_PER_GET_MAX))
}

/// The visibility timeout of Get Messages.
pub(crate) fn visibility_of_get(
    query: &Query<'_>,
    version: ApiVersion,
) -> ApiResult<VisibilityTimeout> {
    let range = up_to_2009(VisibilityTimeout::SECONDS_OF_GET, version);
    let seconds = number_in(query, VISIBILITY_TIMEOUT, &range)?;
    let seconds = seconds.unwrap_or(VISIBILITY_SECONDS_OF_GET.into());
    Ok(VisibilityTimeout::of_get(seconds).unwrap_or(VisibilityTimeout::NONE))
}

/// The visibility timeout of Update Message, which is required.
pub(crate) fn visibility_of_update(query: &Query<'_>) -> ApiResult<VisibilityTimeout> {
    visibility_of_put(query)?.ok_or_else(|| missing_parameter(VISIBILITY_TIMEOUT))
}

fn visibility_of_put(query: &Query<'_>) -> ApiResult<Option<VisibilityTimeout>> {
    let range = VisibilityTimeout::SECONDS_OF_PUT_AND_UPDATE;
    let seconds = number_in(query, VISIBILITY_TIMEOUT, &range)?;
    Ok(seconds.and_then(VisibilityTimeout::of_put_or_update))
}

/// The times of Put Message.
pub(crate) fn put_times(query: &Query<'_>, version: ApiVersion) -> ApiResult<PutTimes> {
    let visibility = match version.has_large_messages() {
        true => visibility_of_put(query)?,
        false => None,
    };
    let visibility = visibility.unwrap_or(VisibilityTimeout::NONE);
    let time_to_live = time_to_live(query, version)?;
    PutTimes::new(visibility, time_to_live)
        .map_err(|error| visibility_too_long(visibility, &error.to_string()))
}

/// A visibility timeout that ends after the message has expired.
pub(crate) fn visibility_too_long(visibility: VisibilityTimeout, reason: &str) -> ApiError {
    invalid_parameter(VISIBILITY_TIMEOUT, &visibility.seconds().to_string(), reason)
}

fn time_to_live(query: &Query<'_>, version: ApiVersion) -> ApiResult<TimeToLive> {
    let Some((text, seconds)) = number(query, MESSAGE_TTL)? else {
        return Ok(TimeToLive::default());
    };
    let seconds_max_2009 = TIME_TO_LIVE_SECONDS_MAX_2009 as i64;
    if !version.has_long_time_to_live() && !(1..=seconds_max_2009).contains(&seconds) {
        return Err(parameter_out_of_range(MESSAGE_TTL, text, 1, seconds_max_2009));
    }
    let out_of_range = || parameter_out_of_range(MESSAGE_TTL, text, 1, TIME_TO_LIVE_SHOWN_MAX);
    TimeToLive::parse(seconds).ok_or_else(out_of_range)
}

/// The receipt that Update Message and Delete Message need. Its format is checked before the store
/// is read (Q-6.41, Q-6.43, TQ-28, TQ-29).
pub(crate) fn pop_receipt(query: &Query<'_>) -> ApiResult<PopReceipt> {
    let text = value(query, POP_RECEIPT).ok_or_else(|| missing_parameter(POP_RECEIPT))?;
    pop_receipt::parse(text)
        .map_err(|error| invalid_parameter(POP_RECEIPT, text, &error.to_string()))
}

/// The page size of a listing: the text as sent, and the effective number.
pub(crate) fn max_results<'q>(query: &'q Query<'_>) -> ApiResult<(&'q str, usize)> {
    let Some((text, number)) = number(query, MAX_RESULTS)? else {
        return Ok(("", QUEUES_PER_PAGE_MAX));
    };
    if number < 1 {
        let max = QUEUES_PER_PAGE_MAX as i64;
        return Err(parameter_out_of_range(MAX_RESULTS, text, 1, max));
    }
    Ok((text, usize::try_from(number).unwrap_or(usize::MAX).min(QUEUES_PER_PAGE_MAX)))
}

/// Whether a listing includes metadata (Q-5.4, Q-5.6, Q-5.13, TQ-20).
pub(crate) fn includes_metadata(query: &Query<'_>) -> ApiResult<bool> {
    match value(query, INCLUDE) {
        None => Ok(false),
        Some(text) if text.eq_ignore_ascii_case("metadata") => Ok(true),
        Some(other) => Err(invalid_parameter(INCLUDE, other, "")),
    }
}

fn up_to_2009(range: RangeInclusive<i64>, version: ApiVersion) -> RangeInclusive<i64> {
    match version.has_large_messages() {
        true => range,
        false => *range.start()..=VISIBILITY_SECONDS_MAX_2009.into(),
    }
}

fn number_in(query: &Query<'_>, name: &str, range: &RangeInclusive<i64>) -> ApiResult<Option<i64>> {
    match number(query, name)? {
        Some((text, number)) if !range.contains(&number) => {
            Err(parameter_out_of_range(name, text, *range.start(), *range.end()))
        }
        number => Ok(number.map(|(_, number)| number)),
    }
}

/// A whole number and its text; one too large for the type counts as the largest.
fn number<'q>(query: &'q Query<'_>, name: &str) -> ApiResult<Option<(&'q str, i64)>> {
    let Some(text) = value(query, name) else { return Ok(None) };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_parameter(name, text, NOT_A_NUMBER));
    }
    let saturated = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    Ok(Some((text, text.parse().unwrap_or(saturated))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_wire::error_code::ErrorCode;

    fn query(text: &str) -> Query<'_> {
        Query::parse(text).unwrap()
    }

    fn version(text: &str) -> ApiVersion {
        ApiVersion::parse(text).unwrap()
    }

    /// The code of a refusal and its details.
    fn refusal<T>(result: ApiResult<T>) -> (ErrorCode, String) {
        let error = result.err().unwrap();
        let details = error.details.iter().map(|(name, text)| format!("{name}={text}"));
        (error.code, details.collect::<Vec<_>>().join(" "))
    }

    /// QV-14: recorded with 100.
    #[test]
    fn messages_of_a_get_are_1_to_32() {
        assert_eq!(number_of_messages(&query("")).unwrap(), 1);
        assert_eq!(number_of_messages(&query("NumOfMessages=32")).unwrap(), 32);
        assert_eq!(
            refusal(number_of_messages(&query("numofmessages=33"))),
            (
                ErrorCode::OutOfRangeQueryParameterValue,
                "QueryParameterName=numofmessages QueryParameterValue=33 MinimumAllowed=1 \
                 MaximumAllowed=32"
                    .to_owned()
            )
        );
        // TQ-34.
        let code = refusal(number_of_messages(&query("numofmessages=1.5"))).0;
        assert_eq!(code, ErrorCode::InvalidQueryParameterValue);
    }

    /// TQ-36, QV-15.
    #[test]
    fn a_get_hides_messages_for_at_least_a_second() {
        let newest = ApiVersion::NEWEST;
        let get = |text| visibility_of_get(&query(text), newest).map(VisibilityTimeout::seconds);
        assert_eq!(get("").unwrap(), 30);
        assert_eq!(get("visibilitytimeout=604800").unwrap(), 604_800);
        assert_eq!(refusal(get("visibilitytimeout=0")).0, ErrorCode::OutOfRangeQueryParameterValue);
        assert!(get("visibilitytimeout=604801").is_err());
        let old = visibility_of_get(&query("visibilitytimeout=7201"), version("2009-09-19"));
        assert!(refusal(old).1.ends_with("MaximumAllowed=7200"));
        assert_eq!(visibility_of_update(&query("visibilitytimeout=0")).unwrap().seconds(), 0);
        assert_eq!(
            refusal(visibility_of_update(&query("visibilitytimeout="))),
            (
                ErrorCode::MissingRequiredQueryParameter,
                "QueryParameterName=visibilitytimeout".to_owned()
            )
        );
    }

    /// TQ-33, QV-10, QV-26.
    #[test]
    fn a_message_lives_longer_than_it_is_hidden() {
        let put = |text, at| put_times(&query(text), version(at));
        let forever = put("messagettl=-1", "2017-07-29").unwrap();
        assert_eq!(forever.time_to_live(), TimeToLive::Never);
        assert!(put("messagettl=99999999999999999999", "2021-02-12").is_ok());
        assert!(put("messagettl=1073741824", "2021-02-12").is_ok());
        for old in ["messagettl=-1", "messagettl=604801", "messagettl=0"] {
            let (code, details) = refusal(put(old, "2017-04-17"));
            assert_eq!(code, ErrorCode::OutOfRangeQueryParameterValue);
            assert!(details.ends_with("MinimumAllowed=1 MaximumAllowed=604800"), "{details}");
        }
        for bad in ["messagettl=0", "messagettl=-2", "messagettl=1.5", "messagettl=a"] {
            assert!(put(bad, "2021-02-12").is_err(), "{bad}");
        }
        assert_eq!(
            refusal(put("messagettl=30&visibilitytimeout=30", "2019-02-02")),
            (
                ErrorCode::InvalidQueryParameterValue,
                "QueryParameterName=visibilitytimeout QueryParameterValue=30 Reason=messagettl must \
                 be greater than visibilitytimeout"
                    .to_owned()
            )
        );
    }

    /// QV-17: recorded with `invalid`, and with a good receipt and `Random`.
    #[test]
    fn receipts_of_another_form_are_refused() {
        let text = "popreceipt=AgAAAAMAAAAAAAAADNzHUEFxNQE%3DRandom";
        assert_eq!(
            refusal(pop_receipt(&query(text))),
            (
                ErrorCode::InvalidQueryParameterValue,
                "QueryParameterName=popreceipt QueryParameterValue=AgAAAAMAAAAAAAAADNzHUEFxNQE=\
                 Random Reason=Invalid pop receipt format"
                    .to_owned()
            )
        );
        let code = refusal(pop_receipt(&query("popreceipt="))).0;
        assert_eq!(code, ErrorCode::MissingRequiredQueryParameter);
    }

    /// TQ-20, TQ-21.
    #[test]
    fn a_page_has_1_to_5000_queues() {
        assert_eq!(max_results(&query("maxresults=")).unwrap(), ("", 5000));
        assert_eq!(max_results(&query("maxresults=6000")).unwrap(), ("6000", 5000));
        for (text, code) in [
            ("maxresults=0", ErrorCode::OutOfRangeQueryParameterValue),
            ("maxresults=-1", ErrorCode::OutOfRangeQueryParameterValue),
            ("maxresults=1.5", ErrorCode::InvalidQueryParameterValue),
        ] {
            assert_eq!(refusal(max_results(&query(text))).0, code, "{text}");
        }
        assert!(!includes_metadata(&query("include=")).unwrap());
        assert!(includes_metadata(&query("include=metadata")).unwrap());
        assert!(includes_metadata(&query("include=other")).is_err());
    }
}
