//! A small application: employees found by e-mail, a department that counts them, reviews, and an activity log.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use lazuli_client::patterns::log_tail::{LogEntry, LogTail};
use lazuli_client::patterns::summary::ModelTable;
use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(kind = "Employee", partition = "{department}", row = "empid_{id:06}", shared_prefix)]
#[index(email, row = "email_{email}", unique)]
struct Employee {
    department: String,
    id: u32,
    email: String,
}

#[derive(TableEntity)]
#[table(kind = "Review", child_of(Employee))]
#[table(partition = "{department}", row = "empid_{id:06}_{year:04}")]
struct Review {
    department: String,
    id: u32,
    year: u16,
    rating: i32,
}

#[derive(TableEntity)]
#[table(kind = "Department", partition = "{department}", row = "Department")]
struct Department {
    department: String,
    #[table(count(Employee))]
    employees: i32,
    #[table(latest(Review.rating))]
    best_rating: Option<i32>,
}

#[derive(TableUnion)]
#[table(model)]
enum Staff {
    Employee(Employee),
    Review(Review),
    Department(Department),
}

#[derive(TableEntity)]
#[table(name = "StaffLog", partition = "{department}", row = "{at:rev}")]
struct Event {
    department: String,
    at: Timestamp,
    what: String,
}

impl LogEntry for Event {
    fn stamp(&mut self, at: Timestamp) {
        self.at = at;
    }
}

async fn hire(staff: &ModelTable<Staff>, log: &LogTail<Event>, id: u32) -> Result<(), Error> {
    let department = || "Sales".to_owned();
    staff.insert(&Employee { department: department(), id, email: format!("{id}@x.com") }).await?;
    let what = format!("hired {id}");
    log.append(&mut Event { department: department(), at: Timestamp::MIN, what }).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tables = Account::from_env_or_development()?.tables();
    for name in ["StaffExample", "StaffLog"] {
        tables.delete_if_present(name).await?;
        tables.create_when_free(name).await?;
    }
    let staff = tables.model::<Staff>("StaffExample")?;
    let log = LogTail::new(&tables.of::<Event>()?);
    for id in [152, 178] {
        hire(&staff, &log, id).await?;
    }
    let department = "Sales".to_owned();
    staff.insert(&Review { department, id: 178, year: 2026, rating: 4 }).await?;

    let twice = hire(&staff, &log, 152).await.map_err(|error| error.is_conflict());
    assert_eq!(twice, Err(true));
    let employees = tables.table_of::<Employee>("StaffExample")?;
    let found = employees.get_by(Employee::by_email("Sales", "178@x.com")?).await?.ok_or("178")?;
    let sales = staff.get(Department::key("Sales")?).await?.ok_or("the department")?;
    println!("{} of {}, best rating {:?}", found.id, sales.employees, sales.best_rating);
    assert_eq!((sales.employees, sales.best_rating), (2, Some(4)));
    let last = log.latest("Sales", 1).await?;
    assert_eq!(last.first().map(|event| event.what.as_str()), Some("hired 178"));
    Ok(())
}
