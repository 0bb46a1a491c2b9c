//! The operations of the Queue service: the table of Q-1, with the permissions of section 10 of the
//! Queue rules, row by row (TQ-58, TQ-61).

use crate::operation::{Operation, POLICIES, on_service};

const MESSAGE: &str = "<QueueMessage><MessageText>text</MessageText></QueueMessage>";
const RECEIPT: &str = "popreceipt={receipt}&visibilitytimeout=0";
const METADATA: &[(&str, &str)] = &[("x-ms-meta-a", "1")];

/// What roles must give: names of data actions, as in the reference.
const READ_QUEUE: &[&[&str]] = &[&["queues/read"]];
const WRITE_QUEUE: &[&[&str]] = &[&["queues/write"]];
const DELETE_QUEUE: &[&[&str]] = &[&["queues/delete"]];
const READ: &[&[&str]] = &[&["queues/messages/read"]];
const ADD: &[&[&str]] = &[&["queues/messages/add/action"], &["queues/messages/write"]];
const WRITE: &[&[&str]] = &[&["queues/messages/write"]];
const PROCESS: &[&[&str]] = &[&["queues/messages/process/action"]];
const CLEAR: &[&[&str]] = &[&["queues/messages/delete"]];

/// Every operation of the service.
pub(crate) fn all() -> Vec<Operation> {
    let mut all = on_queues();
    all.extend(on_messages());
    let names =
        ["Get Queue Service Properties", "Set Queue Service Properties", "Get Queue Service Stats"];
    all.extend(on_service(names));
    all
}

fn on_queues() -> Vec<Operation> {
    let of_queue = |name, method, path, query, letters, actions| Operation {
        query,
        account_sas: Some(("c", letters)),
        actions,
        reads: matches!(method, "GET" | "HEAD"),
        ..Operation::new(name, method, path)
    };
    let acl = |name, method| Operation {
        query: "comp=acl",
        reads: method != "PUT",
        ..Operation::new(name, method, "/orders")
    };
    let metadata = |name, method| Operation {
        service_sas: Some("r"),
        ..of_queue(name, method, "/orders", "comp=metadata", &["r"], READ_QUEUE)
    };
    let create = |name, path, status| Operation {
        status,
        ..of_queue(name, "PUT", path, "", &["c", "w"], WRITE_QUEUE)
    };
    vec![
        Operation {
            account_sas: Some(("s", &["l"])),
            ..of_queue("List Queues", "GET", "/", "comp=list", &[], READ_QUEUE)
        },
        create("Create Queue", "/fresh", 201),
        create("Create Queue that is there", "/orders", 204),
        Operation {
            status: 204,
            ..of_queue("Delete Queue", "DELETE", "/orders", "", &["d"], DELETE_QUEUE)
        },
        metadata("Get Queue Metadata", "GET"),
        metadata("Get Queue Metadata by HEAD", "HEAD"),
        Operation {
            status: 204,
            headers: METADATA,
            ..of_queue("Set Queue Metadata", "PUT", "/orders", "comp=metadata", &["w"], WRITE_QUEUE)
        },
        acl("Get Queue ACL", "GET"),
        acl("Get Queue ACL by HEAD", "HEAD"),
        acl("Set Queue ACL", "PUT").xml(204, POLICIES),
    ]
}

fn on_messages() -> Vec<Operation> {
    let of_messages = |name, method, letters, account, actions| Operation {
        service_sas: Some(letters),
        account_sas: Some(("o", account)),
        actions,
        ..Operation::new(name, method, "/orders/messages")
    };
    let peek = |name, query| Operation {
        query,
        reads: true,
        ..of_messages(name, "GET", "r", &["r"], READ)
    };
    let get = |name, query| Operation { query, ..of_messages(name, "GET", "p", &["p"], PROCESS) };
    let of_message = |operation: Operation| Operation {
        path: "/orders/messages/{id}",
        query: RECEIPT,
        status: 204,
        ..operation
    };
    let update = |name| of_message(of_messages(name, "PUT", "u", &["u"], WRITE));
    vec![
        of_messages("Put Message", "POST", "a", &["a"], ADD).xml(201, MESSAGE),
        get("Get Message", ""),
        get("Get Messages", "numofmessages=2&visibilitytimeout=7"),
        peek("Peek Message", "peekonly=true"),
        peek("Peek Messages", "numofmessages=2&peekonly=true"),
        update("Update Message").xml(204, MESSAGE),
        update("Update Message without a text"),
        of_message(of_messages("Delete Message", "DELETE", "p", &["p"], PROCESS)),
        Operation {
            status: 204,
            service_sas: None,
            ..of_messages("Clear Messages", "DELETE", "", &["d"], CLEAR)
        },
    ]
}
