use lazuli_client::prelude::*;

// A wide entity has several rows: it cannot be a variant of a union (C-6.2).
#[derive(TableEntity)]
#[table(kind = "Sheet", partition = "{book}", row = "sheet", wide(parts = 2))]
struct Sheet {
    book: String,
    title: String,
    text: String,
}

#[derive(TableUnion)]
enum Row {
    Sheet(Sheet),
}

fn main() {}
