//! The blob service and its containers.

use super::{Blob, ListBlobs};
use crate::account::Account;
use crate::call::Call;
use crate::error::{Error, ErrorKind};
use crate::rest::{self, Parameters};
use http::{Method, StatusCode};
use lazuli_model::{BlobName, ContainerName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::xml;

/// The blob service of an account.
#[derive(Clone, Debug)]
pub struct Blobs {
    account: Account,
}

impl Account {
    /// The blob service.
    pub fn blobs(&self) -> Blobs {
        Blobs { account: self.clone() }
    }
}

impl Blobs {
    /// A container. Makes no request.
    pub fn container(&self, name: &str) -> Result<Container, Error> {
        let name = ContainerName::parse(name)
            .map_err(|_| Error::new(ErrorKind::Name(name.to_owned(), "container")))?;
        Ok(Container { account: self.account.clone(), name })
    }

    /// Creates a container unless it exists.
    pub async fn create_if_missing(&self, name: &str) -> Result<Container, Error> {
        let container = self.container(name)?;
        let call = container.call("create container", Method::PUT, Parameters::new());
        let answer = container.send(&call).await?;
        if answer.status == StatusCode::CREATED {
            return Ok(container);
        }
        let error = answer.into_error("create container");
        match error.code() {
            Some("ContainerAlreadyExists") => Ok(container),
            _ => Err(container.place("create container", error)),
        }
    }

    /// Deletes a container with all its blobs, if it exists; returns whether it did.
    pub async fn delete_if_present(&self, name: &str) -> Result<bool, Error> {
        let container = self.container(name)?;
        let call = container.call("delete container", Method::DELETE, Parameters::new());
        let answer = container.send(&call).await?;
        match answer.status {
            StatusCode::ACCEPTED => Ok(true),
            // An attempt before this one may have deleted it.
            StatusCode::NOT_FOUND => Ok(answer.is_after_lost),
            _ => Err(container.place("delete container", answer.into_error("delete container"))),
        }
    }

    /// The names of all containers that begin with `prefix`, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
            let query = Parameters::new()
                .and("comp", "list")
                .and_if("prefix", prefix)
                .and_if("marker", marker.as_deref());
            let operation = "list containers";
            let mut call =
                rest::call(StorageService::Blob, operation, Method::GET, "/".into(), query);
            call.answer_bytes_max = rest::LIST_BYTES_MAX;
            let answer = self.account.exchange(&call).await?;
            if answer.status != StatusCode::OK {
                return Err(answer.into_error(operation));
            }
            let page = xml::read_containers(&answer.body).map_err(Error::protocol)?;
            names.extend(page.containers.into_iter().map(|container| container.name));
            marker = page.next_marker;
            if marker.is_none() {
                return Ok(names);
            }
        }
    }
}

/// A container of blobs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Container {
    account: Account,
    name: ContainerName,
}

impl Container {
    /// The container's name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// A blob in it. Makes no request.
    pub fn blob(&self, name: &str) -> Result<Blob, Error> {
        let name = BlobName::parse(name)
            .map_err(|_| Error::new(ErrorKind::Name(name.to_owned(), "blob")))?;
        Ok(Blob { account: self.account.clone(), container: self.name.clone(), name })
    }

    /// Lists the blobs, in the order of their names.
    pub fn list(&self) -> ListBlobs {
        ListBlobs::new(self)
    }

    pub(super) fn call(&self, operation: &'static str, method: Method, query: Parameters) -> Call {
        let query = query.and("restype", "container");
        rest::call(StorageService::Blob, operation, method, format!("/{}", self.name), query)
    }

    pub(super) async fn send(&self, call: &Call) -> Result<crate::call::Answer, Error> {
        self.account.exchange(call).await.map_err(|error| self.place(call.operation, error))
    }

    pub(super) fn place(&self, operation: &'static str, error: Error) -> Error {
        error.at(operation, Some(self.name.as_str()), None)
    }
}
