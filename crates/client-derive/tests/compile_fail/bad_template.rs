use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "{id:040}")]
struct Wide {
    a: String,
    id: u64,
}

#[derive(TableEntity)]
#[table(partition = "{a}", row = "a/b")]
struct Forbidden {
    a: String,
}

#[derive(TableEntity)]
#[table(partition = "{a}", row = "{b}")]
struct NoField {
    a: String,
}

fn main() {}
