use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}{b}", row = "r")]
struct Joined {
    a: String,
    b: String,
}

fn main() {}
