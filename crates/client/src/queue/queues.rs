//! The queue service: create, list and delete queues.

use super::Queue;
use crate::account::Account;
use crate::error::{Error, ErrorKind};
use crate::rest::{self, Parameters};
use http::{Method, StatusCode};
use lazuli_model::QueueName;
use lazuli_wire::connection_string::StorageService;
use lazuli_wire::xml;

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

    /// Creates a queue unless it exists. One that exists keeps its messages and metadata.
    pub async fn create_if_missing(&self, name: &str) -> Result<Queue, Error> {
        let queue = self.queue(name)?;
        let call = queue.call("create queue", Method::PUT, "", Parameters::new());
        match queue.exchange(call).await {
            // It exists with metadata.
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
        match answer.status {
            StatusCode::NO_CONTENT => Ok(true),
            // An attempt before this one may have deleted it.
            StatusCode::NOT_FOUND => Ok(answer.is_after_lost),
            _ => Err(queue.place("delete queue", answer.into_error("delete queue"))),
        }
    }

    /// The names of all queues that begin with `prefix`, in order.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut marker: Option<String> = None;
        loop {
            let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
            let query = Parameters::new()
                .and("comp", "list")
                .and_if("prefix", prefix)
                .and_if("marker", marker.as_deref());
            let operation = "list queues";
            let mut call =
                rest::call(StorageService::Queue, operation, Method::GET, "/".into(), query);
            call.answer_bytes_max = rest::LIST_BYTES_MAX;
            let answer = self.account.exchange(&call).await?;
            if answer.status != StatusCode::OK {
                return Err(answer.into_error(operation));
            }
            let page = xml::read_queues(&answer.body).map_err(Error::protocol)?;
            names.extend(page.queues.into_iter().map(|queue| queue.name));
            marker = page.next_marker;
            if marker.is_none() {
                return Ok(names);
            }
        }
    }
}
