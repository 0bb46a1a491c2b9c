//! A tiny service that exists only in tests: notes by name, in memory.
//!
//! It has everything in which services differ (routes, string to sign, tokens and their
//! permissions, stored policies, error format, hosts) and proves that `http` and `auth` can run a
//! service they do not know.

pub(crate) mod book;
pub(crate) mod credentials;
mod operation;
mod tests;

use crate::auth::permit::Principal;
use crate::error::ApiResult;
use crate::http::analytics::Counts;
use crate::http::reply::Reply;
use crate::http::request::RequestContext;
use crate::http::service::{Failed, Routed, Service, Unrouted};
use crate::http::shared::Shared;
use crate::operation::{Facts, ServiceName};
use book::Notes;
use credentials::NoteGrant;
use http::HeaderValue;
use lazuli_model::service_properties::CorsRule;
use lazuli_model::{AccountName, ServiceProperties};
use lazuli_wire::error_code::ErrorCode;
use operation::{NoteOperation, NoteResource, PREFLIGHT};
use std::sync::Arc;

impl Service for Notes {
    type Operation = NoteOperation;

    const NAME: ServiceName = ServiceName::Blob;
    const SERVER: HeaderValue = HeaderValue::from_static("Notes/1.0");
    const PREFLIGHT: &'static Facts = &PREFLIGHT;

    fn host_suffixes(&self) -> &[String] {
        &self.host_suffixes
    }

    fn route(&self, request: &Unrouted<'_>) -> ApiResult<(NoteOperation, NoteResource)> {
        let resource = match (request.path, request.query.get("comp")) {
            ("" | "/", Some("list")) => NoteResource::All,
            ("" | "/", _) => return Err(ErrorCode::InvalidUri.into()),
            (path, _) => NoteResource::Note(path.trim_start_matches('/').to_owned()),
        };
        let operation = NoteOperation::find(request.verb, &resource);
        Ok((operation.ok_or(ErrorCode::UnsupportedHttpVerb)?, resource))
    }

    async fn handle(
        &self,
        _: &Shared,
        _: &RequestContext<'_>,
        request: &Routed<'_, Self>,
        _: &Principal<NoteGrant>,
    ) -> ApiResult<Reply> {
        let mut stored = self.stored.lock().unwrap();
        match (request.operation, request.resource) {
            (NoteOperation::PutNote, NoteResource::Note(name)) => {
                stored.insert(name.clone(), request.body.to_vec());
                Ok(Reply::xml(201, Vec::new()))
            }
            (NoteOperation::GetNote, NoteResource::Note(name)) => {
                let note = stored.get(name).ok_or(ErrorCode::ResourceNotFound)?;
                Ok(Reply::xml(200, note.clone()))
            }
            _ => {
                let names: Vec<_> =
                    stored.keys().map(|name| format!("<Note>{name}</Note>")).collect();
                Ok(Reply::xml(200, names.concat().into_bytes()))
            }
        }
    }

    fn error_reply(&self, failed: &Failed<'_>) -> Reply {
        let code = failed.error.code;
        let body = format!("<Error><Code>{}</Code></Error>", code.name());
        Reply {
            error_code: Some(code.name()),
            failure: Some(failed.error.failure()),
            ..Reply::xml(code.status(), body.into_bytes())
        }
    }

    fn resource_name(path: &str) -> Option<&str> {
        Some(path.trim_start_matches('/')).filter(|name| !name.is_empty())
    }

    async fn properties(&self, _: &AccountName) -> ApiResult<Arc<ServiceProperties>> {
        let rule = CorsRule {
            allowed_origins: vec!["http://notes.test".to_owned()],
            allowed_methods: vec!["GET".to_owned()],
            ..CorsRule::default()
        };
        Ok(Arc::new(ServiceProperties { cors: vec![rule], ..ServiceProperties::default() }))
    }

    fn counts(&self) -> &Counts {
        &self.counts
    }
}
