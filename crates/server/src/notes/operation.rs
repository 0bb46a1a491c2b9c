//! The operations on notes, and their resources.

use crate::operation::{Access, AccountSas, Answer, Body, Facts, Kind, Role, operations};
use lazuli_wire::sas::{Permissions, ResourceTypes};
use lazuli_wire::version::ApiVersion;

pub(crate) enum NoteResource {
    /// `/?comp=list`
    All,
    /// `/name`
    Note(String),
}

operations! {
    pub(crate) enum NoteOperation on NoteResource {
        ListNotes: [Get] NoteResource::All => {
            name: "ListNotes",
            kind: Kind::List,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(ResourceTypes::SERVICE, Permissions::LIST)),
            role: Role::Service(Permissions::READ),
        }
        GetNote: [Get Head] NoteResource::Note(_) => {
            name: "GetNote",
            kind: Kind::PointRead,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: Some(Permissions::READ),
            account_sas: Some(AccountSas::new(ResourceTypes::OBJECT, Permissions::READ)),
            role: Role::Object(Permissions::READ),
        }
        PutNote: [Put] NoteResource::Note(_) => {
            name: "PutNote",
            kind: Kind::Write,
            since: ApiVersion::SERVICE_STATS,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: Some(Permissions::WRITE),
            account_sas: Some(AccountSas::new(ResourceTypes::OBJECT, Permissions::WRITE)),
            role: Role::Object(Permissions::WRITE),
        }
    }
}

pub(super) const PREFLIGHT: Facts = Facts::preflight("NotePreflight", Answer::Xml);
