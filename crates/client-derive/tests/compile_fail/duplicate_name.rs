use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Twice {
    a: String,
    #[table(name = "X")]
    b: i32,
    #[table(name = "X")]
    c: i32,
}

fn main() {}
