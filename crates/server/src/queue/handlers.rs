//! Handlers for queues: create, delete, list, metadata, access policies, and the operations of all
//! services.

use crate::auth::permit::Principal;
use crate::error::{ApiError, ApiResult};
use crate::http::header_case::METADATA;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::Routed;
use crate::http::settings;
use crate::queue::api::QueueApi;
use crate::queue::error::unsupported_verb;
use crate::queue::messages;
use crate::queue::operation::{Operation, Resource};
use crate::queue::parameters::{includes_metadata, max_results, value};
use lazuli_model::{Metadata, MetadataError, QueueName};
use lazuli_queue::{Created, ListQueues};
use lazuli_wire::error_code::ErrorCode;
use lazuli_wire::sas::QueueGrant;
use lazuli_wire::xml::{self, QueueListing};

/// Runs a permitted operation.
pub(crate) async fn handle(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    principal: &Principal<QueueGrant>,
) -> ApiResult<Reply> {
    match (request.operation, request.resource) {
        (Operation::PutMessage, Resource::Messages { queue, .. }) => {
            messages::put(api, context, request, queue).await
        }
        (Operation::GetMessage | Operation::GetMessages, Resource::Messages { queue, .. }) => {
            messages::get(api, context, request, queue).await
        }
        (Operation::PeekMessage | Operation::PeekMessages, Resource::Messages { queue, .. }) => {
            messages::peek(api, context, request, queue).await
        }
        (Operation::ClearMessages, Resource::Messages { queue, .. }) => {
            api.queues.clear_messages(&context.account.name, queue).await?;
            Ok(Reply::xml(204, Vec::new()))
        }
        (Operation::UpdateMessage, Resource::Message { queue, id }) => {
            messages::update(api, context, request, queue, *id).await
        }
        (Operation::DeleteMessage, Resource::Message { queue, id }) => {
            messages::delete(api, context, request, queue, *id).await
        }
        (Operation::CreateQueue, Resource::Queue { queue }) => {
            create(api, context, request, queue).await
        }
        (Operation::DeleteQueue, Resource::Queue { queue }) => {
            api.queues.delete_queue(&context.account.name, queue).await?;
            api.deletions.add(&context.account.name, queue.as_str(), context.now);
            Ok(Reply::xml(204, Vec::new()))
        }
        (Operation::GetQueueMetadata, Resource::Metadata { queue }) => {
            get_metadata(api, context, queue).await
        }
        (Operation::SetQueueMetadata, Resource::Metadata { queue }) => {
            let metadata = metadata_of(request)?;
            api.queues.set_metadata(&context.account.name, queue, &metadata).await?;
            Ok(Reply::xml(204, Vec::new()))
        }
        (Operation::GetQueueAcl, Resource::Acl { queue }) => {
            let policies = api.queues.access_policies(&context.account.name, queue).await?;
            Ok(settings::document(|out| xml::write_signed_identifiers(out, &policies)))
        }
        (Operation::SetQueueAcl, Resource::Acl { queue }) => {
            let policies = xml::read_queue_policies(request.body)?;
            api.queues.set_access_policies(&context.account.name, queue, &policies).await?;
            Ok(Reply::xml(204, Vec::new()))
        }
        (Operation::ListQueues, _) => list(api, context, request).await,
        (Operation::GetServiceProperties, _) => {
            let properties = api.queues.service_properties(&context.account.name).await?;
            Ok(settings::properties(context, &properties))
        }
        (Operation::SetServiceProperties, _) => set_properties(api, context, request.body).await,
        (Operation::GetServiceStats, _) => settings::stats(context),
        (Operation::GetUserDelegationKey, _) if api.gives_delegation_keys() => {
            settings::delegation_key::<QueueApi>(context, request.body, principal)
        }
        (Operation::GetUserDelegationKey, _) => Err(ErrorCode::InvalidQueryParameterValue.into()),
        // Routing gives these their resource. They are listed, so that a new row does not compile
        // before it has a handler.
        (
            Operation::PutMessage
            | Operation::GetMessage
            | Operation::GetMessages
            | Operation::PeekMessage
            | Operation::PeekMessages
            | Operation::ClearMessages
            | Operation::UpdateMessage
            | Operation::DeleteMessage
            | Operation::CreateQueue
            | Operation::DeleteQueue
            | Operation::GetQueueMetadata
            | Operation::SetQueueMetadata
            | Operation::GetQueueAcl
            | Operation::SetQueueAcl,
            _,
        ) => Err(unsupported_verb()),
    }
}

/// An existing queue with the same metadata gets a different status.
async fn create(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
    queue: &QueueName,
) -> ApiResult<Reply> {
    let metadata = metadata_of(request)?;
    if api.deletions.contains(&context.account.name, queue.as_str(), context.now) {
        return Err(ApiError::at_execution(ErrorCode::QueueBeingDeleted));
    }
    match api.queues.create_queue(&context.account.name, queue, &metadata).await? {
        Created::Created => Ok(Reply::xml(201, Vec::new())),
        Created::AlreadyThere => Ok(Reply::xml(204, Vec::new())),
    }
}

///
async fn get_metadata(
    api: &QueueApi,
    context: &RequestContext<'_>,
    queue: &QueueName,
) -> ApiResult<Reply> {
    let info = api.queues.queue_info(&context.account.name, queue).await?;
    let count = ("x-ms-approximate-messages-count", info.messages.to_string());
    let pairs = info.metadata.iter();
    let metadata = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(Reply { more: vec![count], metadata, ..Reply::xml(200, Vec::new()) })
}

async fn set_properties(
    api: &QueueApi,
    context: &RequestContext<'_>,
    body: &[u8],
) -> ApiResult<Reply> {
    let account = &context.account.name;
    let patch = settings::read_properties(context, body)?;
    let outcome = api.queues.set_service_properties(account, patch).await;
    // Even if the outcome is unknown: the cached ones may be stale.
    api.apply_changed_properties(account).await?;
    outcome?;
    Ok(Reply::xml(202, Vec::new()))
}

async fn list(
    api: &QueueApi,
    context: &RequestContext<'_>,
    request: &Routed<'_, QueueApi>,
) -> ApiResult<Reply> {
    let (account, query) = (&context.account.name, request.query);
    let (max_results, max) = max_results(query)?;
    let shows_metadata = includes_metadata(query)?;
    let prefix = value(query, "prefix").unwrap_or_default();
    let marker = value(query, "marker").unwrap_or_default();
    // A marker is `/account/queue`, as in our pages, or the bare name.
    let before = format!("/{account}/");
    let from = marker.strip_prefix(&before).unwrap_or(marker);
    let mut queues = Vec::new();
    let list = ListQueues { prefix: prefix.to_owned(), from: from.to_owned(), max };
    let end = api.queues.list_queues(account, &list, &mut |queue| queues.push(queue)).await?;
    let next = end.next.map(|name| format!("{before}{name}")).unwrap_or_default();
    let listing = QueueListing {
        endpoint: context.base.as_str(),
        version: context.version,
        prefix,
        marker,
        max_results,
        next_marker: &next,
    };
    Ok(settings::document(|out| {
        let queues = queues
            .iter()
            .map(|queue| (queue.name.as_str(), shows_metadata.then_some(&queue.metadata)));
        xml::write_queues(out, &listing, queues);
    }))
}

/// The metadata that the headers of a request carry.
fn metadata_of(request: &Routed<'_, QueueApi>) -> Result<Metadata, MetadataError> {
    let headers = request.headers.all.iter();
    let pairs: Vec<_> = headers
        .filter_map(|(name, value)| {
            let name = name.as_str().strip_prefix(METADATA)?;
            let name = request.spellings.map_or(name, |spellings| spellings.of(name));
            Some((name, String::from_utf8_lossy(value.as_bytes())))
        })
        .collect();
    Metadata::parse(pairs.iter().map(|(name, value)| (*name, value.as_ref())))
}
