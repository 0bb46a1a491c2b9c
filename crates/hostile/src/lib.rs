//! Hostile input: what every parser must survive, and malformed HTTP for a live server.
//!
//! A [`Target`] feeds bytes to one parser and asserts invariants for any input: the parser does not
//! panic, and a value survives a round trip. libFuzzer (`fuzz/`), our own fuzzer ([`drive`]) and
//! the ordinary tests run the same targets, from one corpus.

#[cfg(feature = "drive")]
pub mod drive;
mod forged;
#[cfg(feature = "drive")]
pub mod http;
mod queue;
mod stored;
mod wire;

/// A parser under attack.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its fuzz target and of its corpus.
    pub name: &'static str,
    /// Panics if an assertion fails.
    pub run: fn(&[u8]),
    /// Keywords of its language, for fuzzers to insert.
    pub words: &'static [&'static str],
}

/// Every parser of untrusted input, from clients or a damaged disk.
pub const TARGETS: [Target; 15] = [
    wire::FILTER,
    wire::MULTIPART,
    wire::JSON,
    wire::ATOM,
    wire::XML,
    wire::URL,
    wire::CREDENTIAL,
    wire::CONTINUATION,
    stored::KEY,
    stored::RECORD,
    queue::QUEUE_XML,
    queue::QUEUE_URL,
    queue::QUEUE_CREDENTIAL,
    queue::QUEUE_RECORD,
    queue::RECEIPT,
];

/// Runs the target of this name, as a fuzzer does.
///
/// # Panics
///
/// When the input violates an invariant, or there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        panic!("no target is called '{name}'");
    };
    (target.run)(input);
}
