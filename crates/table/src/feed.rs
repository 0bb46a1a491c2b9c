//! The change feed of a table: every change of an entity, recorded in its own commit.
//!
//! Entries are derived writes that the engine appends (`derive.rs`), so they are in commit order.
//! `page.rs` reads them, `news.rs` wakes readers that wait for the next one, `settings.rs` turns a
//! feed on and off, and `retention.rs` drops what is old.
//!
//! # Invariants
//!
//! - Every view shows a prefix of a feed: with an entry it shows all earlier ones. With one writer,
//!   the engine promises this for appended keys. With many, every commit that appends to a feed also
//!   writes the *head* of the feed (`derive.rs`). So the store itself orders these commits: each is
//!   visible before the next gets its revision. What a view shows is the watermark.
//! - A position in a feed is a revision: entries of one commit are never separated.
//! - Entries are dropped only below the floor of the feed's record, after the floor was raised. A
//!   reader finds the floor in the view in which it reads the entries.
//! - A feed that is turned off and on again has a new number, and nothing from the earlier one.

pub(crate) mod news;
pub(crate) mod page;
mod retention;
mod settings;
pub(crate) mod verify;

pub use news::ChangeListener;
pub use page::{After, ChangeImage, ChangesPage, EntityChange, FeedToken, StoredChange};
pub use settings::FeedStatus;
