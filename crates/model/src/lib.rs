//! The domain types: names, keys, values, entities, filters, messages, time and limits.
//!
//! This crate depends on no other crate of ours, and has no async, no I/O, no HTTP, no
//! serialisation. Stored formats belong to `lazuli-layout`, wire formats to `lazuli-wire`. Values
//! are checked once, when they are parsed; code that receives them need not check again.

pub mod access_policy;
mod byte_set;
pub mod digits;
pub mod entity;
pub mod etag;
pub mod filter;
pub mod index;
pub mod key;
pub mod key_text;
pub mod limits;
pub mod message;
pub mod metadata;
pub mod metrics;
pub mod name;
pub mod service_properties;
pub mod settings;
pub mod time;
pub mod value;

pub use access_policy::{AccessPolicies, AccessPolicy};
pub use entity::{EntityError, Properties, PropertyLimits};
pub use etag::{ETag, IfMatch, IfMatchError};
pub use filter::{Filter, Operator, Property, Row};
pub use index::{IndexDefinition, IndexDefinitions, IndexError, IndexName};
pub use key::{EntityKey, KeyError, PartitionKey, RowKey};
pub use message::{
    MessageId, MessageText, MessageTooLarge, PopReceipt, PutTimes, TimeToLive,
    VisibilityNotBelowTimeToLive, VisibilityTimeout,
};
pub use metadata::{Metadata, MetadataError};
pub use name::{
    AccountName, BlobName, BlobNameError, ContainerName, ContainerNameError, Location, NameError,
    QueueName, QueueNameError, TableName,
};
pub use service_properties::{ServiceProperties, ServicePropertiesPatch};
pub use settings::{ChangeOperation, Expiry, Feed, FeedRetention, Images};
pub use time::{Clock, Interval, SystemClock, Timestamp};
pub use value::{EdmType, Guid, Value, ValueRef};
