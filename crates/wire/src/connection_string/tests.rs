use super::*;
use proptest::prelude::*;

#[track_caller]
fn parse(text: &str) -> ConnectionString {
    ConnectionString::parse(text).unwrap()
}

#[track_caller]
fn check(text: &str, service: StorageService, primary: &str, secondary: &str) {
    let parsed = parse(text);
    let endpoint = parsed.endpoint(service).unwrap();
    assert_eq!((&*endpoint.primary, &*endpoint.secondary), (primary, secondary), "{text}");
}

#[test]
fn the_cloud_s_endpoints_are_derived() {
    // C-2.3.
    let text = "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=a2V5;EndpointSuffix=core.windows.net";
    for (service, name) in [
        (StorageService::Table, "table"),
        (StorageService::Queue, "queue"),
        (StorageService::Blob, "blob"),
    ] {
        let primary = format!("https://a.{name}.core.windows.net");
        let secondary = format!("https://a-secondary.{name}.core.windows.net");
        check(text, service, &primary, &secondary);
        check("accountname=a;ACCOUNTKEY=a2V5", service, &primary, &secondary);
    }
    check(
        "DefaultEndpointsProtocol=HTTP;AccountName=a;AccountKey=a2V5;EndpointSuffix=example.org;",
        StorageService::Table,
        "http://a.table.example.org",
        "http://a-secondary.table.example.org",
    );
}

#[test]
fn a_named_endpoint_wins_and_others_are_derived() {
    let text = "AccountName=a;AccountKey=a2V5;TableEndpoint=http://127.0.0.1:10002/a/";
    check(
        text,
        StorageService::Table,
        "http://127.0.0.1:10002/a",
        "http://127.0.0.1:10002/a-secondary",
    );
    check(
        text,
        StorageService::Queue,
        "https://a.queue.core.windows.net",
        "https://a-secondary.queue.core.windows.net",
    );
    check(
        "AccountName=a;TableEndpoint=https://x.example;TableSecondaryEndpoint=https://y.example",
        StorageService::Table,
        "https://x.example",
        "https://y.example",
    );
}

#[test]
fn hosts_of_every_kind_are_taken() {
    for address in [
        "http://[::1]:10002/acct",
        "http://acct.table.localhost:10002",
        "https://a.table.cosmos.azure.com:443",
    ] {
        let parsed = parse(&format!("TableEndpoint={address}/;AccountName=acct;AccountKey=a2V5"));
        assert_eq!(parsed.endpoint(StorageService::Table).unwrap().primary, address);
        assert_eq!(parsed.account.as_deref(), Some("acct"));
    }
}

#[test]
fn a_signature_needs_no_account() {
    for token in ["sv=2019-02-02&sig=a%3D", "?sv=2019-02-02&sig=a%3D"] {
        let parsed = parse(&format!(
            "TableEndpoint=https://a.table.core.windows.net;SharedAccessSignature={token}"
        ));
        let ConnectionCredential::Sas(sas) = parsed.credential else { panic!("a signature") };
        assert_eq!(sas, "sv=2019-02-02&sig=a%3D");
        assert_eq!(parsed.account, None);
        assert!(parsed.endpoints[StorageService::Queue as usize].is_none());
    }
    check(
        "AccountName=a;SharedAccessSignature=sv=1&sig=b",
        StorageService::Table,
        "https://a.table.core.windows.net",
        "https://a-secondary.table.core.windows.net",
    );
}

#[test]
fn development_storage_has_its_ports_and_account() {
    let text = "UseDevelopmentStorage=true";
    check(
        text,
        StorageService::Blob,
        "http://127.0.0.1:10000/devstoreaccount1",
        "http://127.0.0.1:10000/devstoreaccount1-secondary",
    );
    check(
        text,
        StorageService::Queue,
        "http://127.0.0.1:10001/devstoreaccount1",
        "http://127.0.0.1:10001/devstoreaccount1-secondary",
    );
    check(
        text,
        StorageService::Table,
        "http://127.0.0.1:10002/devstoreaccount1",
        "http://127.0.0.1:10002/devstoreaccount1-secondary",
    );
    let text = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://[::1]/";
    check(
        text,
        StorageService::Table,
        "http://[::1]:10002/devstoreaccount1",
        "http://[::1]:10002/devstoreaccount1-secondary",
    );
    assert_eq!(parse(text).account.as_deref(), Some(DEVELOPMENT_ACCOUNT));
}

#[test]
fn parts_may_be_empty_spaced_and_unknown() {
    let parsed = parse(" AccountName = a ;; AccountKey=a2V5IQ== ;Colour=blue=red;");
    assert_eq!(parsed.account.as_deref(), Some("a"));
    assert_eq!(parsed.ignored, ["Colour"]);
}

#[test]
fn faults_name_the_part_and_never_its_value() {
    // C-2.10.
    use ConnectionStringError as E;
    let name = |name: &str| name.to_owned();
    for (text, error) in [
        ("AccountName=a;secret", E::NoValue { index: 1 }),
        ("AccountName=secret;accountname=secret", E::Duplicate { name: name("accountname") }),
        ("AccountName=;AccountKey=a2V5", E::Empty { name: "AccountName" }),
        ("AccountName=a;AccountKey=secret!", E::Key(InvalidKey)),
        ("AccountName=a;TableEndpoint=secret", E::NotAnAddress { name: name("TableEndpoint") }),
        ("TableEndpoint=ftp://secret", E::NotAnAddress { name: name("TableEndpoint") }),
        ("TableEndpoint=http://", E::NotAnAddress { name: name("TableEndpoint") }),
        ("TableEndpoint=http://h:secret", E::NotAnAddress { name: name("TableEndpoint") }),
        ("TableEndpoint=http://h:65536/a", E::NotAnAddress { name: name("TableEndpoint") }),
        ("TableEndpoint=http://[::1]:x/a", E::NotAnAddress { name: name("TableEndpoint") }),
        ("TableEndpoint=http://h/?secret", E::NotAnAddress { name: name("TableEndpoint") }),
        ("DefaultEndpointsProtocol=secret;AccountName=a", E::Protocol),
        ("UseDevelopmentStorage=secret", E::DevelopmentStorage),
        ("UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://h:1", E::ProxyHasPort),
        ("TableEndpoint=http://h;AccountKey=a2V5", E::KeyWithoutAccount),
        ("AccountName=a;AccountKey=a2V5;SharedAccessSignature=secret", E::TwoCredentials),
        ("", E::NoEndpoint),
    ] {
        let got = ConnectionString::parse(text).unwrap_err();
        assert_eq!(got, error, "{text}");
        assert!(!got.to_string().contains("secret"), "{got}");
    }
}

#[test]
fn debug_shows_no_secret() {
    for text in
        ["AccountName=a;AccountKey=c2VjcmV0", "AccountName=a;SharedAccessSignature=sig=c2VjcmV0"]
    {
        let shown = format!("{:?}", parse(text));
        assert!(shown.contains("\"a\"") && !shown.contains("c2VjcmV0"), "{shown}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>(), value in any::<String>()) {
        let _ = ConnectionString::parse(&text);
        let _ = ConnectionString::parse(&format!("AccountName=a;TableEndpoint={value}"));
        let _ = ConnectionString::parse(&format!("UseDevelopmentStorage=true;DevelopmentStorageProxyUri={value}"));
        let _ = secondary_of(&text);
    }
}
