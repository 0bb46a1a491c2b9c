//! Types that only implement serde (C-5.30).

use lazuli_client::prelude::*;
use lazuli_client::{Guid, Value};
use lazuli_test::TestServer;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq)]
enum Size {
    Small,
    Large,
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
struct Product {
    category: String,
    id: String,
    price: f64,
    stock: i32,
    sold: i64,
    size: Size,
    note: Option<String>,
    #[serde(with = "lazuli_client::serde_guid")]
    guid: Guid,
    #[serde(with = "lazuli_client::serde_timestamp")]
    made: Timestamp,
}

fn product() -> Product {
    Product {
        category: "bolts".into(),
        id: "m8".into(),
        price: 0.5,
        stock: 7,
        sold: 1 << 40,
        size: Size::Large,
        note: None,
        guid: Guid([3; 16]),
        made: Timestamp::UNIX_EPOCH,
    }
}

#[test]
fn a_serde_type_becomes_properties_and_comes_back() {
    let entity = Entity::serialize("bolts", "m8", &product()).unwrap();
    let is = |name: &str, value: Value| assert_eq!(entity.value(name), Some(&value), "{name}");
    is("stock", Value::Int32(7));
    is("sold", Value::Int64(1 << 40));
    is("size", Value::String("Large".into()));
    is("guid", Value::Guid(Guid([3; 16])));
    is("made", Value::DateTime(Timestamp::UNIX_EPOCH));
    assert_eq!(entity.value("note"), None);
    assert_eq!(entity.deserialize::<Product>().unwrap(), product());
    let map: std::collections::BTreeMap<&str, i32> = [("a", 1)].into();
    assert_eq!(Entity::serialize("p", "r", &map).unwrap().get::<i32>("a"), Ok(1));

    #[derive(Serialize)]
    struct Nested {
        inner: Vec<i32>,
    }
    let error = Entity::serialize("p", "r", &Nested { inner: vec![1] }).unwrap_err();
    assert!(error.to_string().contains("field inner"), "{error}");
    assert!(Entity::serialize("p", "r", &1).is_err());
    let error = Entity::new("p", "r").with("category", "x").deserialize::<Product>().unwrap_err();
    assert!(error.to_string().contains("missing field"), "{error}");
}

#[tokio::test]
async fn a_table_of_a_serde_type_has_keys_by_function() {
    let server = TestServer::start().await.unwrap();
    let tables = server.account().tables();
    tables.create("Products").await.unwrap();
    let products = tables.of_serde::<Product>("Products", |p| (&p.category, &p.id)).unwrap();
    products.insert(&product()).await.unwrap();
    let mut loaded = products.get("bolts", "m8").await.unwrap().unwrap();
    assert_eq!(*loaded, product());
    loaded.stock = 8;
    products.replace(&loaded).await.unwrap();
    assert!(products.replace(&loaded).await.unwrap_err().is_precondition_failed());
    let found = products.query(partition("bolts")).collect_at_most(9).await.unwrap();
    assert_eq!((found.len(), found[0].stock), (1, 8));
    products.delete(&found[0]).await.unwrap();
    assert!(products.get("bolts", "m8").await.unwrap().is_none());
}
