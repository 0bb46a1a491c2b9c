//! Derived types: keys, properties, columns, unions. No server.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod keys;
mod properties;
mod serde_types;
mod unions;
