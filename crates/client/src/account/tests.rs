use super::*;

#[test]
fn an_account_shows_where_it_is_and_no_secret() {
    // CS-1, C-2.10.
    let text = "AccountName=acct;AccountKey=c2VjcmV0;Colour=blue";
    let account = Account::from_connection_string(text).unwrap();
    let shown = format!("{account:?}");
    assert!(shown.contains("https://acct.table.core.windows.net"), "{shown}");
    assert!(!shown.contains("c2VjcmV0"), "{shown}");
    assert_eq!(account.name(), Some("acct"));
    assert_eq!(account.ignored_settings(), ["Colour"]);
    assert_eq!(account.table_endpoint(), Some("https://acct.table.core.windows.net"));
}

#[test]
fn a_builder_checks_what_it_was_given() {
    assert!(Account::builder("ftp://host").build().is_err());
    assert!(Account::builder("host").build().is_err());
    assert!(Account::builder("http://host").application("a\nb").build().is_err());
    let account = Account::builder("http://127.0.0.1:10002/acct/")
        .credential(Credential::shared_key("acct", "a2V5").unwrap())
        .build()
        .unwrap();
    assert_eq!(account.table_endpoint(), Some("http://127.0.0.1:10002/acct"));
    assert_eq!(account.name(), Some("acct"));
}

#[test]
fn an_endpoint_that_is_none_is_refused_and_not_shown() {
    // C-2.10: what is given by mistake is often the secret.
    for (text, hint) in [
        ("https://a.table.core.windows.net/?sv=2019-02-02&sig=c2VjcmV0", "Credential::sas"),
        ("https://a.table.core.windows.net/?restype=c2VjcmV0", "no query"),
        ("AccountName=a;AccountKey=c2VjcmV0", "from_connection_string"),
        (
            "DefaultEndpointsProtocol=https;AccountName=a;SharedAccessSignature=sig=c2VjcmV0",
            "from_connection_string",
        ),
        ("https://user:c2VjcmV0@host", ""),
        ("https://host/a#c2VjcmV0", ""),
        ("c2VjcmV0", ""),
        ("https://", ""),
        ("http://h\u{e9}te", ""),
        ("http://host:99999999/c2VjcmV0", ""),
    ] {
        for error in [
            Account::builder(text).build().unwrap_err(),
            Account::builder("http://host/a").queue_endpoint(text).build().unwrap_err(),
            Account::builder("http://host/a").blob_endpoint(text).build().unwrap_err(),
        ] {
            let shown = format!("{error} {error:#?}");
            assert!(shown.contains("endpoint is not an http") && shown.contains(hint), "{shown}");
            assert!(!shown.contains("c2VjcmV0"), "{shown}");
        }
    }
}

/// Endpoint of the table service, its secondary, account and kind of credential.
#[track_caller]
fn check(text: &str, table: &str, secondary: &str, name: Option<&str>, credential: &str) {
    let account = Account::from_connection_string(text).unwrap();
    let endpoint = account.0.endpoint(StorageService::Table).unwrap();
    assert_eq!((&*endpoint.primary, &*endpoint.secondary), (table, secondary), "{text}");
    assert_eq!(account.name(), name, "{text}");
    let kind = match account.0.credential.load().0 {
        Kind::SharedKey { .. } => "key",
        Kind::Sas(..) => "sas",
        _ => "none",
    };
    assert_eq!(kind, credential, "{text}");
    let shown = format!("{account:?}");
    assert!(!shown.contains("c2VjcmV0") && !shown.contains("sig="), "{shown}");
}

#[test]
fn every_form_of_a_connection_string_gives_an_account() {
    // CS-1, C-2.3: a row of the table there each.
    let cloud = "https://a.table.core.windows.net";
    let second = "https://a-secondary.table.core.windows.net";
    let local = "http://127.0.0.1:10002/devstoreaccount1";
    let (dev, key) = (Some("devstoreaccount1"), "AccountKey=c2VjcmV0");
    check(
        &format!(
            "DefaultEndpointsProtocol=https;AccountName=a;{key};EndpointSuffix=core.windows.net"
        ),
        cloud,
        second,
        Some("a"),
        "key",
    );
    check(&format!("AccountName=a;{key}"), cloud, second, Some("a"), "key");
    check(
        &format!("AccountName=a;{key};TableEndpoint=https://t.example"),
        "https://t.example",
        "https://t-secondary.example",
        Some("a"),
        "key",
    );
    check(
        &format!("AccountName=a;{key};TableSecondaryEndpoint=https://s.example"),
        cloud,
        "https://s.example",
        Some("a"),
        "key",
    );
    check(
        &format!("TableEndpoint={local};AccountName=devstoreaccount1;{key}"),
        local,
        &format!("{local}-secondary"),
        dev,
        "key",
    );
    check(
        &format!("TableEndpoint={cloud};SharedAccessSignature=?sv=2019-02-02&sig=c2VjcmV0"),
        cloud,
        second,
        None,
        "sas",
    );
    check("AccountName=a;SharedAccessSignature=sv=1&sig=b", cloud, second, Some("a"), "sas");
    check("UseDevelopmentStorage=true", local, &format!("{local}-secondary"), dev, "key");
    check(
        "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://emulator",
        "http://emulator:10002/devstoreaccount1",
        "http://emulator:10002/devstoreaccount1-secondary",
        dev,
        "key",
    );
    check(
        &format!("TableEndpoint=http://[::1]:10002/acct;AccountName=acct;{key}"),
        "http://[::1]:10002/acct",
        "http://[::1]:10002/acct-secondary",
        Some("acct"),
        "key",
    );
    check(
        &format!("TableEndpoint=http://acct.table.localhost:10002;AccountName=acct;{key}"),
        "http://acct.table.localhost:10002",
        "http://acct-secondary.table.localhost:10002",
        Some("acct"),
        "key",
    );
    let cosmos = format!("TableEndpoint=https://a.table.cosmos.azure.com:443/;AccountName=a;{key}");
    let cosmos = Account::from_connection_string(&cosmos).unwrap();
    assert_eq!(cosmos.dialect(), Dialect::Cosmos);
    assert_eq!(cosmos.table_endpoint(), Some("https://a.table.cosmos.azure.com:443"));
    let port = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://emulator:1";
    assert!(Account::from_connection_string(port).is_err());
}
