"""azure-storage-queue 2.1.0, the SDK before the one of today, through every operation.

It escapes the text of a message itself before it builds the XML, and undoes that when it reads, so the
service holds what it sent; it asks for service version 2019-02-02.
"""

from datetime import datetime, timedelta, timezone

from azure.storage.common.models import (
    AccessPolicy,
    AccountPermissions,
    CorsRule,
    Logging,
    Metrics,
    ResourceTypes,
    RetentionPolicy,
)
from azure.storage.queue import QueueMessageFormat, QueueService
from azure.storage.queue.models import QueuePermissions
from harness import case, equal, fresh_name, refused, settings_of

SOON = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)


def connect(connection=None, **options):
    service = QueueService(connection_string=connection, **options)
    service.retry = lambda context: None
    return service


def supplies(connection, stack):
    settings = settings_of(connection)
    secondary = f"QueueSecondaryEndpoint={settings['QueueEndpoint'].rstrip('/')}-secondary;"
    queues = connect(connection + secondary)

    def queue():
        name = fresh_name("q")
        queues.create_queue(name, fail_on_exist=True)
        stack.callback(queues.delete_queue, name)
        return name

    def stranger():
        """Makes clients that have a token in place of the key."""
        endpoint = settings["QueueEndpoint"].rstrip("/")
        return lambda token: connect(f"QueueEndpoint={endpoint};SharedAccessSignature={token}")

    def wrong_key():
        return connect(connection.replace(settings["AccountKey"], "d3Jvbmcga2V5"))

    return {"queues": lambda: queues, "queue": queue, "stranger": stranger, "wrong_key": wrong_key}


def texts(messages):
    return [message.content for message in messages]


@case
def queues_are_created_listed_and_deleted(queues):
    stem = fresh_name("legacy")
    names = [f"{stem}-{number}" for number in range(5)]
    for name in names:
        equal(queues.create_queue(name, metadata={"n": name[-1]}), True)
        equal(queues.create_queue(name, metadata={"n": name[-1]}), False)
    equal(queues.create_queue(names[0]), False)
    with refused(409, "QueueAlreadyExists", "The specified queue already exists."):
        queues.create_queue(names[0], fail_on_exist=True)
    pages, marker = [], None
    while True:
        page = queues.list_queues(prefix=stem, num_results=2, include_metadata=True, marker=marker)
        pages.append([(item.name, item.metadata) for item in page])
        marker = page.next_marker
        if not marker:
            break
    listed = [(name, {"n": name[-1]}) for name in names]
    equal(pages, [listed[:2], listed[2:4], listed[4:]])
    equal(queues.exists(names[0]), True)
    for name in names:
        equal(queues.delete_queue(name), True)
    equal((queues.exists(names[0]), queues.delete_queue(names[0])), (False, False))
    with refused(404, "QueueNotFound", "The specified queue does not exist."):
        queues.delete_queue(names[0], fail_not_exist=True)
    with refused(400, "InvalidResourceName", "The specifed resource name contains invalid characters."):
        queues.create_queue("Upper", fail_on_exist=True)


@case
def metadata_and_the_count_are_read(queues, queue):
    queues.set_queue_metadata(queue, {"color": "blue"})
    queues.put_message(queue, "x")
    metadata = queues.get_queue_metadata(queue)
    equal((dict(metadata), metadata.approximate_message_count), ({"color": "blue"}, 1))
    queues.set_queue_metadata(queue)
    equal(dict(queues.get_queue_metadata(queue)), {})


@case
def a_message_is_put_got_updated_and_deleted(queues, queue):
    put = queues.put_message(queue, "first", time_to_live=-1)
    equal(str(put.expiration_time), "9999-12-31 23:59:59+00:00")
    (peeked,) = queues.peek_messages(queue)
    equal((peeked.id, peeked.content, peeked.dequeue_count, peeked.pop_receipt), (put.id, "first", 0, None))
    (got,) = queues.get_messages(queue, visibility_timeout=60)
    equal((got.id, got.content, got.dequeue_count), (put.id, "first", 1))
    equal((queues.get_messages(queue), queues.peek_messages(queue)), ([], []))
    updated = queues.update_message(queue, got.id, got.pop_receipt, 0, content="second")
    equal(texts(queues.peek_messages(queue)), ["second"])
    # the receipt before the update is stale.
    for receipt in [put.pop_receipt, got.pop_receipt]:
        with refused(404, "MessageNotFound", "The specified message does not exist."):
            queues.delete_message(queue, got.id, receipt)
    with refused(400, "InvalidQueryParameterValue", "Invalid pop receipt format"):
        queues.delete_message(queue, got.id, "invalid")
    queues.update_message(queue, got.id, updated.pop_receipt, 0)
    (again,) = queues.get_messages(queue)
    equal((again.content, again.dequeue_count), ("second", 2))
    queues.delete_message(queue, again.id, again.pop_receipt)
    with refused(404, "MessageNotFound"):
        queues.delete_message(queue, again.id, again.pop_receipt)


@case
def messages_are_delayed_counted_and_cleared(queues, queue):
    queues.put_message(queue, "late", visibility_timeout=3600)
    for number in range(40):
        queues.put_message(queue, str(number))
    equal(texts(queues.get_messages(queue, num_messages=32)), [str(number) for number in range(32)])
    equal(texts(queues.get_messages(queue, num_messages=32)), [str(number) for number in range(32, 40)])
    equal(queues.get_queue_metadata(queue).approximate_message_count, 41)
    with refused(400, "OutOfRangeQueryParameterValue", "<MaximumAllowed>32</MaximumAllowed>"):
        queues.get_messages(queue, num_messages=33)
    with refused(400, "InvalidQueryParameterValue", "messagettl must be greater than visibilitytimeout"):
        queues.put_message(queue, "x", visibility_timeout=30, time_to_live=30)
    queues.clear_messages(queue)
    equal(queues.get_queue_metadata(queue).approximate_message_count, 0)


@case
def every_format_comes_back(queues, queue):
    formats = QueueMessageFormat
    text = "<tag>&amp; 'ô' \"日本語\" 😀</tag> "
    for encode, decode, content in [
        (formats.text_xmlencode, formats.text_xmldecode, text),
        (formats.text_base64encode, formats.text_base64decode, text),
        (formats.binary_base64encode, formats.binary_base64decode, bytes(range(256))),
        (formats.noencode, formats.nodecode, text),
    ]:
        queues.encode_function, queues.decode_function = encode, decode
        queues.put_message(queue, content)
        equal(texts(queues.get_messages(queue)), [content])
    queues.put_message(queue, "a" * 65536)
    with refused(413, "RequestBodyTooLarge", "<MaxLimit>65536</MaxLimit>"):
        queues.put_message(queue, "a" * 65537)
    with refused(400, "InvalidXmlDocument", "<Reason>Error parsing Xml content</Reason>"):
        queues.put_message(queue, "\x01")


@case
def policies_and_tokens_open_what_they_say(queues, queue, stranger):
    queues.put_message(queue, "x")
    policy = AccessPolicy(permission=QueuePermissions.READ, expiry=SOON)
    queues.set_queue_acl(queue, {"reader": policy, "empty": AccessPolicy()})
    kept = queues.get_queue_acl(queue)
    equal(list(kept), ["reader", "empty"])
    equal((kept["reader"].permission, kept["reader"].expiry), ("r", SOON))
    reader = stranger(queues.generate_queue_shared_access_signature(queue, id="reader"))
    equal(texts(reader.peek_messages(queue)), ["x"])
    with refused(403, "AuthorizationPermissionMismatch"):
        reader.get_messages(queue)
    queues.set_queue_acl(queue)
    equal(queues.get_queue_acl(queue), {})
    with refused(403, "AuthenticationFailed"):
        reader.peek_messages(queue)
    worker = stranger(queues.generate_queue_shared_access_signature(
        queue, QueuePermissions.PROCESS | QueuePermissions.ADD, expiry=SOON
    ))
    worker.put_message(queue, "y")
    equal(texts(worker.get_messages(queue, num_messages=2)), ["x", "y"])
    with refused(403, "AuthorizationFailure"):
        worker.clear_messages(queue)
    account = stranger(queues.generate_account_shared_access_signature(
        ResourceTypes.SERVICE | ResourceTypes.OBJECT, AccountPermissions.LIST | AccountPermissions.DELETE, SOON
    ))
    equal([item.name for item in account.list_queues(prefix=queue)], [queue])
    account.clear_messages(queue)
    with refused(403, "AuthorizationResourceTypeMismatch"):
        account.delete_queue(queue, fail_not_exist=True)


@case
def a_wrong_key_is_refused(wrong_key, queue):
    with refused(403, "AuthenticationFailed", "Server failed to authenticate the request."):
        wrong_key.put_message(queue, "x")


@case
def service_properties_and_statistics(queues):
    retention = RetentionPolicy(enabled=True, days=7)
    rule = CorsRule(["http://a.example"], ["GET", "PUT"], 500, ["x-ms-meta-b"], ["x-ms-meta-a*", "x-ms-meta-b"])
    try:
        queues.set_queue_service_properties(
            logging=Logging(read=True, write=True, delete=True, retention_policy=retention),
            hour_metrics=Metrics(enabled=True, include_apis=True, retention_policy=retention), cors=[rule],
        )
        queues.set_queue_service_properties(minute_metrics=Metrics(enabled=False))
        read = queues.get_queue_service_properties()
        equal((read.logging.read, read.logging.retention_policy.days), (True, 7))
        equal((read.hour_metrics.enabled, read.hour_metrics.include_apis), (True, True))
        equal((read.minute_metrics.enabled, len(read.cors)), (False, 1))
        # Q-9.1a: names before prefixes.
        equal(read.cors[0].allowed_headers, ["x-ms-meta-b", "x-ms-meta-a*"])
    finally:
        queues.set_queue_service_properties(logging=Logging(), hour_metrics=Metrics(enabled=False), cors=[])
    with refused(400, "InvalidXmlDocument"):
        queues.set_queue_service_properties(cors=[rule] * 6)
    stats = queues.get_queue_service_stats()
    equal(stats.geo_replication.status, "live")
    assert stats.geo_replication.last_sync_time, stats
