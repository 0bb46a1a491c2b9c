//! Sections 2.5 and 2.6: JSON by metadata level, ETag and Timestamp.

use crate::harness::{ACCOUNT, Lazuli, Request, Response, order};

const PROPERTIES: &str = r#""age":39,"name":"x","ok":true,"ratio":3.1,"even":3.0,"when@odata.type":"Edm.DateTime","when":"1973-10-04T00:00:00Z","bin@odata.type":"Edm.Binary","bin":"YmluYXJ5","big@odata.type":"Edm.Int64","big":"1125899906842624","id@odata.type":"Edm.Guid","id":"c9da6455-213d-42c9-9a79-3e9149a57833","nan@odata.type":"Edm.Double","nan":"NaN""#;
const ETAG: &str = r#"W/\"datetime'2024-07-31T18%3A30%3A00.0000002Z'\""#;
const TIMESTAMP: &str = "2024-07-31T18:30:00.0000002Z";

fn read(lazuli: &Lazuli, target: &str, level: &str) -> Response {
    let accept = format!("application/json;odata={level}");
    lazuli.send(&Request::new("GET", target).accept(&accept)).expect(200)
}

/// T-2.27 to T-2.33, T-2.36, T-2.38, T-2.39, T-2.45.
#[test]
fn an_entity_reads_as_its_level_says() {
    let lazuli = Lazuli::with_rows(&[("r", PROPERTIES)]);
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let keys = r#""PartitionKey":"p","RowKey":"r""#;
    let link = "Orders(PartitionKey='p',RowKey='r')";
    // Type annotations appear at minimal and full metadata, and not at none.
    let bare: String = PROPERTIES
        .split(',')
        .filter(|member| !member.contains("@odata.type"))
        .collect::<Vec<_>>()
        .join(",");
    let none = format!(r#"{{{keys},"Timestamp":"{TIMESTAMP}",{bare}}}"#);
    let inner = format!(r#""odata.etag":"{ETAG}",{keys},"Timestamp":"{TIMESTAMP}",{PROPERTIES}"#);
    let full = format!(
        r#""odata.type":"{ACCOUNT}.Orders","odata.id":"{base}/{link}","odata.etag":"{ETAG}","odata.editLink":"{link}",{keys},"Timestamp@odata.type":"Edm.DateTime","Timestamp":"{TIMESTAMP}",{PROPERTIES}"#
    );
    let context = format!(r#""odata.metadata":"{base}/$metadata#Orders"#);
    assert_eq!(read(&lazuli, &order("r"), "nometadata").text(), none);
    assert_eq!(
        read(&lazuli, &order("r"), "minimalmetadata").text(),
        format!(r#"{{{context}/@Element",{inner}}}"#)
    );
    assert_eq!(
        read(&lazuli, &order("r"), "fullmetadata").text(),
        format!(r#"{{{context}/@Element",{full}}}"#)
    );
    let page = |level: &str| read(&lazuli, "/Orders()", level).text().to_owned();
    assert_eq!(page("nometadata"), format!(r#"{{"value":[{none}]}}"#));
    assert_eq!(page("minimalmetadata"), format!(r#"{{{context}","value":[{{{inner}}}]}}"#));
    assert_eq!(page("fullmetadata"), format!(r#"{{{context}","value":[{{{full}}}]}}"#));
}

/// T-2.31, T-2.40.
#[test]
fn tables_read_as_their_level_says() {
    let lazuli = Lazuli::with_orders();
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let full = format!(
        r#""odata.type":"{ACCOUNT}.Tables","odata.id":"{base}/Tables('Orders')","odata.editLink":"Tables('Orders')","TableName":"Orders""#
    );
    let context = format!(r#""odata.metadata":"{base}/$metadata#Tables"#);
    let name = r#""TableName":"Orders""#;
    let list = |level: &str| read(&lazuli, "/Tables", level).text().to_owned();
    assert_eq!(list("nometadata"), format!(r#"{{"value":[{{{name}}}]}}"#));
    assert_eq!(list("minimalmetadata"), format!(r#"{{{context}","value":[{{{name}}}]}}"#));
    assert_eq!(list("fullmetadata"), format!(r#"{{{context}","value":[{{{full}}}]}}"#));
    let one = |level: &str| read(&lazuli, "/Tables('Orders')", level).text().to_owned();
    assert_eq!(one("nometadata"), format!("{{{name}}}"));
    assert_eq!(one("fullmetadata"), format!(r#"{{{context}/@Element",{full}}}"#));
}

/// T-2.37, T-4.43, T-4.45, T-4.45a.
#[test]
fn a_selection_shows_what_it_names_in_the_order_of_storage() {
    let lazuli = Lazuli::with_rows(&[("r", r#""foo":1,"baz":2,"bar":3"#)]);
    let base = format!("http://{}/{ACCOUNT}", lazuli.address);
    let select = "baz,PartitionKey,RowKey";
    let entity = lazuli.get(&format!("{}?$select={select}", order("r"))).expect(200);
    let expect = format!(
        r#"{{"odata.metadata":"{base}/$metadata#Orders/@Element&$select={select}","odata.etag":"{ETAG}","PartitionKey":"p","RowKey":"r","baz":2}}"#
    );
    assert_eq!(entity.text(), expect);
    let none = read(&lazuli, "/Orders()?$select=bar,nosuch", "nometadata");
    assert_eq!(none.text(), r#"{"value":[{"bar":3,"nosuch":null}]}"#);
    // A star selects everything, and is repeated like any other list.
    let tables = lazuli.get("/Tables?$select=TableName").expect(200);
    let expect = format!(
        r#"{{"odata.metadata":"{base}/$metadata#Tables&$select=TableName","value":[{{"TableName":"Orders"}}]}}"#
    );
    assert_eq!(tables.text(), expect);
    let table = lazuli.get("/Tables('Orders')?$select=TableName").expect(200);
    assert!(table.text().contains("$metadata#Tables/@Element&$select=TableName\""));
    let all = lazuli.get("/Orders()?$select=*").expect(200);
    assert!(all.text().contains("$metadata#Orders&$select=*\""), "{}", all.text());
    assert!(all.text().contains(r#""foo":1,"baz":2,"bar":3"#), "{}", all.text());
}

/// T-2.42 to T-2.44, T-2.47.
#[test]
fn a_timestamp_is_the_time_of_the_write_and_nobody_elses() {
    let lazuli = Lazuli::with_orders();
    lazuli.clock.advance_seconds(60);
    let body = r#"{"PartitionKey":"p","RowKey":"r","Timestamp":"2000-01-01T00:00:00Z"}"#;
    let entity = lazuli.insert("Orders", body).expect(201);
    assert!(entity.text().contains(r#""Timestamp":"2024-07-31T18:31:00Z""#), "{}", entity.text());
    entity.expect_header("etag", Some("W/\"datetime'2024-07-31T18%3A31%3A00Z'\""));
}

/// T-2.48 (unverified, a tolerance).
#[test]
fn an_etag_is_taken_in_every_spelling() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    for etag in [
        "W/\"datetime'2024-07-31T18%3A30%3A00.0000002Z'\"",
        "W/\"datetime'2024-07-31T18%3a30%3a00.0000003Z'\"",
        "  W/\"datetime'2024-07-31T18:30:00.0000004Z'\" ",
    ] {
        lazuli.write("PUT", "r", Some(etag), "{}").expect(204);
    }
}

/// T-2.50: in a batch, every write has a valid ETag.
#[test]
fn the_etags_of_a_batch_are_those_of_the_entities() {
    use crate::harness::Op;
    let lazuli = Lazuli::with_rows(&[("old", "")]);
    let merge = Op::on("MERGE", "old", r#"{"A":1}"#).with("If-Match", "*");
    let answer = lazuli.batch(&[Op::insert("new"), merge]).expect(&[201, 204]);
    for (part, row) in answer.parts.iter().zip(["new", "old"]) {
        let read = lazuli.get(&order(row)).expect(200);
        assert_eq!(part.header("etag"), read.header("etag"), "{row}");
    }
}
