//! The rules of the specification that no trap or vector covers, section by section.

mod analytics;
mod atom;
mod authorization;
mod batches;
mod cors;
mod entities;
mod errors;
mod headers;
mod mutations;
mod old_clients;
mod payloads;
mod queries;
mod service;
mod simulate;
mod urls;
mod versions;
