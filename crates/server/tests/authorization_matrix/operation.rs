//! An operation of a service, as one request that performs it, and the credential that it needs.

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeds, with the status of the operation.
    Done,
    /// It is refused because its credential is not valid at all.
    Unauthenticated(u16, &'static str),
    /// Its credential is valid, but does not permit it.
    Forbidden(&'static str),
}

pub(crate) const FAILED: Outcome = Outcome::Unauthenticated(403, "AuthenticationFailed");
pub(crate) const FORBIDDEN: Outcome = Outcome::Forbidden("AuthorizationFailure");
/// A letter or a role is missing.
pub(crate) const LACKING: Outcome = Outcome::Forbidden("AuthorizationPermissionMismatch");

/// An operation, as one request that performs it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) method: &'static str,
    /// The part after the account. Here and in the query, `{id}` and `{receipt}` are those of the
    /// message in the queue.
    pub(crate) path: &'static str,
    pub(crate) query: &'static str,
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
    pub(crate) secondary: bool,
    /// The status on success: of the part, if it is a batch.
    pub(crate) status: u16,
    /// Whether it only reads, so that the secondary location serves it too.
    pub(crate) reads: bool,
    /// The letters it needs in a token for its table or queue; `None` if no such token suffices.
    pub(crate) service_sas: Option<&'static str>,
    /// The types and the sets of letters; a token for the account needs one of each.
    pub(crate) account_sas: Option<(&'static str, &'static [&'static str])>,
    /// The sets of data actions, one of which the roles of a bearer token must give; empty if no
    /// role suffices.
    pub(crate) actions: &'static [&'static [&'static str]],
    /// Whether it names the entity `m`, `5` or a neighbour, rather than a table or a query.
    pub(crate) names_entity: bool,
    /// Whether no token for a range of keys permits it, wherever the range lies (X-0.4).
    pub(crate) of_whole_table: bool,
}

impl Operation {
    pub(crate) const fn new(name: &'static str, method: &'static str, path: &'static str) -> Self {
        Self {
            name,
            method,
            path,
            query: "",
            headers: &[],
            content_type: "",
            body: String::new(),
            secondary: false,
            status: 200,
            reads: false,
            service_sas: None,
            account_sas: None,
            actions: &[],
            names_entity: false,
            of_whole_table: false,
        }
    }

    pub(crate) fn json(self, status: u16, body: &str) -> Self {
        Self { status, content_type: "application/json", body: body.to_owned(), ..self }
    }

    pub(crate) fn xml(self, status: u16, body: &str) -> Self {
        Self { status, content_type: "application/xml", body: body.to_owned(), ..self }
    }

    pub(crate) fn is_batch(&self) -> bool {
        self.path == "/$batch"
    }

    /// The first segment of the path: for a queue operation, the queue.
    pub(crate) fn first_segment(&self) -> &'static str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

pub(crate) const POLICIES: &str = "<SignedIdentifiers><SignedIdentifier><Id>x</Id><AccessPolicy>\
    <Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";

/// The operations on the service itself, which all services have.
pub(crate) fn on_service(names: [&'static str; 3]) -> Vec<Operation> {
    const READ: &[&[&str]] = &[&["read"]];
    const WRITE: &[&[&str]] = &[&["write"]];
    const PROPERTIES: &str = "<StorageServiceProperties><Cors><CorsRule>\
        <AllowedOrigins>http://else</AllowedOrigins><AllowedMethods>PUT</AllowedMethods>\
        <MaxAgeInSeconds>1</MaxAgeInSeconds><ExposedHeaders></ExposedHeaders>\
        <AllowedHeaders></AllowedHeaders></CorsRule></Cors></StorageServiceProperties>";
    let service = |name, method, query, letters, actions| Operation {
        query,
        reads: method == "GET",
        account_sas: Some(("s", letters)),
        actions,
        ..Operation::new(name, method, "/")
    };
    let [get, set, stats] = names;
    let properties = "restype=service&comp=properties";
    vec![
        service(get, "GET", properties, &["r"], READ),
        service(set, "PUT", properties, &["w"], WRITE).xml(202, PROPERTIES),
        Operation {
            secondary: true,
            ..service(stats, "GET", "restype=service&comp=stats", &["r"], READ)
        },
    ]
}
