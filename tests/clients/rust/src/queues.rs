//! `azure_storage_queue` through what a token over http lets it do.
//!
//! This SDK knows no account key: it takes bearer tokens, over https alone, or a URL with a shared access
//! signature. So the signatures are made here, and some things it cannot try: a wrong key, setting
//! access policies (no signature opens them, Q-10.8), and user delegation keys.

use crate::{Outcome, Running, equal, fresh_name};
use azure_core::auth::Secret;
use azure_core::hmac::hmac_sha256;
use azure_core_1::error::ErrorKind;
use azure_core_1::http::headers::HeaderName;
use azure_core_1::http::{ClientOptions, RetryOptions, Url};
use azure_storage::ConnectionString;
use azure_storage_queue::models::{
    CorsRule, ListQueuesIncludeType, Metrics, PeekedMessage, QueueClientCreateOptions,
    QueueClientGetPropertiesResultHeaders, QueueClientPeekMessagesOptions,
    QueueClientReceiveMessagesOptions, QueueClientSendMessageOptions,
    QueueClientUpdateMessageOptions, QueueMessage, QueueServiceClientListQueuesOptions,
    QueueServiceProperties, ReceivedMessage, RetentionPolicy, SentMessage,
};
use azure_storage_queue::{
    QueueClient, QueueClientOptions, QueueServiceClient, QueueServiceClientOptions,
};
use futures::StreamExt;
use std::collections::HashMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;

type Case = for<'a> fn(&'a Queues) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;
type Found<T> = Result<T, Box<dyn Error>>;

const CASES: &[(&str, Case)] = &[
    ("queues_are_created_listed_and_deleted", |q| Box::pin(list(q))),
    ("metadata_is_replaced_as_a_whole", |q| Box::pin(metadata(q))),
    ("a_message_is_put_got_updated_and_deleted", |q| Box::pin(life(q))),
    ("messages_are_delayed_counted_and_cleared", |q| Box::pin(times(q))),
    ("texts_come_back_as_sent", |q| Box::pin(texts(q))),
    ("tokens_open_what_they_say", |q| Box::pin(tokens(q))),
    ("service_properties_are_kept_section_by_section", |q| Box::pin(properties(q))),
    ("the_secondary_has_the_statistics", |q| Box::pin(statistics(q))),
];

/// The cases by name, each with a queue of its own.
pub(crate) fn cases(connection: &ConnectionString) -> Found<Vec<(String, Running)>> {
    let account = Account {
        name: connection.account_name.ok_or("no account")?.to_owned(),
        key: Secret::new(connection.account_key.ok_or("no key")?.to_owned()),
        endpoint: connection.queue_endpoint.ok_or("no endpoint")?.to_owned(),
    };
    let bind = |(name, case): &(&str, Case)| {
        (format!("queues.{name}"), Box::pin(run_one(account.clone(), *case)) as Running)
    };
    Ok(CASES.iter().map(bind).collect())
}

async fn run_one(account: Account, case: Case) -> Outcome {
    let service = account.service("", "rwdlacup", "sco")?;
    let name = fresh_name("q");
    let queue = service.queue_client(&name)?;
    queue.create(None).await?;
    let queues = Queues { account, service, name, queue };
    let outcome = case(&queues).await;
    queues.queue.delete(None).await?;
    outcome
}

/// What a case works with.
struct Queues {
    account: Account,
    service: QueueServiceClient,
    name: String,
    queue: QueueClient,
}

#[derive(Clone)]
struct Account {
    name: String,
    key: Secret,
    endpoint: String,
}

const EXPIRY: &str = "2099-01-01T00:00:00Z";
const VERSION: &str = "2019-02-02";

impl Account {
    /// A client of the account with a signature for these letters and resource types (A-13.24).
    fn service(&self, suffix: &str, letters: &str, types: &str) -> Found<QueueServiceClient> {
        let text = format!("{}\n{letters}\nq\n{types}\n\n{EXPIRY}\n\n\n{VERSION}\n", self.name);
        let pairs = [("sv", VERSION), ("ss", "q"), ("srt", types), ("sp", letters), ("se", EXPIRY)];
        let url = self.signed(suffix, &text, &pairs)?;
        let options =
            QueueServiceClientOptions { client_options: one_attempt(), ..Default::default() };
        Ok(QueueServiceClient::new(url, None, Some(options))?)
    }

    /// A client of one queue with a signature for these letters (A-13.14).
    fn queue(&self, name: &str, letters: &str) -> Found<QueueClient> {
        let resource = format!("/queue/{}/{name}", self.name);
        let text = format!("{letters}\n\n{EXPIRY}\n{resource}\n\n\n\n{VERSION}");
        let pairs = [("sv", VERSION), ("sp", letters), ("se", EXPIRY)];
        let url = self.signed(&format!("/{name}"), &text, &pairs)?;
        let options = QueueClientOptions { client_options: one_attempt(), ..Default::default() };
        Ok(QueueClient::new(url, None, Some(options))?)
    }

    fn signed(&self, suffix: &str, text: &str, pairs: &[(&str, &str)]) -> Found<Url> {
        let mut url = Url::parse(&format!("{}{suffix}", self.endpoint))?;
        url.query_pairs_mut()
            .extend_pairs(pairs)
            .append_pair("sig", &hmac_sha256(text, &self.key)?);
        Ok(url)
    }
}

/// One attempt: a retry would hide an answer that should not have been given.
fn one_attempt() -> ClientOptions {
    ClientOptions { retry: RetryOptions::none(), ..Default::default() }
}

impl Queues {
    async fn send(&self, text: &str, delay: Option<i32>, life: Option<i32>) -> Found<SentMessage> {
        let options = QueueClientSendMessageOptions {
            visibility_timeout: delay,
            message_time_to_live: life,
            ..Default::default()
        };
        let sent = self.queue.send_message(message(text).try_into()?, Some(options)).await?;
        Ok(sent
            .into_model()?
            .items
            .and_then(|mut items| items.pop())
            .ok_or("no message in the answer")?)
    }

    /// Dequeues up to 32 messages and hides them for ten minutes.
    async fn take(&self) -> Found<Vec<ReceivedMessage>> {
        let options = QueueClientReceiveMessagesOptions {
            number_of_messages: Some(32),
            visibility_timeout: Some(600),
            ..Default::default()
        };
        Ok(self
            .queue
            .receive_messages(Some(options))
            .await?
            .into_model()?
            .items
            .unwrap_or_default())
    }

    async fn peeked(&self) -> Found<Vec<String>> {
        let options =
            QueueClientPeekMessagesOptions { number_of_messages: Some(32), ..Default::default() };
        let peeked =
            self.queue.peek_messages(Some(options)).await?.into_model()?.items.unwrap_or_default();
        Ok(peeked
            .into_iter()
            .map(|PeekedMessage { message_text, .. }| message_text.unwrap_or_default())
            .collect())
    }

    /// Makes a message visible at once, with another text if one is given; returns the new receipt.
    async fn update(&self, id: &str, receipt: &str, text: Option<&str>) -> Found<String> {
        let queue_message = text.map(|text| message(text).try_into()).transpose()?;
        let options = QueueClientUpdateMessageOptions { queue_message, ..Default::default() };
        let answer = self.queue.update_message(id, receipt, 0, Some(options)).await?;
        let header = HeaderName::from_static("x-ms-popreceipt");
        Ok(answer.headers().get_str(&header)?.to_owned())
    }

    async fn count(&self) -> Found<Option<i64>> {
        Ok(self.queue.get_properties(None).await?.approximate_messages_count()?)
    }
}

fn message(text: &str) -> QueueMessage {
    QueueMessage { message_text: Some(text.to_owned()) }
}

/// The id and the receipt of a message that was dequeued.
fn hold(message: &ReceivedMessage) -> Found<(&str, &str)> {
    let both = message.message_id.as_deref().zip(message.pop_receipt.as_deref());
    Ok(both.ok_or("a message without id or receipt")?)
}

async fn list(q: &Queues) -> Outcome {
    let stem = fresh_name("rust");
    let names: Vec<String> = (0..5).map(|n| format!("{stem}-{n}")).collect();
    for name in &names {
        let pairs = HashMap::from([("last".to_owned(), name.clone())]);
        let options = QueueClientCreateOptions { metadata: Some(pairs), ..Default::default() };
        q.service.queue_client(name)?.create(Some(options)).await?;
    }
    let options = QueueServiceClientListQueuesOptions {
        prefix: Some(stem.clone()),
        maxresults: Some(2),
        include: Some(vec![ListQueuesIncludeType::Metadata]),
        ..Default::default()
    };
    let mut pages = q.service.list_queues(Some(options))?.into_pages();
    let mut listed: Vec<Vec<(Option<String>, Option<String>)>> = Vec::new();
    while let Some(page) = pages.next().await {
        let items = page?.into_model()?.queue_items.into_iter();
        listed.push(
            items
                .map(|item| (item.name, item.metadata.and_then(|mut m| m.remove("last"))))
                .collect(),
        );
    }
    let expected: Vec<Vec<_>> = names
        .chunks(2)
        .map(|page| page.iter().map(|n| (Some(n.clone()), Some(n.clone()))).collect())
        .collect();
    equal(&listed, &expected)?;
    let first = q.service.queue_client(&names[0])?;
    refused(first.create(None).await, 409, "QueueAlreadyExists")?;
    equal(&first.exists().await?, &true)?;
    for name in &names {
        q.service.queue_client(name)?.delete(None).await?;
    }
    equal(&first.exists().await?, &false)?;
    refused(first.delete(None).await, 404, "QueueNotFound")?;
    refused(first.receive_messages(None).await, 404, "QueueNotFound")?;
    refused(q.service.queue_client("Upper")?.create(None).await, 400, "InvalidResourceName")?;
    refused(q.service.queue_client("ab")?.create(None).await, 400, "OutOfRangeInput")
}

async fn metadata(q: &Queues) -> Outcome {
    let pairs = |pairs: &[(&str, &str)]| -> HashMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    for set in
        [pairs(&[("color", "deep blue"), ("n1", "5")]), pairs(&[("shape", "round")]), pairs(&[])]
    {
        q.queue.set_metadata(&set, None).await?;
        equal(&q.queue.get_properties(None).await?.metadata()?, &set)?;
    }
    refused(q.queue.set_metadata(&pairs(&[("12345", "x")]), None).await, 400, "InvalidMetadata")
}

async fn life(q: &Queues) -> Outcome {
    let put = q.send("first", None, None).await?;
    let lasting =
        put.expiration_time.zip(put.insertion_time).map(|(end, start)| (end - start).whole_days());
    equal(&lasting, &Some(7))?;
    equal(&q.peeked().await?, &vec!["first".to_owned()])?;
    let taken = q.take().await?;
    let (id, receipt) = hold(&taken[0])?;
    equal(&(Some(id), taken[0].dequeue_count), &(put.message_id.as_deref(), Some(1)))?;
    equal(&(q.take().await?.len(), q.peeked().await?.len(), q.count().await?), &(0, 0, Some(1)))?;
    let updated = q.update(id, receipt, Some("second")).await?;
    let again = q.take().await?;
    let (_, newest) = hold(&again[0])?;
    equal(&(again[0].message_text.as_deref(), again[0].dequeue_count), &(Some("second"), Some(2)))?;
    // Q-6.39, Q-6.40: a receipt before the newest is stale, and that is 404.
    for stale in [put.pop_receipt.as_deref().unwrap_or_default(), receipt, &updated] {
        refused(q.queue.delete_message(id, stale, None).await, 404, "MessageNotFound")?;
    }
    refused(q.queue.delete_message(id, "invalid", None).await, 400, "InvalidQueryParameterValue")?;
    q.queue.delete_message(id, newest, None).await?;
    refused(q.queue.delete_message(id, newest, None).await, 404, "MessageNotFound")?;
    equal(&q.count().await?, &Some(0))
}

async fn times(q: &Queues) -> Outcome {
    let late = q.send("late", Some(3600), Some(-1)).await?;
    equal(&late.expiration_time.map(|time| time.year()), &Some(9999))?;
    let sent: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    for text in &sent {
        q.send(text, None, None).await?;
    }
    let (first, rest) = (q.take().await?, q.take().await?);
    // One Get gives one receipt to all its messages (Q-7.3).
    equal(&first.iter().all(|message| message.pop_receipt == first[0].pop_receipt), &true)?;
    let seen: Vec<String> =
        first.iter().chain(&rest).filter_map(|message| message.message_text.clone()).collect();
    equal(&seen, &sent)?;
    equal(&q.count().await?, &Some(41))?;
    // The receipt of Put Message is good until the message is dequeued (Q-6.38); without a text the old one stays.
    let (id, receipt) = late.message_id.zip(late.pop_receipt).ok_or("no id or receipt")?;
    q.update(&id, &receipt, None).await?;
    equal(&q.peeked().await?, &vec!["late".to_owned()])?;
    let many =
        QueueClientReceiveMessagesOptions { number_of_messages: Some(33), ..Default::default() };
    refused(q.queue.receive_messages(Some(many)).await, 400, "OutOfRangeQueryParameterValue")?;
    q.queue.clear(None).await?;
    equal(&q.count().await?, &Some(0))
}

async fn texts(q: &Queues) -> Outcome {
    let sent = [
        "<tag attribute=\"'\">&amp; & ]]> <!-- no --></tag>",
        "ô 日本語 😀",
        "tab\tand\nline",
        &"é".repeat(32768),
    ];
    for text in sent {
        q.send(text, None, None).await?;
    }
    equal(&q.peeked().await?, &sent.map(str::to_owned).to_vec())?;
    let large = q.queue.send_message(message(&"a".repeat(65537)).try_into()?, None).await;
    refused(large, 413, "RequestBodyTooLarge")
}

async fn tokens(q: &Queues) -> Outcome {
    q.send("x", None, None).await?;
    let reader = q.account.queue(&q.name, "r")?;
    let read = reader.peek_messages(None).await?.into_model()?.items.unwrap_or_default();
    equal(&read.len(), &1)?;
    refused(reader.receive_messages(None).await, 403, "AuthorizationPermissionMismatch")?;
    refused(reader.clear(None).await, 403, "AuthorizationFailure")?;
    refused(q.queue.get_access_policy(None).await, 403, "AuthorizationFailure")?;
    let forged = Url::parse(&reader.url().as_str().replace("sp=r", "sp=raup"))?;
    let options = QueueClientOptions { client_options: one_attempt(), ..Default::default() };
    let forger = QueueClient::new(forged, None, Some(options))?;
    refused(forger.receive_messages(None).await, 403, "AuthenticationFailed")?;
    let lister = q.account.service("", "l", "s")?;
    refused(
        lister.queue_client(&q.name)?.peek_messages(None).await,
        403,
        "AuthorizationResourceTypeMismatch",
    )
}

async fn properties(q: &Queues) -> Outcome {
    let retention = RetentionPolicy { enabled: Some(true), days: Some(5) };
    let metrics = Metrics {
        version: Some("1.0".to_owned()),
        enabled: Some(true),
        include_apis: Some(true),
        retention_policy: Some(retention),
    };
    let rule = CorsRule {
        allowed_origins: Some("http://a.example,http://b.example".to_owned()),
        allowed_methods: Some("GET,PUT".to_owned()),
        allowed_headers: Some("x-ms-meta-*,x-ms-meta-one".to_owned()),
        exposed_headers: Some("*".to_owned()),
        max_age_in_seconds: Some(500),
    };
    let with =
        |cors, hour_metrics| QueueServiceProperties { cors, hour_metrics, ..Default::default() };
    q.service.set_properties(with(None, Some(metrics)).try_into()?, None).await?;
    q.service.set_properties(with(Some(vec![rule.clone()]), None).try_into()?, None).await?;
    let read = q.service.get_properties(None).await?.into_model()?;
    let hour = read.hour_metrics.ok_or("no hour metrics")?;
    equal(&(hour.enabled, hour.include_apis), &(Some(true), Some(true)))?;
    // Q-9.1a: names before prefixes.
    let headers: Vec<_> =
        read.cors.unwrap_or_default().into_iter().map(|rule| rule.allowed_headers).collect();
    equal(&headers, &vec![Some("x-ms-meta-one,x-ms-meta-*".to_owned())])?;
    let six = with(Some(vec![rule; 6]), None).try_into()?;
    refused(q.service.set_properties(six, None).await, 400, "InvalidXmlDocument")
}

async fn statistics(q: &Queues) -> Outcome {
    let secondary = q.account.service("-secondary", "rwdlacup", "sco")?;
    let stats = secondary.get_statistics(None).await?.into_model()?;
    let replication = stats.geo_replication.ok_or("no replication")?;
    equal(&replication.status.map(|status| status.to_string()), &Some("live".to_owned()))?;
    equal(&replication.last_sync_time.is_some(), &true)?;
    let reader = secondary.queue_client(&q.name)?;
    equal(&reader.exists().await?, &true)?;
    refused(reader.receive_messages(None).await, 403, "InsufficientAccountPermissions")
}

fn refused<T>(answer: azure_core_1::Result<T>, status: u16, code: &str) -> Outcome {
    let Some(error) = answer.err() else {
        return Err(format!("accepted, where {status} {code} was due").into());
    };
    match error.kind() {
        ErrorKind::HttpResponse { status: seen, error_code: Some(told), .. }
            if u16::from(*seen) == status && told == code =>
        {
            Ok(())
        }
        kind => Err(format!("{kind:?}, where {status} {code} was due: {error}").into()),
    }
}
