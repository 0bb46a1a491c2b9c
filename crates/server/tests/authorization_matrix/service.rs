//! The services, and what differs between them where their tests are the same.

use crate::operation::Operation;
use crate::{queues, tables};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Table,
    Queue,
}

pub(crate) const SERVICES: [Service; 2] = [Service::Table, Service::Queue];

impl Service {
    /// Every operation, with what it needs.
    pub(crate) fn operations(self) -> Vec<Operation> {
        match self {
            Self::Table => tables::all(),
            Self::Queue => queues::all(),
        }
    }

    #[track_caller]
    pub(crate) fn operation(self, name: &str) -> Operation {
        self.operations().into_iter().find(|operation| operation.name == name).unwrap()
    }

    /// An operation that reads with the letter `r`.
    pub(crate) fn read(self) -> Operation {
        self.operation(self.choose("Query Entity", "Peek Message"))
    }

    /// The second label of hosts.
    pub(crate) fn label(self) -> &'static str {
        self.choose("table", "queue")
    }

    /// The letter in `ss` and `sks`.
    pub(crate) fn letter(self) -> &'static str {
        self.choose("t", "q")
    }

    /// The letters of its own tokens.
    pub(crate) fn letters(self) -> &'static str {
        self.choose("raud", "raup")
    }

    /// The letters that it uses in tokens for the account.
    pub(crate) fn account_letters(self) -> &'static str {
        self.choose("rwdlacu", "rwdlacup")
    }

    /// The table or queue that the operations use.
    pub(crate) fn resource(self) -> &'static str {
        self.choose("Orders", "orders")
    }

    pub(crate) fn other_resource(self) -> &'static str {
        self.choose("Other", "other")
    }

    /// The first version at which a request without a credential is challenged.
    pub(crate) fn challenged_since(self) -> &'static str {
        self.choose("2020-12-06", "2019-12-12")
    }

    /// The value for this service.
    pub(crate) fn choose<T>(self, of_tables: T, of_queues: T) -> T {
        match self {
            Self::Table => of_tables,
            Self::Queue => of_queues,
        }
    }
}
