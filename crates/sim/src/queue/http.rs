//! The requests of a queue history as HTTP, and the meaning of the responses.

use super::history::{Held, Mark, Request, Response, Shown, Text};
use lazuli_model::{MessageId, PopReceipt, Timestamp};
use lazuli_testkit::http::{self as client, Operation};
use lazuli_wire::pop_receipt;
use std::fmt::Write;

/// Padding that makes a text too long to be stored in its message.
const PADDING: usize = 600;

/// The request to a queue; its path begins after the account.
pub fn sent(queue: &str, request: &Request) -> Operation {
    let plain =
        |method, path: String| Operation { method, path, headers: Vec::new(), body: String::new() };
    let with_metadata = |sent: Operation, metadata: &u32| Operation {
        headers: vec![("x-ms-meta-step", metadata.to_string())],
        ..sent
    };
    match request {
        Request::CreateQueue { metadata } => {
            with_metadata(plain("PUT", format!("/{queue}")), metadata)
        }
        Request::DeleteQueue => plain("DELETE", format!("/{queue}")),
        Request::GetMetadata => plain("GET", format!("/{queue}?comp=metadata")),
        Request::SetMetadata(metadata) => {
            with_metadata(plain("PUT", format!("/{queue}?comp=metadata")), metadata)
        }
        Request::GetAcl => plain("GET", format!("/{queue}?comp=acl")),
        Request::SetAcl(policy) => {
            Operation { body: policies(*policy), ..plain("PUT", format!("/{queue}?comp=acl")) }
        }
        Request::Clear => plain("DELETE", format!("/{queue}/messages")),
        Request::Put { mark, text, delay, time_to_live } => {
            let lives = time_to_live.map_or(-1, i64::from);
            let path = format!("/{queue}/messages?visibilitytimeout={delay}&messagettl={lives}");
            Operation { body: message(*mark, *text), ..plain("POST", path) }
        }
        Request::Get { max, visibility } => {
            let times = format!("numofmessages={max}&visibilitytimeout={visibility}");
            plain("GET", format!("/{queue}/messages?{times}"))
        }
        Request::Peek { max } => {
            plain("GET", format!("/{queue}/messages?peekonly=true&numofmessages={max}"))
        }
        Request::Update { held, visibility, text } => {
            let path = format!("{}&visibilitytimeout={visibility}", held_path(queue, held));
            let body = text.map(|text| message(held.mark, text)).unwrap_or_default();
            Operation { body, ..plain("PUT", path) }
        }
        Request::Delete(held) => plain("DELETE", held_path(queue, held)),
    }
}

fn held_path(queue: &str, held: &Held) -> String {
    let mut receipt = String::new();
    for letter in pop_receipt::to_text(held.receipt).chars() {
        let _ = match letter {
            '+' | '/' | '=' => write!(receipt, "%{:02X}", u32::from(letter)),
            letter => write!(receipt, "{letter}"),
        };
    }
    format!("/{queue}/messages/{}?popreceipt={receipt}", held.id)
}

fn message(mark: Mark, text: Text) -> String {
    let padding = "x".repeat(if text.is_long { PADDING } else { 0 });
    let text = format!("{mark} {} {padding}", text.number);
    format!("<QueueMessage><MessageText>{text}</MessageText></QueueMessage>")
}

fn policies(number: u32) -> String {
    format!(
        "<SignedIdentifiers><SignedIdentifier><Id>{number}</Id><AccessPolicy><Permission>r\
         </Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>"
    )
}

/// The meaning of the response; `None` if it is invalid.
pub fn read(request: &Request, answer: &client::Response) -> Option<Response> {
    let body = answer.text();
    match answer.status {
        status if status >= 400 => read_failure(request, status, &body),
        status => read_success(request, status, answer, &body),
    }
}

fn read_success(
    request: &Request,
    status: u16,
    answer: &client::Response,
    body: &str,
) -> Option<Response> {
    Some(match request {
        Request::CreateQueue { .. } => match status {
            201 => Response::Created,
            204 => Response::AlreadyThere,
            _ => return None,
        },
        Request::DeleteQueue
        | Request::Clear
        | Request::Delete(_)
        | Request::SetMetadata(_)
        | Request::SetAcl(_) => Response::Done,
        Request::GetMetadata => Response::Metadata {
            metadata: answer.header("x-ms-meta-step")?.parse().ok()?,
            count: answer.header("x-ms-approximate-messages-count")?.parse().ok()?,
        },
        Request::GetAcl => {
            Response::Acl(element(body, "Id").map_or(Some(0), |id| id.parse().ok())?)
        }
        Request::Put { .. } => Response::Put { id: id(body)?, receipt: receipt(body)? },
        Request::Get { .. } => Response::Messages(messages(body, true)?),
        Request::Peek { .. } => Response::Messages(messages(body, false)?),
        Request::Update { .. } => {
            Response::Updated(pop_receipt::parse(answer.header("x-ms-popreceipt")?).ok()?)
        }
    })
}

fn read_failure(request: &Request, status: u16, body: &str) -> Option<Response> {
    match (status, element(body, "Code")?, request) {
        (404, "QueueNotFound", _) => Some(Response::QueueNotFound),
        (409, "QueueAlreadyExists", Request::CreateQueue { .. }) => {
            Some(Response::QueueAlreadyExists)
        }
        (404, "MessageNotFound", Request::Update { .. } | Request::Delete(_)) => {
            Some(Response::MessageNotFound)
        }
        (400, "InvalidQueryParameterValue", Request::Update { .. }) => Some(Response::PastExpiry),
        (503, "ServerBusy", _) => Some(Response::NotDone),
        (500..600, ..) => Some(Response::Unknown),
        _ => None,
    }
}

fn messages(body: &str, has_receipt: bool) -> Option<Vec<Shown>> {
    let listed = body.split("<QueueMessage>").skip(1).map(|message| {
        let mut words = element(message, "MessageText")?.split(' ');
        let mark = words.next()?.parse().ok()?;
        let number = words.next()?.parse().ok()?;
        let is_long = match words.next()?.len() {
            0 => false,
            PADDING => true,
            _ => return None,
        };
        let receipt = match has_receipt {
            true => Some(receipt(message)?),
            false => None,
        };
        Some(Shown {
            mark,
            id: id(message)?,
            text: Text { number, is_long },
            dequeue_count: element(message, "DequeueCount")?.parse().ok()?,
            expires: Timestamp::parse_rfc1123(element(message, "ExpirationTime")?)?.ticks(),
            receipt,
        })
    });
    listed.collect()
}

fn id(xml: &str) -> Option<MessageId> {
    MessageId::parse(element(xml, "MessageId")?)
}

fn receipt(xml: &str) -> Option<PopReceipt> {
    pop_receipt::parse(element(xml, "PopReceipt")?).ok()
}

/// The text of the first element of this name.
fn element<'x>(xml: &'x str, name: &str) -> Option<&'x str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}
