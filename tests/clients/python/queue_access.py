"""Keys, stored access policies, shared access signatures, service properties and statistics of queues."""

from datetime import datetime, timedelta, timezone

from azure.core.exceptions import ClientAuthenticationError
from azure.storage.queue import (
    AccessPolicy,
    AccountSasPermissions,
    CorsRule,
    Metrics,
    QueueAnalyticsLogging,
    QueueSasPermissions,
    ResourceTypes,
    RetentionPolicy,
    generate_account_sas,
    generate_queue_sas,
)
from queue_harness import case, count, equal, fresh_queue_name, refused, texts

SOON = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)
EARLIER = SOON - timedelta(hours=2)
NO_PERMISSION = "This request is not authorized to perform this operation using this permission."
NOT_AUTHORIZED = "This request is not authorized to perform this operation."
NOT_AUTHENTICATED = (
    "Server failed to authenticate the request. Make sure the value of Authorization header is formed"
    " correctly including the signature."
)


def written(time):
    """A time as the service returns it: exactly seven fraction digits (Q-10.1)."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.0000000Z")


def signed_queue(account, queue, **signed):
    """A client of the same queue that has nothing but a signature."""
    token = generate_queue_sas(account.name, queue.queue_name, account.key, **signed)
    return account.queue(queue.queue_name, token)


def signed_service(account, types, permission):
    return account.service(generate_account_sas(account.name, account.key, types, permission, SOON))


@case
def a_wrong_key_is_refused(account, queue):
    wrong = account.key_credential("d3Jvbmcga2V5")
    client = account.queue(queue.queue_name, wrong)
    for attempt in [lambda: client.send_message("x"), client.get_queue_properties, client.peek_messages]:
        with refused(403, "AuthenticationFailed", NOT_AUTHENTICATED):
            attempt()
    try:
        list(account.service(wrong).list_queues())
    except ClientAuthenticationError:
        return
    raise AssertionError("not the SDK's own exception")


@case
def access_policies_come_back_as_set(queue):
    equal(queue.get_queue_access_policy(), {})
    full = AccessPolicy(permission=QueueSasPermissions(True, True, True, True), start=EARLIER, expiry=SOON)
    queue.set_queue_access_policy({"full": full, "empty": None})
    read = queue.get_queue_access_policy()
    equal(list(read), ["full", "empty"])
    kept = read["full"]
    equal((kept.permission, kept.start, kept.expiry), ("raup", written(EARLIER), written(SOON)))
    # an identifier without a policy is kept without one.
    bare = read["empty"]
    equal(bare and (bare.permission, bare.start, bare.expiry), bare and (None, None, None))
    with refused(
        400, "InvalidXmlDocument", "XML specified is not syntactically valid.",
        Reason="Signed identifier ID cannot be empty or over 64 characters in length",
    ):
        queue.set_queue_access_policy({"x" * 65: full})
    equal(list(queue.get_queue_access_policy()), ["full", "empty"])
    queue.set_queue_access_policy({})
    equal(queue.get_queue_access_policy(), {})


@case
def each_letter_of_a_signature_opens_its_operations(account, queue):
    put = queue.send_message("1")
    held = queue.receive_message(visibility_timeout=600)
    queue.send_message("2")

    def update(client):
        nonlocal held
        held = client.update_message(held, visibility_timeout=600)

    operations = {
        "r": [lambda client: equal(texts(client.peek_messages()), ["2"]), lambda client: count(client)],
        "a": [lambda client: client.send_message("3", visibility_timeout=600)],
        "u": [update],
        # Last, since it takes the message away.
        "p": [lambda client: equal(client.receive_message().content, "2")],
    }
    for letter in operations:
        permission = QueueSasPermissions.from_string(letter)
        client = signed_queue(account, queue, permission=permission, expiry=SOON)
        for needed, attempts in operations.items():
            for attempt in attempts:
                if needed == letter:
                    attempt(client)
                else:
                    with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
                        attempt(client)
    equal(held.id, put.id)
    everything = QueueSasPermissions(read=True, add=True, update=True, process=True)
    client = signed_queue(account, queue, permission=everything, expiry=SOON)
    for attempt in [
        client.delete_queue,
        client.clear_messages,
        client.get_queue_access_policy,
        lambda: client.set_queue_metadata({"a": "1"}),
    ]:
        with refused(403, "AuthorizationFailure", NOT_AUTHORIZED):
            attempt()


@case
def a_signature_is_bound_to_its_queue_and_time(account, queue):
    reading = QueueSasPermissions(read=True)
    for start, expiry in [(None, EARLIER), (SOON, SOON + timedelta(hours=1))]:
        client = signed_queue(account, queue, permission=reading, start=start, expiry=expiry)
        with refused(403, "AuthenticationFailed", NOT_AUTHENTICATED):
            client.peek_messages()
    token = generate_queue_sas(account.name, queue.queue_name, account.key, permission=reading, expiry=SOON)
    with refused(403, "AuthenticationFailed", NOT_AUTHENTICATED):
        account.queue(fresh_queue_name(), token).peek_messages()
    with refused(403, "AuthenticationFailed", NOT_AUTHENTICATED):
        account.queue(queue.queue_name, token.replace("sp=r", "sp=rp")).receive_message()
    far = signed_queue(account, queue, permission=reading, expiry=SOON, ip="192.0.2.1-192.0.2.9")
    with refused(403, "AuthorizationSourceIPMismatch"):  # TQ-59
        far.peek_messages()


@case
def a_stored_policy_gives_and_takes_away(account, queue):
    queue.set_queue_access_policy({"worker": AccessPolicy(permission="r", expiry=SOON)})
    client = signed_queue(account, queue, policy_id="worker")
    equal(client.peek_messages(), [])
    with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
        client.send_message("x")
    # What the policy leaves out the token says, and the other way around (TQ-60).
    queue.set_queue_access_policy({"worker": AccessPolicy(permission="ap")})
    with refused(403, "AuthenticationFailed"):
        client.peek_messages()
    other = signed_queue(account, queue, policy_id="worker", expiry=SOON)
    other.send_message("x")
    equal(other.receive_message().content, "x")
    queue.set_queue_access_policy({})
    with refused(403, "AuthenticationFailed", NOT_AUTHENTICATED):
        other.receive_message()


@case
def an_account_signature_opens_what_it_says(account, queue):
    everything = AccountSasPermissions(
        read=True, write=True, delete=True, list=True, add=True, create=True, update=True, process=True
    )
    full = signed_service(account, ResourceTypes(service=True, container=True, object=True), everything)
    name = fresh_queue_name()
    client = full.create_queue(name)
    equal([item.name for item in full.list_queues(name_starts_with=name)], [name])
    client.set_queue_metadata({"a": "1"})
    equal(client.get_queue_properties().metadata, {"a": "1"})
    client.send_message("x")
    message = client.receive_message()
    client.delete_message(client.update_message(message, visibility_timeout=5))
    client.clear_messages()
    with refused(403, "AuthorizationFailure", NOT_AUTHORIZED):
        client.get_queue_access_policy()
    full.get_service_properties()
    full.delete_queue(name)

    lister = signed_service(account, ResourceTypes(service=True), AccountSasPermissions(list=True))
    assert queue.queue_name in [item.name for item in lister.list_queues()]
    with refused(403, "AuthorizationResourceTypeMismatch"):
        lister.get_queue_client(queue.queue_name).peek_messages()
    reader = signed_service(account, ResourceTypes(object=True), AccountSasPermissions(read=True))
    equal(reader.get_queue_client(queue.queue_name).peek_messages(), [])
    for attempt in [lambda client: client.send_message("x"), lambda client: client.clear_messages()]:
        with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
            attempt(reader.get_queue_client(queue.queue_name))


@case
def service_properties_are_kept_section_by_section(queues):
    retention = RetentionPolicy(enabled=True, days=5)
    logging = QueueAnalyticsLogging(read=True, write=True, delete=True, retention_policy=retention)
    metrics = Metrics(enabled=True, include_apis=True, retention_policy=retention)
    rule = CorsRule(
        ["http://a.example", "http://b.example"], ["GET", "PUT"], max_age_in_seconds=500,
        allowed_headers=["x-ms-meta-*", "x-ms-meta-one"], exposed_headers=["*"],
    )
    off = Metrics(enabled=False)
    try:
        queues.set_service_properties(
            analytics_logging=logging, hour_metrics=metrics, minute_metrics=off, cors=[rule, rule]
        )
        queues.set_service_properties(minute_metrics=metrics)
        read = queues.get_service_properties()
        log = read["analytics_logging"]
        equal((log.version, log.read, log.write, log.delete), ("1.0", True, True, True))
        equal((log.retention_policy.enabled, log.retention_policy.days), (True, 5))
        for name in ["hour_metrics", "minute_metrics"]:
            equal((read[name].enabled, read[name].include_apis), (True, True), name)
        kept, same = read["cors"]
        equal(kept.allowed_headers, "x-ms-meta-one,x-ms-meta-*")  # Q-9.1a
        equal(
            (kept.allowed_origins, kept.allowed_methods, kept.exposed_headers, kept.max_age_in_seconds),
            ("http://a.example,http://b.example", "GET,PUT", "*", 500),
        )
        equal(same.allowed_origins, kept.allowed_origins)
    finally:
        queues.set_service_properties(
            analytics_logging=QueueAnalyticsLogging(), hour_metrics=off, minute_metrics=off, cors=[]
        )
    equal(queues.get_service_properties()["cors"], [])


@case
def impossible_service_properties_are_refused(queues):
    rules = [CorsRule(["http://a.example"], ["GET"]) for _ in range(6)]
    long = Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=366))
    days = "Retention days must be greater than 0 and less than or equal to 365 days."
    with refused(400, "InvalidXmlDocument", LineNumber="0", LinePosition="0", Reason=None):
        queues.set_service_properties(cors=rules)
    with refused(400, "InvalidXmlDocument", Reason=days):
        queues.set_service_properties(minute_metrics=long)
    equal(queues.get_service_properties()["cors"], [])


@case
def the_secondary_is_read_only_and_has_the_statistics(account, queue):
    queue.send_message("x")
    secondary = account.secondary.split("://")[1]
    stats = account.service(secondary_hostname=secondary).get_service_stats()
    equal(stats["geo_replication"]["status"], "live")
    assert stats["geo_replication"]["last_sync_time"], stats
    reader = account.queue(queue.queue_name, secondary_hostname=secondary)
    reader.location_mode = "secondary"
    equal((texts(reader.peek_messages()), count(reader)), (["x"], 1))
    for attempt in [lambda: reader.send_message("y"), reader.receive_message, reader.clear_messages]:
        with refused(403, "InsufficientAccountPermissions"):
            attempt()
    equal(texts(queue.peek_messages()), ["x"])
