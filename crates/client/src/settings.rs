//! Stored access policies, service properties and statistics (C-16.3, C-16.4).

use crate::account::Account;
use crate::call::{Answer, Call, CallOptions};
use crate::entity::TableEntity;
use crate::error::Error;
use crate::options::{ReadFrom, Request};
use crate::table::Table;
use crate::tables::{self, Tables};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use lazuli_model::{AccessPolicies, AccessPolicy, ServiceProperties, ServicePropertiesPatch};
use lazuli_wire::version::ApiVersion;
use lazuli_wire::xml::{self, GeoReplication};

const XML: HeaderValue = HeaderValue::from_static("application/xml");
const ACL: &str = "comp=acl";
const PROPERTIES: &str = "restype=service&comp=properties";
const STATS: &str = "restype=service&comp=stats";

impl<T: TableEntity> Table<T> {
    /// The access policies stored with this table.
    pub fn policies(&self) -> Request<AccessPolicies> {
        let (account, path) = (self.account.clone(), format!("/{}", self.name()));
        let name = self.name().to_owned();
        Request::new(|options| async move {
            let call = get("policies", path, ACL, options);
            let answer = account.exchange(&call).await?;
            let answer = expect(answer, StatusCode::OK, "policies");
            let answer = answer.map_err(|error| error.at("policies", Some(&name), None))?;
            xml::read_signed_identifiers(&answer.body)
                .map_err(|fault| Error::protocol(format!("{fault:?}")))
        })
    }

    /// Replaces the access policies stored with this table: at most five, each with an id of 1 to 64 characters.
    /// Tokens name them by [`crate::TableSasBuilder::policy`]; to revoke those tokens, store policies without that id.
    pub fn set_policies(&self, policies: impl Into<Vec<AccessPolicy>>) -> Request<()> {
        let (account, path) = (self.account.clone(), format!("/{}", self.name()));
        let (name, policies) = (self.name().to_owned(), AccessPolicies::new(policies.into()));
        Request::new(|options| async move {
            let place = |error: Error| error.at("set_policies", Some(&name), None);
            let policies = policies.map_err(|e| place(Error::config(e.to_string())))?;
            let mut body = Vec::new();
            xml::write_signed_identifiers(&mut body, &policies);
            let call = put("set_policies", path, ACL, body, options);
            let answer = account.exchange(&call).await.map_err(place)?;
            expect(answer, StatusCode::NO_CONTENT, "set_policies").map(drop).map_err(place)
        })
    }
}

impl Tables {
    /// The settings of the table service: logging, metrics, CORS.
    pub fn properties(&self) -> Request<ServiceProperties> {
        let account = self.account().clone();
        Request::new(|options| async move {
            let call = get("properties", "/".to_owned(), PROPERTIES, options);
            let answer = expect(account.exchange(&call).await?, StatusCode::OK, "properties")?;
            let patch = xml::read_service_properties(&answer.body, ApiVersion::NEWEST)
                .map_err(|fault| Error::protocol(format!("{fault:?}")))?;
            Ok(ServiceProperties::default().patched(patch))
        })
    }

    /// Changes settings of the table service; absent sections keep their values.
    ///
    /// ```no_run
    /// use lazuli_client::{CorsRule, ServicePropertiesPatch};
    ///
    /// # async fn run(tables: lazuli_client::Tables) -> Result<(), lazuli_client::Error> {
    /// let from_our_site = CorsRule {
    ///     allowed_origins: vec!["https://contoso.com".into()],
    ///     allowed_methods: vec!["GET".into()],
    ///     allowed_headers: vec!["x-ms-*".into()],
    ///     exposed_headers: vec![],
    ///     max_age_seconds: 3600,
    /// };
    /// let patch = ServicePropertiesPatch { cors: Some(vec![from_our_site]), ..Default::default() };
    /// tables.set_properties(patch).await?;
    /// println!("{:?}", tables.properties().await?.cors);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_properties(&self, patch: ServicePropertiesPatch) -> Request<()> {
        let account = self.account().clone();
        Request::new(|options| async move {
            patch.check().map_err(|error| Error::config(error.to_string()))?;
            let mut body = Vec::new();
            xml::write_service_properties_patch(&mut body, &patch);
            let call = put("set_properties", "/".to_owned(), PROPERTIES, body, options);
            let answer = account.exchange(&call).await?;
            expect(answer, StatusCode::ACCEPTED, "set_properties").map(drop)
        })
    }

    /// Replication status of the secondary location. Only the secondary answers this.
    pub fn stats(&self) -> Request<GeoReplication> {
        let account: Account = self.account().clone();
        Request::new(|options| async move {
            let options = CallOptions { read_from: ReadFrom::Secondary, ..options };
            let call = get("stats", "/".to_owned(), STATS, options);
            let answer = expect(account.exchange(&call).await?, StatusCode::OK, "stats")?;
            xml::read_service_stats(&answer.body)
                .map_err(|fault| Error::protocol(format!("{fault:?}")))
        })
    }
}

fn get(operation: &'static str, path: String, query: &str, options: CallOptions) -> Call {
    let mut call = Call { options, ..tables::read(operation, path, query.to_owned()) };
    call.headers.insert(ACCEPT, XML);
    call
}

fn put(
    operation: &'static str,
    path: String,
    query: &str,
    mut body: Vec<u8>,
    options: CallOptions,
) -> Call {
    // The services write a byte-order mark; clients do not.
    if body.starts_with(b"\xEF\xBB\xBF") {
        body.drain(..3);
    }
    let mut call = Call {
        options,
        query: query.to_owned(),
        ..tables::write(operation, Method::PUT, path, body.into())
    };
    call.about.is_idempotent = true;
    call.headers.insert(ACCEPT, XML);
    call.headers.insert(CONTENT_TYPE, XML);
    call
}

fn expect(answer: Answer, status: StatusCode, operation: &'static str) -> Result<Answer, Error> {
    if answer.status == status { Ok(answer) } else { Err(answer.into_error(operation)) }
}
