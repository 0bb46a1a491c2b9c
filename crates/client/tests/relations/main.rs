//! Relationships (P-12), and inserts spread over partitions (P-13).

#![expect(clippy::unwrap_used, reason = "tests may")]

mod families;
mod links;
mod lookups;
mod models;
mod moves;
mod spreads;

use lazuli_client::TableEntity;
use lazuli_client::prelude::*;

/// Seeds that a run without `LAZULI_SEEDS` tries; the full test has 1,000.
const SEEDS: u64 = 20;

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(
    kind = "Department",
    rename_all = "PascalCase",
    partition = "{department}",
    row = "Department"
)]
struct Department {
    department: String,
    manager: String,
}

#[derive(TableEntity, Clone, Debug, PartialEq)]
#[table(name = "Staff", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}")]
#[table(parent(Department, by = department))]
#[index(email, row = "email_{email_address}", unique)]
struct Employee {
    department: String,
    id: u32,
    email_address: String,
    age: i32,
}

fn employee(department: &str, id: u32) -> Employee {
    let email_address = format!("{id}@contoso.com");
    Employee { department: department.to_owned(), id, email_address, age: 30 }
}

fn department(name: &str) -> Department {
    Department { department: name.to_owned(), manager: "Hall".to_owned() }
}

async fn create(account: &Account) -> Table<Employee> {
    account.tables().create("Staff").await.unwrap();
    account.tables().of().unwrap()
}
