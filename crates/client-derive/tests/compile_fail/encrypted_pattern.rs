use lazuli_client::prelude::*;

// The blob would not be encrypted (E-51).
#[derive(TableEntity)]
#[table(partition = "{clinic}", row = "a_{id:06}")]
struct LargeSecret {
    clinic: String,
    id: u32,
    #[table(encrypt, large(container = "scans"))]
    scan: Vec<u8>,
}

// Points are merged one by one: no writer of one could seal the others (E-52).
#[derive(TableEntity)]
#[table(partition = "{clinic}", row = "b_{id:06}")]
struct SecretSeries {
    clinic: String,
    id: u32,
    #[table(encrypt, series(prefix = "D", points = 31))]
    pulse: Series<i32, 31>,
}

// A summary is written as a plain entity (E-53).
#[derive(TableEntity)]
#[table(partition = "{clinic}", row = "c")]
struct SecretCount {
    clinic: String,
    #[table(encrypt, count(LargeSecret))]
    patients: i32,
}

// Keys are never encrypted (E-50).
#[derive(TableEntity)]
#[table(partition = "{clinic}", row = "d_{id:06}")]
struct SecretKey {
    clinic: String,
    #[table(encrypt)]
    id: u32,
}

// The properties that are not encrypted have an ordinary index.
#[derive(TableEntity)]
#[table(partition = "{clinic}", row = "e_{id:06}")]
struct BlindWithoutEncryption {
    clinic: String,
    id: u32,
    #[table(blind_index)]
    name: String,
}

fn main() {}
