use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Patient {
    a: String,
    #[table(encrypt)]
    name: String,
}

fn main() {
    let _ = Patient::NAME.eq("Ann");
}
