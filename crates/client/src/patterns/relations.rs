//! Relationships between entities (P-12): parents, collections, links both ways, client-side joins.
//!
//! | relationship | API |
//! | --- | --- |
//! | one to many, in one partition | [`Collection`], [`Table::with_parent`](crate::Table::with_parent), [`Table::insert_with_parent`](crate::Table::insert_with_parent) |
//! | one to one | [`Link`](crate::Link), [`link_pair`], [`LinkBoth`], [`broken_links`] |
//! | many to one, with a small table | [`Lookup`] |
//! | an entity moves to another parent | [`rehome`], [`find_rehomed`] |

mod collection;
mod links;
mod lookup;
mod parent;
pub(in crate::patterns) mod rehome;

pub use collection::Collection;
pub use links::{LinkBoth, broken_links, link_pair};
pub use lookup::{Joined, Lookup};
pub use rehome::{find_rehomed, rehome};
