//! The blob service and its containers.

use super::{Blob, ListBlobs};
use crate::account::Account;
use crate::call::Call;
use crate::error::{Error, ErrorKind};
use crate::options::Request;
use crate::rest::{self, Parameters};
use crate::sas::{UserDelegationKey, fetch_user_delegation_key};
use http::{Method, StatusCode};
use lazuli_model::{BlobName, ContainerName};
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::xml;
use std::time::Duration;

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
        rest::was_present(answer, StatusCode::ACCEPTED, "delete container")
            .map_err(|error| container.place("delete container", error))
    }

    /// Requests a key that signs tokens for containers and blobs. Needs a bearer token. The key is valid from now for
    /// `life`, at most seven days.
    pub fn user_delegation_key(&self, life: Duration) -> Request<UserDelegationKey> {
        fetch_user_delegation_key(&self.account, StorageService::Blob, life)
    }

    /// The names of all containers whose name begins with `prefix`, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        rest::list_names(&self.account, StorageService::Blob, "list containers", prefix, |body| {
            let page = xml::read_containers(body).map_err(Error::protocol)?;
            let names = page.containers.into_iter().map(|container| container.name);
            Ok((names.collect(), page.next_marker))
        })
        .await
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

    pub(crate) fn account(&self) -> &Account {
        &self.account
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
