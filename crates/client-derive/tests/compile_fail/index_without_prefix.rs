use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "id_{id:06}")]
#[index(name, row = "{name}", unique)]
struct Open {
    a: String,
    id: u32,
    name: String,
}

#[derive(TableEntity)]
#[table(partition = "{a}", row = "id_{id:06}")]
#[index(name, row = "name_{name}")]
struct Ambiguous {
    a: String,
    id: u32,
    name: String,
}

fn main() {}
