//! A client that crashes leaves nothing to heal (PS-1.10, P-0.7).

use crate::{Employee, assert_consistent, employee, employees};
use lazuli_client::prelude::*;
use lazuli_client::{Change, Error};
use lazuli_test::crash::{self, TestClient, Writer};

#[tokio::test]
async fn a_write_is_done_whole_or_not_at_all() {
    let requests = crash::every_point(
        async |client| {
            let table = employees(client).await;
            table.insert(&employee(1, "a@x")).await.unwrap();
            table
        },
        async |client: &TestClient, _: &Table<Employee>| -> Result<(), Error> {
            let table: Table<Employee> = client.tables().of()?;
            table.insert(&employee(2, "b@x")).await?;
            table.upsert(&employee(1, "c@x")).await?;
            table.delete_key(Employee::key("Sales", 2)?).await?;
            Ok(())
        },
        async |_, _| {},
        async |_, table, outcome| {
            assert_consistent(table).await;
            if let Some(Ok(())) = outcome {
                let found =
                    table.get_by(Employee::by_email("Sales", "c@x").unwrap()).await.unwrap();
                assert_eq!(found.unwrap().id, 1, "what was acknowledged is there");
            }
        },
    );
    assert_eq!(requests.await.unwrap(), 5);
}

/// Writers change e-mails of three employees, which they take from each other.
async fn write(client: &TestClient, mut writer: Writer) -> Vec<Result<(), Error>> {
    let mut outcomes = Vec::new();
    for _ in 0..6 {
        let (id, email) = (writer.random.below(3) as u32, format!("{}@x", writer.random.below(4)));
        let table: Table<Employee> = client.tables().of().unwrap();
        let key = Employee::key("Sales", id).unwrap();
        let outcome = match writer.random.below(4) {
            0 => table.insert(&employee(id, &email)).await.map(drop),
            1 => table.delete_key(key).await.map(drop),
            2 => table.upsert(&employee(id, &email)).await.map(drop),
            _ => {
                let change = move |employee: &mut Employee| {
                    employee.email_address = email.clone();
                    employee.age += 1;
                    Ok(Change::Write)
                };
                table.update_with(key, change).await.map(drop)
            }
        };
        outcomes.push(outcome);
    }
    outcomes
}

#[tokio::test]
async fn writers_that_lose_answers_and_die_leave_copies_as_they_should_be() {
    crash::seeds(
        crash::chosen_seeds(20),
        async |client| employees(client).await,
        async |client, _, writer| write(client, writer).await,
        async |_, _| {},
        async |_, table, _| assert_consistent(table).await,
    )
    .await
    .unwrap();
}
