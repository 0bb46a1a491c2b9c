use lazuli_client::prelude::*;

#[derive(TableEntity)]
#[table(partition = "{department}", row = "empid_{id:06}")]
struct Employee {
    department: String,
    id: u32,
    salary: i32,
}

// A count of nothing is 0.
#[derive(TableEntity)]
#[table(partition = "{department}", row = "a")]
struct OptionalCount {
    department: String,
    #[table(count(Employee))]
    count: Option<i32>,
}

// Nobody may be hired yet.
#[derive(TableEntity)]
#[table(partition = "{department}", row = "b")]
struct CertainLatest {
    department: String,
    #[table(latest(Employee.salary))]
    best: i32,
}

#[derive(TableEntity)]
#[table(partition = "{department}", row = "c")]
struct NotSaidWhose {
    department: String,
    #[table(copy(Employee.salary))]
    salary: Option<i32>,
}

#[derive(TableEntity)]
#[table(partition = "{department}", row = "d")]
struct NamesTwo {
    department: String,
    first: Option<u32>,
    second: Option<u32>,
    #[table(copy(Employee.salary, by = first))]
    a: Option<i32>,
    #[table(copy(Employee.salary, by = second))]
    b: Option<i32>,
}

#[derive(TableEntity)]
#[table(partition = "{department}", row = "e")]
struct LatestOfShards {
    department: String,
    #[table(count(Employee, shards = 8))]
    count: i32,
    #[table(latest(Employee.salary))]
    best: Option<i32>,
}

#[derive(TableEntity)]
#[table(partition = "{department}", row = "f")]
struct TooManyShards {
    department: String,
    #[table(count(Employee, shards = 101))]
    count: i32,
}

#[derive(TableEntity)]
#[table(partition = "{department}", row = "g")]
struct SumOfWhat {
    department: String,
    #[table(sum(Employee))]
    sum: i64,
}

fn main() {}
