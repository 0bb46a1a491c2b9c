//! Secondary indexes in one partition (P-1), against a real server in this process.

#![expect(clippy::unwrap_used, reason = "tests may")]

mod crashes;
#[cfg(feature = "patterns")]
mod declared;
mod reads;
#[cfg(feature = "patterns")]
mod repairs;
mod writes;

use lazuli_client::Account;
use lazuli_client::prelude::*;

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "Employees", kind = "Employee", rename_all = "PascalCase")]
#[table(partition = "{department}", row = "empid_{id:06}")]
#[index(email, row = "email_{email_address}", unique)]
#[index(last_name, row = "last_{last_name}_{id:06}", project(first_name, email_address))]
struct Employee {
    department: String,
    id: u32,
    first_name: String,
    last_name: String,
    age: i32,
    email_address: String,
}

/// With one index, on a field that may be absent.
#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(name = "Badges", kind = "Badge", partition = "{site}", row = "id_{id:06}")]
#[index(code, row = "code_{code}", unique)]
struct Badge {
    site: String,
    id: u32,
    code: Option<String>,
}

#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(
    kind = "Department",
    partition = "{department}",
    row = "Department",
    rename_all = "PascalCase"
)]
struct Department {
    department: String,
    employee_count: i32,
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
enum Staff {
    Employee(Employee),
    Department(Department),
}

/// Its row keys may be any text, so also that of an employee.
#[derive(TableEntity, Debug, Clone, PartialEq)]
#[table(kind = "Robot", partition = "{department}", row = "{name}", rename_all = "PascalCase")]
struct Robot {
    department: String,
    name: String,
}

#[derive(TableUnion, Debug, Clone, PartialEq)]
enum Crew {
    Employee(Employee),
    Robot(Robot),
}

fn jones() -> Employee {
    employee(223, "jonesj@contoso.com")
}

fn employee(id: u32, email: &str) -> Employee {
    Employee {
        department: "Sales".into(),
        id,
        first_name: "Jon".into(),
        last_name: "Jones".into(),
        age: 30,
        email_address: email.into(),
    }
}

async fn employees(account: &Account) -> Table<Employee> {
    account.tables().create_if_missing("Employees").await.unwrap();
    account.tables().of().unwrap()
}

/// Row keys of a partition, including copies.
async fn rows(table: &Table<Employee>, partition_key: &str) -> Vec<String> {
    let rows = table.retyped::<Entity>().query(partition(partition_key));
    let rows = rows.collect_at_most(10_000).await.unwrap();
    rows.iter().map(|row| row.row_key().to_owned()).collect()
}

/// Every primary has exactly its copies, every copy its primary (PS-1.10).
async fn assert_consistent(table: &Table<Employee>) {
    let all = table.retyped::<Entity>().scan().collect_at_most(100_000).await.unwrap();
    let (copies, primaries): (Vec<_>, Vec<_>) =
        all.iter().partition(|row| row.value("_ix").is_some());
    let mut expected: Vec<(String, String, String)> = Vec::new();
    for primary in &primaries {
        let value = Employee::read(Entity::clone(primary)).unwrap();
        for index in 0..Employee::INDEXES.len() {
            let key = value.index_key(index).unwrap().unwrap();
            let (partition, row) = (key.partition.as_str(), key.row.as_str());
            expected.push((partition.to_owned(), row.to_owned(), primary.row_key().to_owned()));
            let copy = copies
                .iter()
                .find(|copy| copy.row_key() == row && copy.partition_key() == partition);
            let copy = copy.unwrap_or_else(|| panic!("no copy {row} of {value:?}"));
            assert_eq!(copy.str("FirstName").unwrap(), value.first_name);
        }
    }
    let mut found: Vec<_> = copies
        .iter()
        .map(|copy| {
            let row = copy.str("_rk").unwrap().to_owned();
            (copy.partition_key().to_owned(), copy.row_key().to_owned(), row)
        })
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}
