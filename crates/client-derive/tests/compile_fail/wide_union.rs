use lazuli_client::prelude::*;

// The rows of a wide entity are several: no variant of a union holds them (C-6.2).
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
