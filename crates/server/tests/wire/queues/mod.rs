//! The Queue service seen from outside: recorded traffic of the live service, the conformance vectors,
//! and rules that neither covers.

mod access;
mod errors;
mod golden;
mod harness;
mod headers;
mod metadata;
mod traps;
mod vectors;

use harness::Answer;

/// Id and receipt of the first message of a response, ready for a URL.
fn held(answer: &Answer) -> (String, String) {
    let receipt = answer.element("PopReceipt").unwrap().replace('+', "%2B").replace('=', "%3D");
    (answer.element("MessageId").unwrap().to_owned(), receipt.replace('/', "%2F"))
}
