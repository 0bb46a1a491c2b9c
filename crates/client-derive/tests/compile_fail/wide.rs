use lazuli_client::prelude::*;
use lazuli_client::Series;

// 30,000 properties are 121 rows.
#[derive(TableEntity)]
#[table(partition = "p", row = "{id}", wide(parts = 99))]
struct TooWide {
    id: String,
    #[table(series(prefix = "D", points = 30_000))]
    days: Series<i32, 30_000>,
}

#[derive(TableEntity)]
#[table(partition = "p", row = "{id}", wide(parts = 1))]
struct TooFewParts {
    id: String,
    #[table(series(prefix = "D", points = 400))]
    days: Series<i32, 400>,
}

#[derive(TableEntity)]
#[table(partition = "p", row = "{id}")]
struct NotWide {
    id: String,
    #[table(part = 2)]
    a: i32,
}

fn main() {}
