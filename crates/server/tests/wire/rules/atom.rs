//! Section 2.9: Atom, for the versions that support it.

use crate::harness::{ACCOUNT, Lazuli, Request, order};

const ATOM: &str = "application/atom+xml;charset=utf-8";

pub(super) fn entry(properties: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\" standalone=\"yes\"?>\
         <entry xmlns:d=\"http://schemas.microsoft.com/ado/2007/08/dataservices\" \
         xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/dataservices/metadata\" \
         xmlns=\"http://www.w3.org/2005/Atom\"><title /><updated>2014-01-02T03:04:05.0000000Z\
         </updated><author><name /></author><id /><content type=\"application/xml\">\
         <m:properties>{properties}</m:properties></content></entry>"
    )
}

fn old(method: &str, target: &str) -> Request {
    Request::new(method, target)
        .version("2012-02-12")
        .with("DataServiceVersion", "2.0;NetFx")
        .accept("application/atom+xml,application/xml")
}

/// T-2.63, T-2.65, T-2.66 (unverified).
#[test]
fn every_type_survives_atom() {
    let lazuli = Lazuli::with_orders();
    let properties = "<d:PartitionKey>p</d:PartitionKey><d:RowKey>r</d:RowKey>\
         <d:Text> spaces &amp; such </d:Text><d:No m:type=\"Edm.Boolean\">false</d:No>\
         <d:Int m:type=\"Edm.Int32\">23</d:Int><d:Big m:type=\"Edm.Int64\">1125899906842624</d:Big>\
         <d:Real m:type=\"Edm.Double\">1.5</d:Real><d:Inf m:type=\"Edm.Double\">INF</d:Inf>\
         <d:Minus m:type=\"Edm.Double\">-INF</d:Minus><d:Nan m:type=\"Edm.Double\">NaN</d:Nan>\
         <d:When m:type=\"Edm.DateTime\">2014-01-02T03:04:05.5Z</d:When>\
         <d:Id m:type=\"Edm.Guid\">c9da6455-213d-42c9-9a79-3e9149a57833</d:Id>\
         <d:Bin m:type=\"Edm.Binary\">YmluYXJ5</d:Bin><d:Gone m:type=\"Edm.Int32\" m:null=\"true\" />";
    let insert = old("POST", "/Orders").body("application/atom+xml", &entry(properties));
    let inserted = lazuli.send(&insert).expect(201).expect_header("content-type", Some(ATOM));
    let uri = format!("http://{}/{ACCOUNT}/Orders(PartitionKey='p',RowKey='r')", lazuli.address);
    assert!(inserted.text().contains(&format!("<id>{uri}</id>")), "{}", inserted.text());
    inserted.expect_header("location", Some(&uri));
    let expect = r#""Text":" spaces & such ","No":false,"Int":23,"Big@odata.type":"Edm.Int64","Big":"1125899906842624","Real":1.5,"Inf@odata.type":"Edm.Double","Inf":"Infinity","Minus@odata.type":"Edm.Double","Minus":"-Infinity","Nan@odata.type":"Edm.Double","Nan":"NaN","When@odata.type":"Edm.DateTime","When":"2014-01-02T03:04:05.5Z","Id@odata.type":"Edm.Guid","Id":"c9da6455-213d-42c9-9a79-3e9149a57833","Bin@odata.type":"Edm.Binary","Bin":"YmluYXJ5""#;
    assert_eq!(lazuli.stored("r"), expect);
    let read = lazuli.send(&old("GET", &order("r"))).expect(200);
    for property in [
        "<d:Text xml:space=\"preserve\"> spaces &amp; such </d:Text>",
        "<d:No m:type=\"Edm.Boolean\">false</d:No>",
        "<d:Big m:type=\"Edm.Int64\">1125899906842624</d:Big>",
        "<d:Inf m:type=\"Edm.Double\">INF</d:Inf>",
        "<d:Minus m:type=\"Edm.Double\">-INF</d:Minus>",
        "<d:When m:type=\"Edm.DateTime\">2014-01-02T03:04:05.5Z</d:When>",
        "<d:Bin m:type=\"Edm.Binary\">YmluYXJ5</d:Bin>",
    ] {
        assert!(read.text().contains(property), "{property} in {}", read.text());
    }
}

/// 2.9: tables, feeds, merges and errors use Atom too.
#[test]
fn an_old_client_can_do_without_json() {
    let lazuli = Lazuli::empty();
    let create = entry("<d:TableName>Orders</d:TableName>");
    let create = old("POST", "/Tables").body("application/atom+xml", &create);
    assert!(lazuli.send(&create).expect(201).text().contains("<d:TableName>Orders</d:TableName>"));
    let put = entry("<d:A m:type=\"Edm.Int32\">1</d:A>");
    lazuli.send(&old("PUT", &order("r")).body("application/atom+xml", &put)).expect(204);
    let merge = entry("<d:B>b</d:B>");
    let merge = old("MERGE", &order("r")).body("application/atom+xml", &merge);
    lazuli.send(&merge.with("If-Match", "*")).expect(204);
    assert_eq!(lazuli.stored("r"), r#""A":1,"B":"b""#);
    let feed = lazuli.send(&old("GET", "/Orders()")).expect(200);
    let feed = feed.expect_header("content-type", Some(ATOM));
    assert!(feed.text().contains("<title type=\"text\">Orders</title>"), "{}", feed.text());
    assert!(feed.text().contains("<link rel=\"self\" title=\"Orders\" href=\"Orders\" />"));
    let category = format!("<category term=\"{ACCOUNT}.Orders\" ");
    assert!(feed.text().contains(&category), "{}", feed.text());
    let tables = lazuli.send(&old("GET", "/Tables")).expect(200);
    assert!(tables.text().contains("<d:TableName>Orders</d:TableName>"));
    let missing = lazuli.send(&old("GET", &order("none")));
    let message = "The specified resource does not exist.";
    missing.expect_xml_error(404, "ResourceNotFound", message);
}

/// T-4.45c, T-5.40: a later option is unknown, and an update needs a condition.
#[test]
fn older_versions_lack_select_and_upsert() {
    let lazuli = Lazuli::with_rows(&[("r", "")]);
    let ask = |version: &str| {
        let select = old("GET", "/Orders()?$select=A").version(version);
        let upsert = old("PUT", &order("r")).version(version);
        (lazuli.send(&select), lazuli.send(&upsert.body("application/atom+xml", &entry(""))))
    };
    let (select, upsert) = ask("2009-09-19");
    select.expect_xml_error(400, "InvalidInput", "One of the request inputs is not valid.");
    let message = "An HTTP header that's mandatory for this request is not specified.";
    upsert.expect_xml_error(400, "MissingRequiredHeader", message);
    let (select, upsert) = ask("2011-08-18");
    assert_eq!((select.status, upsert.status), (200, 204));
}
