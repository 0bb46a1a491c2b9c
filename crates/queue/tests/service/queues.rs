//! Queues: create, delete, list, metadata, policies, properties.

use crate::engines::{Fault, Seen};
use crate::fixture::{Fixture, memory, visible_in};
use lazuli_engine::Writers;
use lazuli_model::service_properties::{CorsRule, Logging};
use lazuli_model::{
    AccessPolicies, AccessPolicy, AccountName, Metadata, PopReceipt, QueueName,
    ServicePropertiesPatch, Timestamp,
};
use lazuli_queue::{Created, ListQueues, QueueError};

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    Metadata::parse(pairs.iter().copied()).unwrap()
}

fn name(text: &str) -> QueueName {
    QueueName::parse(text).unwrap()
}

async fn create(
    fixture: &Fixture,
    queue: &str,
    of: &[(&str, &str)],
) -> Result<Created, QueueError> {
    fixture.service.create_queue(&fixture.account, &name(queue), &metadata(of)).await
}

///
#[tokio::test]
async fn creating_a_queue_again_depends_on_its_metadata() {
    let fixture = Fixture::new().await;
    let first = create(&fixture, "tasks", &[("A", "1"), ("b", "2")]).await;
    assert_eq!(first.unwrap(), Created::Created);
    let again = create(&fixture, "tasks", &[("B", "2"), ("a", "1")]).await;
    assert_eq!(again.unwrap(), Created::AlreadyThere);
    for other in [&[][..], &[("a", "1")], &[("a", "1"), ("b", "3")]] {
        let conflict = create(&fixture, "tasks", other).await;
        assert!(matches!(conflict, Err(QueueError::QueueAlreadyExists)));
    }
    let info = fixture.service.queue_info(&fixture.account, &name("tasks")).await.unwrap();
    assert_eq!(info.metadata, metadata(&[("A", "1"), ("b", "2")]));
}

#[tokio::test]
async fn a_queue_created_again_keeps_its_messages() {
    let fixture = Fixture::new().await;
    fixture.put("here").await;
    assert_eq!(create(&fixture, "orders", &[]).await.unwrap(), Created::AlreadyThere);
    assert_eq!(fixture.get_texts().await, ["here"]);
}

///
#[tokio::test]
async fn a_deleted_queue_is_gone_and_one_of_its_name_is_empty() {
    for writers in [Writers::Sole, Writers::Many] {
        let fixture = Fixture::on(memory(writers)).await;
        let Fixture { service, account, queue, .. } = &fixture;
        let put = fixture.put("old").await;
        let policy = AccessPolicy { id: "p".into(), start: None, expiry: None, permissions: None };
        let policies = AccessPolicies::of_queue(vec![policy]).unwrap();
        service.set_access_policies(account, queue, &policies).await.unwrap();
        assert_eq!(service.access_policies(account, queue).await.unwrap(), policies);
        service.delete_queue(account, queue).await.unwrap();
        all_find_no_queue(&fixture, put.id, put.receipt).await;
        create(&fixture, "orders", &[]).await.unwrap();
        assert!(service.access_policies(account, queue).await.unwrap().is_empty());
        assert_eq!((fixture.count().await, fixture.get_texts().await.len()), (0, 0));
        let gone = service.delete_message(account, queue, put.id, put.receipt).await;
        assert!(matches!(gone, Err(QueueError::MessageNotFound)));
    }
}

///
async fn all_find_no_queue(
    Fixture { service, account, queue, .. }: &Fixture,
    id: lazuli_model::MessageId,
    receipt: PopReceipt,
) {
    let text = crate::fixture::text("x");
    let times = lazuli_model::PutTimes::default();
    let update = service.update_message(account, queue, (id, receipt), visible_in(1), None);
    let none = AccessPolicies::default();
    let errors = [
        service.put_message(account, queue, &text, times).await.err(),
        service.get_messages(account, queue, 1, visible_in(1)).await.err(),
        service.peek_messages(account, queue, 1).await.err(),
        service.delete_message(account, queue, id, receipt).await.err(),
        update.await.err(),
        service.clear_messages(account, queue).await.err(),
        service.queue_info(account, queue).await.err(),
        service.set_metadata(account, queue, &Metadata::default()).await.err(),
        service.access_policies(account, queue).await.err(),
        service.set_access_policies(account, queue, &none).await.err(),
        service.delete_queue(account, queue).await.err(),
    ];
    for (index, error) in errors.into_iter().enumerate() {
        assert!(matches!(error, Some(QueueError::QueueNotFound)), "{index}: {error:?}");
    }
}

///
#[tokio::test]
async fn set_metadata_replaces_all_and_leaves_messages() {
    let fixture = Fixture::new().await;
    let Fixture { service, account, queue, .. } = &fixture;
    fixture.put("kept").await;
    for pairs in [&[("Val1", "test"), ("val2", "blah")][..], &[("c", "")], &[]] {
        service.set_metadata(account, queue, &metadata(pairs)).await.unwrap();
        let info = service.queue_info(account, queue).await.unwrap();
        assert_eq!((info.metadata.iter().collect::<Vec<_>>(), info.messages), (pairs.to_vec(), 1));
    }
    assert_eq!(fixture.get_texts().await, ["kept"]);
}

async fn list(fixture: &Fixture, list: ListQueues) -> (Vec<String>, Option<String>) {
    let mut names = Vec::new();
    let mut sink = |item: lazuli_queue::QueueItem| names.push(item.name.to_string());
    let end = fixture.service.list_queues(&fixture.account, &list, &mut sink).await.unwrap();
    (names, end.next.map(|name| name.to_string()))
}

///
#[tokio::test]
async fn queues_are_listed_in_order_by_prefix_and_page() {
    let fixture = Fixture::new().await;
    for queue in ["b-1", "b10", "b2x", "abc", "zzz", "b-2"] {
        create(&fixture, queue, &[("of", queue)]).await.unwrap();
    }
    let elsewhere = AccountName::parse("acct10").unwrap();
    let none = Metadata::default();
    fixture.service.create_queue(&elsewhere, &name("b-9"), &none).await.unwrap();
    let page = |prefix: &str, from: &str, max| ListQueues {
        prefix: prefix.to_owned(),
        from: from.to_owned(),
        max,
    };
    let all = ["abc", "b-1", "b-2", "b10", "b2x", "orders", "zzz"];
    assert_eq!(list(&fixture, ListQueues::default()).await, (all.map(String::from).into(), None));
    let (names, next) = list(&fixture, page("b", "", 3)).await;
    assert_eq!((names.join(" "), next.as_deref()), ("b-1 b-2 b10".into(), Some("b2x")));
    let (names, next) = list(&fixture, page("b", "b2x", 1)).await;
    assert_eq!((names.join(" "), next), ("b2x".into(), None));
    let (names, next) = list(&fixture, page("b", "b-15", 2)).await;
    assert_eq!((names.join(" "), next.as_deref()), ("b-2 b10".into(), Some("b2x")));
    assert_eq!(list(&fixture, page("nope", "", 5)).await, (Vec::new(), None));
    assert_eq!(list(&fixture, page("b", "zzz", 5)).await, (Vec::new(), None));
}

#[tokio::test]
async fn more_queues_than_a_step_of_a_scan_are_listed() {
    let fixture = Fixture::new().await;
    for number in 0..1500 {
        create(&fixture, &format!("many-{number:04}"), &[]).await.unwrap();
    }
    let many = ListQueues { prefix: "many".into(), ..ListQueues::default() };
    let (names, next) = list(&fixture, many).await;
    assert_eq!((names.len(), names[1499].as_str(), next), (1500, "many-1499", None));
}

/// and one small commit, however much the queue holds.
#[tokio::test]
async fn clear_and_delete_are_one_small_commit() {
    let fixture = Fixture::new().await;
    let Fixture { service, account, queue, engine, .. } = &fixture;
    let mut sizes = Vec::new();
    for messages in [0, 1, 2000] {
        for _ in 0..messages {
            fixture.put(&"x".repeat(600)).await;
        }
        let got = fixture.get(1, 30).await;
        engine.seen.reset();
        fixture.clear().await.unwrap();
        sizes.push((Seen::of(&engine.seen.commits), Seen::of(&engine.seen.writes_max)));
        assert_eq!((fixture.count().await, fixture.get_texts().await.len()), (0, 0));
        for gone in got {
            assert!(matches!(fixture.delete(&gone).await, Err(QueueError::MessageNotFound)));
        }
    }
    assert_eq!(sizes, [(1, 2), (1, 2), (1, 2)]);
    for _ in 0..2000 {
        fixture.put("x").await;
    }
    engine.seen.reset();
    service.delete_queue(account, queue).await.unwrap();
    assert_eq!((Seen::of(&engine.seen.commits), Seen::of(&engine.seen.writes_max)), (1, 3));
}

#[tokio::test]
async fn service_properties_are_of_the_account_and_the_service() {
    let fixture = Fixture::new().await;
    let Fixture { service, account, .. } = &fixture;
    let logging = Logging { read: true, ..Logging::default() };
    let cors = vec![CorsRule { max_age_seconds: 5, ..CorsRule::default() }];
    let patches = [
        ServicePropertiesPatch { logging: Some(logging.clone()), ..Default::default() },
        ServicePropertiesPatch { cors: Some(cors.clone()), ..Default::default() },
    ];
    for patch in patches {
        service.set_service_properties(account, patch).await.unwrap();
    }
    let properties = service.service_properties(account).await.unwrap();
    assert_eq!((properties.logging, properties.cors), (logging, cors));
    let other = AccountName::parse("other").unwrap();
    assert_eq!(service.service_properties(&other).await.unwrap(), Default::default());
}

#[tokio::test]
async fn a_creation_whose_answer_was_lost_is_recognised() {
    let fixture = Fixture::new().await;
    create(&fixture, "first", &[]).await.unwrap();
    fixture.engine.plan([Fault::LoseAnswer]);
    assert_eq!(create(&fixture, "tasks", &[]).await.unwrap(), Created::Created);
    fixture.engine.plan([Fault::Conflict]);
    assert_eq!(create(&fixture, "others", &[]).await.unwrap(), Created::Created);
}

#[tokio::test]
async fn a_queue_that_another_process_replaced_is_found_again() {
    let fixture = Fixture::on(memory(Writers::Many)).await;
    let elsewhere = fixture.elsewhere();
    let put = fixture.put("before").await;
    elsewhere.clear().await.unwrap();
    let Fixture { service, account, queue, .. } = &fixture;
    let gone = service.delete_message(account, queue, put.id, put.receipt).await;
    assert!(matches!(gone, Err(QueueError::MessageNotFound)));
    elsewhere.service.delete_queue(account, queue).await.unwrap();
    elsewhere.service.create_queue(account, queue, &metadata(&[("a", "1")])).await.unwrap();
    fixture.clock.advance_seconds(1);
    fixture.put("after").await;
    fixture.clock.advance_seconds(1);
    assert_eq!(elsewhere.get_texts().await, ["after"]);
    assert_eq!(fixture.count().await, 1);
    assert!(Timestamp::MIN < put.inserted);
}
