use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Whole {
    a: String,
    b: i32,
}

#[derive(Projection)]
#[table(of = Whole)]
struct Part {
    b: String,
}

fn main() {}
