//! The operations of the Queue service, one row each, and their resources.
//!
//! Section 10 of the Queue rules lists what credential each needs.

use crate::operation::letters::{
    ADD, CONTAINER, CREATE, DELETE, LIST, OBJECT, PROCESS, READ, SERVICE, UPDATE, WRITE,
};
use crate::operation::{Access, AccountSas, Answer, Body, Facts, Kind, Role, operations};
use lazuli_model::{MessageId, QueueName};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::version::ApiVersion;

/// The resource of a request, with its names parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// `/?comp=list`
    Queues,
    /// `/name`
    Queue { queue: QueueName },
    /// `/name?comp=metadata`
    Metadata { queue: QueueName },
    /// `/name?comp=acl`
    Acl { queue: QueueName },
    /// `/name/messages`; a read gets or only peeks at one or several messages.
    Messages { queue: QueueName, is_peek: bool, is_several: bool },
    /// `/name/messages/id`; an id that is not a GUID names no message.
    Message { queue: QueueName, id: Option<MessageId> },
    /// `/?restype=service&comp=properties`
    ServiceProperties,
    /// `/?restype=service&comp=stats`
    ServiceStats,
    /// `/?restype=service&comp=userdelegationkey`
    UserDelegationKey,
}

impl Resource {
    pub(crate) const fn queue(&self) -> Option<&QueueName> {
        match self {
            Self::Queue { queue }
            | Self::Metadata { queue }
            | Self::Acl { queue }
            | Self::Messages { queue, .. }
            | Self::Message { queue, .. } => Some(queue),
            Self::Queues
            | Self::ServiceProperties
            | Self::ServiceStats
            | Self::UserDelegationKey => None,
        }
    }
}

operations! {
    /// The operations. The frequent ones come first, because the router searches from the top.
    pub(crate) enum Operation on Resource {
        PutMessage: [Post] Resource::Messages { .. } => {
            name: "PutMessage",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: Some(ADD),
            account_sas: Some(AccountSas::new(OBJECT, ADD)),
            role: Role::Object(ADD),
        }

        /// It changes what it returns, so the secondary location refuses it.
        GetMessage: [Get] Resource::Messages { is_peek: false, is_several: false, .. } => {
            name: "GetMessage",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: Some(PROCESS),
            account_sas: Some(AccountSas::new(OBJECT, PROCESS)),
            role: Role::Object(PROCESS),
        }

        GetMessages: [Get] Resource::Messages { is_peek: false, is_several: true, .. } => {
            name: "GetMessages",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Writes,
            service_sas: Some(PROCESS),
            account_sas: Some(AccountSas::new(OBJECT, PROCESS)),
            role: Role::Object(PROCESS),
        }

        DeleteMessage: [Delete] Resource::Message { .. } => {
            name: "DeleteMessage",
            kind: Kind::Write,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: Some(PROCESS),
            account_sas: Some(AccountSas::new(OBJECT, PROCESS)),
            role: Role::Object(PROCESS),
        }

        UpdateMessage: [Put] Resource::Message { .. } => {
            name: "UpdateMessage",
            kind: Kind::Write,
            since: ApiVersion::UPDATE_MESSAGE,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: Some(UPDATE),
            account_sas: Some(AccountSas::new(OBJECT, UPDATE)),
            role: Role::Object(UPDATE),
        }

        PeekMessage: [Get] Resource::Messages { is_peek: true, is_several: false, .. } => {
            name: "PeekMessage",
            kind: Kind::PointRead,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT, READ)),
            role: Role::Object(READ),
        }

        PeekMessages: [Get] Resource::Messages { is_peek: true, is_several: true, .. } => {
            name: "PeekMessages",
            kind: Kind::Query,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(OBJECT, READ)),
            role: Role::Object(READ),
        }

        /// For all messages the resource type is `o` too (A-13.27, TQ-61).
        ClearMessages: [Delete] Resource::Messages { .. } => {
            name: "ClearMessages",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(OBJECT, DELETE)),
            role: Role::Object(DELETE),
        }

        GetQueueMetadata: [Get Head] Resource::Metadata { .. } => {
            name: "GetQueueMetadata",
            kind: Kind::PointRead,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: Some(READ),
            account_sas: Some(AccountSas::new(CONTAINER, READ)),
            role: Role::Container(READ),
        }

        SetQueueMetadata: [Put] Resource::Metadata { .. } => {
            name: "SetQueueMetadata",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(CONTAINER, WRITE)),
            role: Role::Container(WRITE),
        }

        CreateQueue: [Put] Resource::Queue { .. } => {
            name: "CreateQueue",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas { types: CONTAINER, any_of: [CREATE, WRITE] }),
            role: Role::Container(CREATE),
        }

        DeleteQueue: [Delete] Resource::Queue { .. } => {
            name: "DeleteQueue",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(CONTAINER, DELETE)),
            role: Role::Container(DELETE),
        }

        ListQueues: [Get] Resource::Queues => {
            name: "ListQueues",
            kind: Kind::List,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Page,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, LIST)),
            role: Role::Container(READ),
        }

        /// Access policies need the account key.
        GetQueueAcl: [Get Head] Resource::Acl { .. } => {
            name: "GetQueueAcl",
            kind: Kind::Settings,
            since: ApiVersion::ACCESS_POLICIES,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: None,
            role: Role::Nobody(ErrorCode::AuthorizationFailure),
        }

        SetQueueAcl: [Put] Resource::Acl { .. } => {
            name: "SetQueueAcl",
            kind: Kind::Settings,
            since: ApiVersion::ACCESS_POLICIES,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: None,
            role: Role::Nobody(ErrorCode::AuthorizationFailure),
        }

        GetServiceProperties: [Get] Resource::ServiceProperties => {
            name: "GetQueueServiceProperties",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, READ)),
            role: Role::Service(READ),
        }

        SetServiceProperties: [Put] Resource::ServiceProperties => {
            name: "SetQueueServiceProperties",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Writes,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, WRITE)),
            role: Role::Service(WRITE),
        }

        GetServiceStats: [Get] Resource::ServiceStats => {
            name: "GetQueueServiceStats",
            kind: Kind::Settings,
            since: ApiVersion::SERVICE_STATS,
            body: Body::None,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: Some(AccountSas::new(SERVICE, READ)),
            role: Role::Service(READ),
        }

        GetUserDelegationKey: [Post] Resource::UserDelegationKey => {
            name: "GetUserDelegationKey",
            kind: Kind::Settings,
            since: ApiVersion::FIRST,
            body: Body::Whole,
            answer: Answer::Xml,
            access: Access::Reads,
            service_sas: None,
            account_sas: None,
            role: Role::Delegation,
        }
    }
}

pub(crate) const PREFLIGHT: Facts = Facts::preflight("QueuePreflightRequest", Answer::Xml);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::check_rows;
    use std::collections::BTreeSet;

    /// The names of, except GetQueue, which is not an operation of the reference.
    #[test]
    fn operations_are_called_as_analytics_call_them() {
        let mut names: BTreeSet<_> = Operation::ALL.iter().map(|o| o.facts().name).collect();
        names.insert(PREFLIGHT.name);
        names.remove("GetUserDelegationKey");
        let of_analytics = BTreeSet::from([
            "ClearMessages",
            "CreateQueue",
            "DeleteQueue",
            "DeleteMessage",
            "GetQueueAcl",
            "GetQueueMetadata",
            "GetQueueServiceProperties",
            "GetQueueServiceStats",
            "GetMessage",
            "GetMessages",
            "ListQueues",
            "PeekMessage",
            "PeekMessages",
            "PutMessage",
            "QueuePreflightRequest",
            "SetQueueAcl",
            "SetQueueMetadata",
            "SetQueueServiceProperties",
            "UpdateMessage",
        ]);
        assert_eq!(names, of_analytics);
    }

    #[test]
    fn rows_are_sound() {
        check_rows::<Operation>();
    }
}
