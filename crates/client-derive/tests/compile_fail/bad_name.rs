use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Named {
    a: String,
    #[table(name = "RowKey")]
    b: i32,
}

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Digit {
    a: String,
    #[table(name = "1st")]
    b: i32,
}

fn main() {}
