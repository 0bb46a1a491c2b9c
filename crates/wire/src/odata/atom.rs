//! Entities and tables as Atom, the format of versions before 2015-12-11 (section 2.9 of the
//! specification).
//!
//! The shapes, line ends and indents are those of public recordings of versions 2011-08-18 and
//! 2014-02-14.

mod read;
mod write;

pub use read::{read_entity, read_table_name};
pub use write::{EntityCollection, Envelope, TableCollection, write_entity, write_table};

const ATOM: &str = "http://www.w3.org/2005/Atom";
const DATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices";
const METADATA: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";
const SCHEME: &str = "http://schemas.microsoft.com/ado/2007/08/dataservices/scheme";
