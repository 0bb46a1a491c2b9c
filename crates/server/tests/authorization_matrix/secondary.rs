//! The secondary location: callers that may read at the primary may read there, and nobody may write.

use crate::Verdict;
use crate::credential::{Credential, SharedKey, account_sas, account_token, covers, service_sas};
use crate::operation::{FORBIDDEN, LACKING, Operation, Outcome};
use crate::server::{Server, Style, VERSION};
use crate::service::{SERVICES, Service};
use lazuli_wire::shared_key::Scheme;

const READ_ONLY: Outcome = Outcome::Forbidden("InsufficientAccountPermissions");

/// T-1.4, Q-1.3: Get Messages is a GET that changes what it returns.
fn there(operation: &Operation, allowed: Outcome) -> Outcome {
    if operation.reads { allowed } else { READ_ONLY }
}

fn row(server: &Server, credential: &Credential, name: &str, allowed: fn(&Operation) -> Outcome) {
    let mut verdict = Verdict::default();
    for operation in server.service.operations().into_iter().filter(|one| !one.is_batch()) {
        let operation = Operation { secondary: true, ..operation };
        let expected = there(&operation, allowed(&operation));
        verdict.cell(server, &operation, credential, expected, name);
    }
}

#[test]
fn keys_and_tokens_read_and_do_not_write() {
    for service in SERVICES {
        let server = Server::start(service);
        for scheme in [Scheme::SharedKey, Scheme::SharedKeyLite] {
            let owner = SharedKey::new(scheme, 1).into();
            row(&server, &owner, scheme.name(), |_| Outcome::Done);
        }
        row(&server, &account_token(&account_sas()), "account SAS", |operation| {
            operation.account_sas.map_or(FORBIDDEN, |_| Outcome::Done)
        });
    }
}

#[test]
fn a_token_for_a_table_or_queue_reads_what_it_may() {
    for service in SERVICES {
        let server = Server::start(service);
        for permissions in [service.letters(), "a"] {
            let token = crate::credential::ServiceSas { permissions, ..service_sas(service) };
            for operation in service.operations() {
                // A batch goes to one location as a whole, and another queue has another signature.
                let is_known = ["", "orders"].contains(&operation.first_segment());
                if !operation.reads
                    || operation.is_batch()
                    || service == Service::Queue && !is_known
                {
                    continue;
                }
                let expected = match operation.service_sas {
                    None => FORBIDDEN,
                    Some(needed) if covers(permissions, needed) => Outcome::Done,
                    Some(_) => LACKING,
                };
                let operation = Operation { secondary: true, ..operation };
                let found = server.attempt(&operation, &token.token(), expected);
                assert!(found.is_ok(), "{}: {found:?}", operation.name);
            }
        }
    }
}

/// T-9.16, Q-9.8.
#[test]
fn stats_are_at_the_secondary_alone() {
    for service in SERVICES {
        let server = Server::start(service);
        let owner: Credential = SharedKey::new(Scheme::SharedKey, 0).into();
        let name = service.choose("Get Table Service Stats", "Get Queue Service Stats");
        let stats = Operation { secondary: false, ..service.operation(name) };
        let answer = server.send(&stats, &owner, Style::Path, VERSION);
        assert_eq!(answer.verdict(&stats), (400, "InvalidQueryParameterValue"));
    }
}
