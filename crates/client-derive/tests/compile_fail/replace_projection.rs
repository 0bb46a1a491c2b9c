use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Whole {
    a: String,
    b: i32,
    c: i32,
}

#[derive(Projection)]
#[table(of = Whole)]
struct Part {
    b: i32,
}

async fn write_back(table: &Table<Whole>) -> Result<(), Error> {
    let mut parts = table.query(partition("a")).select_as::<Part>().stream();
    if let Some(part) = parts.try_next().await? {
        table.replace(&part).await?;
    }
    Ok(())
}

fn main() {}
