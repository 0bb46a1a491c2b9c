//! Maps method, path and query to an [`Operation`] and its [`Resource`]; no I/O.

use crate::error::{ApiResult, invalid_parameter};
use crate::operation::Verb;
use crate::queue::error::{missing_parameter, unsupported_verb};
use crate::queue::operation::{Operation, Resource};
use crate::queue::parameters::{NUM_OF_MESSAGES, value};
use lazuli_model::{MessageId, QueueName};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::uri::Query;

/// Determines the operation and its resource. `path` follows the account, decoded once.
pub(crate) fn resolve(
    verb: Verb,
    path: &str,
    query: &Query<'_>,
) -> ApiResult<(Operation, Resource)> {
    let path = path.strip_prefix('/').unwrap_or(path);
    // A trailing slash is ignored.
    let path = path.strip_suffix('/').unwrap_or(path);
    let comp = value(query, "comp");
    let mut segments = path.splitn(3, '/');
    let (queue, part, id) = (segments.next(), segments.next(), segments.next());
    let resource = match (queue.unwrap_or_default(), part, id) {
        ("", None, None) => service(comp, query)?,
        (queue, None, None) => queue_or_settings(QueueName::parse(queue)?, comp)?,
        (queue, Some("messages"), id) => {
            let queue = QueueName::parse(queue)?;
            refuse_comp(comp)?;
            match id {
                None => messages(queue, query),
                Some(id) => Resource::Message { queue, id: MessageId::parse(id) },
            }
        }
        (queue, ..) => {
            QueueName::parse(queue)?;
            return Err(ErrorCode::InvalidUri.into());
        }
    };
    let operation = Operation::find(verb, &resource).ok_or_else(unsupported_verb)?;
    Ok((operation, resource))
}

fn service(comp: Option<&str>, query: &Query<'_>) -> ApiResult<Resource> {
    let resource = match comp {
        // Listing needs no restype.
        Some("list") => return Ok(Resource::Queues),
        Some("properties") => Resource::ServiceProperties,
        Some("stats") => Resource::ServiceStats,
        Some("userdelegationkey") => Resource::UserDelegationKey,
        Some(other) => return Err(impossible("comp", other)),
        None => return Err(missing_parameter("comp")),
    };
    match value(query, "restype") {
        Some("service") => Ok(resource),
        Some(other) => Err(impossible("restype", other)),
        None => Err(missing_parameter("restype")),
    }
}

fn queue_or_settings(queue: QueueName, comp: Option<&str>) -> ApiResult<Resource> {
    match comp {
        None => Ok(Resource::Queue { queue }),
        Some("metadata") => Ok(Resource::Metadata { queue }),
        Some("acl") => Ok(Resource::Acl { queue }),
        Some(other) => Err(impossible("comp", other)),
    }
}

/// Every value of `peekonly` except `true` gets messages.
fn messages(queue: QueueName, query: &Query<'_>) -> Resource {
    let is_peek = value(query, "peekonly").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let is_several = value(query, NUM_OF_MESSAGES).is_some_and(|number| number != "1");
    Resource::Messages { queue, is_peek, is_several }
}

fn refuse_comp(comp: Option<&str>) -> ApiResult<()> {
    comp.map_or(Ok(()), |comp| Err(impossible("comp", comp)))
}

/// A value that the resource does not support.
fn impossible(name: &str, value: &str) -> crate::error::ApiError {
    invalid_parameter(name, value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(method: &str, target: &str, expect: Result<&str, ErrorCode>) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let got = resolve(Verb::parse(method), path, &Query::parse(query).unwrap());
        let got = got.map(|(operation, _)| operation.facts().name).map_err(|error| error.code);
        assert_eq!(got, expect, "{method} {target}");
    }

    /// The table of Q-1.
    #[test]
    fn each_resource_has_its_verbs() {
        check("GET", "/?comp=list", Ok("ListQueues"));
        check("GET", "?comp=list", Ok("ListQueues"));
        check("GET", "/?restype=service&comp=properties", Ok("GetQueueServiceProperties"));
        check("PUT", "/?comp=properties&restype=service", Ok("SetQueueServiceProperties"));
        check("GET", "/?restype=service&comp=stats", Ok("GetQueueServiceStats"));
        check("POST", "/?restype=service&comp=userdelegationkey", Ok("GetUserDelegationKey"));
        check("PUT", "/orders", Ok("CreateQueue"));
        check("DELETE", "/orders", Ok("DeleteQueue"));
        check("GET", "/orders?comp=metadata", Ok("GetQueueMetadata"));
        check("HEAD", "/orders?comp=metadata", Ok("GetQueueMetadata"));
        check("PUT", "/orders?comp=metadata", Ok("SetQueueMetadata"));
        check("HEAD", "/orders?comp=acl", Ok("GetQueueAcl"));
        check("PUT", "/orders?comp=acl", Ok("SetQueueAcl"));
        check("POST", "/orders/messages", Ok("PutMessage"));
        check("GET", "/orders/messages", Ok("GetMessage"));
        check("GET", "/orders/messages?numofmessages=1", Ok("GetMessage"));
        check("GET", "/orders/messages?numofmessages=2", Ok("GetMessages"));
        check("GET", "/orders/messages?peekonly=true", Ok("PeekMessage"));
        check("GET", "/orders/messages?PeekOnly=True&numofmessages=9", Ok("PeekMessages"));
        check("GET", "/orders/messages?peekonly=false", Ok("GetMessage"));
        check("DELETE", "/orders/messages", Ok("ClearMessages"));
        check("PUT", "/orders/messages/x", Ok("UpdateMessage"));
        check("DELETE", "/orders/messages/x?popreceipt=a", Ok("DeleteMessage"));
    }

    ///
    #[test]
    fn slashes_at_the_end_and_the_case_of_names_do_not_matter() {
        check("PUT", "/orders/", Ok("CreateQueue"));
        check("POST", "/orders/messages/", Ok("PutMessage"));
        check("GET", "/orders?Comp=metadata&unknown=1", Ok("GetQueueMetadata"));
        check("PUT", "/orders?comp=", Ok("CreateQueue"));
    }

    /// TQ-14, QV-3, QV-4.
    #[test]
    fn names_are_judged_before_anything_else() {
        for name in ["/Orders", "/or--ders", "/-orders", "/or_ders", "/啊", "/{queueName}", "/A"] {
            check("PUT", name, Err(ErrorCode::InvalidResourceName));
        }
        check("PUT", "/ab", Err(ErrorCode::OutOfRangeInput));
        check(
            "GET",
            &format!("/{}/messages?comp=x", "a".repeat(64)),
            Err(ErrorCode::OutOfRangeInput),
        );
        check("PATCH", "/ab?comp=nonsense", Err(ErrorCode::OutOfRangeInput));
    }

    /// TQ-24: `DELETE /{queue}?comp=acl` deleted the queue.
    #[test]
    fn what_is_no_operation_is_refused() {
        check("DELETE", "/orders?comp=acl", Err(ErrorCode::UnsupportedHttpVerb));
        check("GET", "/orders", Err(ErrorCode::UnsupportedHttpVerb));
        check("POST", "/orders", Err(ErrorCode::UnsupportedHttpVerb));
        check("GET", "/orders/messages/x", Err(ErrorCode::UnsupportedHttpVerb));
        check("GET", "/orders?comp=list", Err(ErrorCode::InvalidQueryParameterValue));
        check("GET", "/?comp=nonsense", Err(ErrorCode::InvalidQueryParameterValue));
        check("GET", "/orders/messages?comp=acl", Err(ErrorCode::InvalidQueryParameterValue));
        check("GET", "/?restype=x&comp=stats", Err(ErrorCode::InvalidQueryParameterValue));
        check("GET", "/?comp=stats", Err(ErrorCode::MissingRequiredQueryParameter));
        check("GET", "/", Err(ErrorCode::MissingRequiredQueryParameter));
        check("GET", "/orders/other", Err(ErrorCode::InvalidUri));
    }
}
