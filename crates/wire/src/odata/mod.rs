//! OData as the Table service uses it: filters, and entities in JSON and Atom.
//!
//! Reading turns bytes into an [`EntityBody`] that borrows from them; writing appends to a buffer
//! the caller owns. Neither builds a tree of the document.

pub mod atom;
pub mod body;
mod double;
pub mod filter;
pub mod json;
mod lexical;
pub mod select;

pub use body::{BodyError, EntityBody};
pub use select::{Select, SelectError};

use crate::media::MetadataLevel;

/// The inputs for the control information of a response.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The service root as the client addressed it, with its final slash:
    /// `http://127.0.0.1:10002/devstoreaccount1/` (T-1.6).
    pub base: &'a str,
    pub account: &'a str,
    /// The table's name as in the request's URL (T-1.11).
    pub table: &'a str,
    /// JSON only: Atom has one level.
    pub level: MetadataLevel,
    /// JSON only: whether minimal metadata has `odata.etag` (T-2.32a).
    pub minimal_etag: bool,
    pub select: Option<&'a Select>,
}
