//! One operation of the Table service as its handlers receive it.

use crate::error::ApiResult;
use crate::headers::{CallHeaders, DataServiceVersion};
use crate::http::request::RequestContext;
use crate::operation::Answer;
use crate::table::asked::Asked;
use crate::table::encode::Encoder;
use crate::table::operation::{Operation, Resource};
use crate::table::request::{Preference, response_format};
use lazuli_table::Snapshot;
use lazuli_wire::media::{self, Accepted, Format};
use lazuli_wire::uri::Query;

/// One operation and its input, alone or as a part of a batch.
pub(crate) struct Call<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a Resource,
    pub(crate) headers: CallHeaders<'a>,
    pub(crate) query: &'a Query<'a>,
    pub(crate) body: &'a [u8],
    /// The extensions that the request uses; `None` if it requests none.
    pub(crate) asked: Option<&'a Asked>,
    /// The snapshot that the operation reads, if any.
    pub(crate) snapshot: Option<&'a Snapshot>,
}

impl Call<'_> {
    pub(crate) fn accepted(&self) -> Accepted {
        media::negotiate(self.headers.accept, self.query.get("$format"))
    }

    /// The preference that applies to this operation.
    pub(crate) fn preference(&self) -> Option<Preference> {
        self.headers.preference(self.operation.facts().answer)
    }

    pub(crate) fn encoder<'e>(&self, context: &'e RequestContext<'e>) -> ApiResult<Encoder<'e>> {
        let format = response_format(self.accepted(), context.version)?;
        Ok(Encoder { context, format, data_service_version: self.version_of(format, context) })
    }

    /// The OData version of a response in `format`: Atom repeats that of the request (T-2.20).
    fn version_of(&self, format: Format, context: &RequestContext<'_>) -> DataServiceVersion {
        let highest = || DataServiceVersion::highest_at(context.version);
        match format {
            Format::Json(_) => DataServiceVersion::V3,
            Format::Atom(_) => self.headers.data_service_version.unwrap_or_else(highest),
        }
    }

    /// The version of a response without a body because the client prefers none. If no format can
    /// be negotiated, none is needed, and the response counts as JSON.
    pub(crate) fn version_without_body(&self, context: &RequestContext<'_>) -> DataServiceVersion {
        let is_update = self.operation.facts().answer == Answer::NoContent;
        match response_format(self.accepted(), context.version) {
            Ok(Format::Atom(_)) if is_update => DataServiceVersion::V1,
            Ok(format) => self.version_of(format, context),
            Err(_) => DataServiceVersion::V3,
        }
    }
}
