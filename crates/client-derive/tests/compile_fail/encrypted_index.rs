use lazuli_client::prelude::*;

// An encrypted field would be readable in the row key of its copies (E-50).
#[derive(TableEntity)]
#[table(partition = "{clinic}", row = "p_{id:06}")]
#[index(name, row = "name_{name}_{id:06}")]
struct Patient {
    clinic: String,
    id: u32,
    #[table(encrypt)]
    name: String,
}

fn main() {}
