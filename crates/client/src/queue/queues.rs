//! The queue service: create, list and delete queues.

use super::Queue;
use crate::account::Account;
use crate::error::{Error, ErrorKind};
use crate::options::Request;
use crate::rest::{self, Parameters};
use crate::sas::{UserDelegationKey, fetch_user_delegation_key};
use http::{Method, StatusCode};
use lazuli_model::QueueName;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::xml;
use std::time::Duration;

/// The queue service of an account.
#[derive(Clone, Debug)]
pub struct Queues {
    account: Account,
}

impl Account {
    /// The queue service.
    pub fn queues(&self) -> Queues {
        Queues { account: self.clone() }
    }
}

impl Queues {
    /// A queue. Makes no request.
    pub fn queue(&self, name: &str) -> Result<Queue, Error> {
        let name = QueueName::parse(name)
            .map_err(|_| Error::new(ErrorKind::Name(name.to_owned(), "queue")))?;
        Ok(Queue::new(self.account.clone(), name))
    }

    /// Creates a queue unless it exists. An existing one keeps its messages and metadata.
    pub async fn create_if_missing(&self, name: &str) -> Result<Queue, Error> {
        let queue = self.queue(name)?;
        let call = queue.call("create queue", Method::PUT, "", Parameters::new());
        match queue.exchange(call).await {
            // It exists with other metadata.
            Err(error) if error.code() == Some("QueueAlreadyExists") => Ok(queue),
            answer => answer.map(|_| queue),
        }
    }

    /// Deletes a queue with all its messages, if it exists; returns whether it did.
    pub async fn delete_if_present(&self, name: &str) -> Result<bool, Error> {
        let queue = self.queue(name)?;
        let call = queue.call("delete queue", Method::DELETE, "", Parameters::new());
        let answer = self.account.exchange(&call).await;
        let answer = answer.map_err(|error| queue.place("delete queue", error))?;
        rest::was_present(answer, StatusCode::NO_CONTENT, "delete queue")
            .map_err(|error| queue.place("delete queue", error))
    }

    /// Requests a key that signs tokens for queues. Needs a bearer token. The key is valid from now for `life`, at
    /// most seven days.
    pub fn user_delegation_key(&self, life: Duration) -> Request<UserDelegationKey> {
        fetch_user_delegation_key(&self.account, StorageService::Queue, life)
    }

    /// The names of all queues whose name begins with `prefix`, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        rest::list_names(&self.account, StorageService::Queue, "list queues", prefix, |body| {
            let page = xml::read_queues(body).map_err(Error::protocol)?;
            let names = page.queues.into_iter().map(|queue| queue.name);
            Ok((names.collect(), page.next_marker))
        })
        .await
    }
}
