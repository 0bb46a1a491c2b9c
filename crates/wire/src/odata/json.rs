//! Entities, tables and errors as OData JSON (section 2.5 of the specification).

mod answer;
mod cursor;
mod members;
mod read;
mod write;

pub use super::{BodyError, Context, EntityBody, Select};
pub use answer::{AnsweredEntity, read_answered_entity, read_error, read_feed, read_tables};
pub use read::{read_entity, read_table_name};
pub use write::{
    EntityCollection, TableCollection, write_entity, write_error, write_listed_entity,
    write_request, write_table, write_table_name, write_text_member,
};
