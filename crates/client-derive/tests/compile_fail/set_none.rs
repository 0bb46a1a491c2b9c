use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{a}", row = "r")]
struct Nick {
    a: String,
    nick: Option<String>,
}

fn merge(table: &Table<Nick>) {
    let key = Nick::key("a").unwrap();
    let _ = table.merge(key).set(Nick::NICK, None);
}

fn main() {}
