"""Stored access policies, shared access signatures, service properties and statistics."""

from datetime import datetime, timedelta, timezone

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.data.tables import (
    AccountSasPermissions,
    ResourceTypes,
    TableAccessPolicy,
    TableAnalyticsLogging,
    TableClient,
    TableCorsRule,
    TableMetrics,
    TableRetentionPolicy,
    TableSasPermissions,
    TableServiceClient,
    UpdateMode,
    generate_account_sas,
    generate_table_sas,
)
import harness
from harness import case, equal, refused, rows

SOON = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=1)
EARLIER = SOON - timedelta(hours=2)
NO_PERMISSION = "This request is not authorized to perform this operation using this permission."
NOT_AUTHORIZED = "This request is not authorized to perform this operation."


def key_of(raw):
    return AzureNamedKeyCredential(raw.account, raw.settings["AccountKey"])


def signed_table(raw, table, **signed):
    """A client of the same table that has nothing but a signature."""
    token = generate_table_sas(key_of(raw), table.table_name, **signed)
    return with_token(raw, table.table_name, token)


def with_token(raw, name, token):
    options = harness.client_options()
    return TableClient(raw.endpoint.geturl(), name, credential=AzureSasCredential(token), **options)


def signed_service(raw, types, permission, **signed):
    token = generate_account_sas(key_of(raw), types, permission, SOON, **signed)
    options = harness.client_options()
    return TableServiceClient(raw.endpoint.geturl(), credential=AzureSasCredential(token), **options)


def row(key, partition="p", **properties):
    return {"PartitionKey": partition, "RowKey": key, **properties}


@case
def access_policies_come_back_as_set(table):
    equal(table.get_table_access_policy(), {})
    policy = TableAccessPolicy(permission="raud", start=EARLIER, expiry=SOON)
    table.set_table_access_policy({"full": policy, "bare": None})
    read = table.get_table_access_policy()
    equal(list(read), ["full", "bare"])
    equal((read["full"].permission, read["full"].start, read["full"].expiry), ("raud", EARLIER, SOON))
    # T-9.18: exactly seven digits come back.
    text = SOON.strftime("%Y-%m-%dT%H:%M:%S.0000000Z")
    equal(read["full"].expiry.tables_service_value, text)
    table.set_table_access_policy({})
    equal(table.get_table_access_policy(), {})


@case
def six_access_policies_are_too_many(table):
    try:
        table.set_table_access_policy({f"id{number}": TableAccessPolicy() for number in range(6)})
    except ValueError as error:  # the SDK's own word for InvalidXmlDocument on more than five
        assert "Too many access policies" in str(error)
    else:
        raise AssertionError("accepted")


@case
def a_signature_opens_what_it_says(table, raw):
    table.create_entity(row("r", n=1))
    reader = signed_table(raw, table, permission=TableSasPermissions(read=True), expiry=SOON)
    equal(reader.get_entity("p", "r")["n"], 1)
    equal(rows(reader.list_entities()), ["r"])
    for attempt in [
        lambda: reader.create_entity(row("s")),
        lambda: reader.update_entity(row("r")),
        lambda: reader.upsert_entity(row("r")),
        lambda: reader.submit_transaction([("create", row("s"))]),
    ]:
        with refused(403, "AuthorizationPermissionMismatch"):
            attempt()
    adder = signed_table(raw, table, permission=TableSasPermissions(add=True), expiry=SOON)
    adder.create_entity(row("s"))
    with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
        adder.get_entity("p", "s")
    # An upsert may insert and may update: it needs both letters.
    with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
        adder.upsert_entity(row("s"))
    both = signed_table(raw, table, permission=TableSasPermissions(add=True, update=True), expiry=SOON)
    both.upsert_entity(row("s"), mode=UpdateMode.REPLACE)
    deleter = signed_table(raw, table, permission=TableSasPermissions(delete=True), expiry=SOON)
    deleter.delete_entity("p", "s")
    equal(rows(table.list_entities()), ["r"])


@case
def a_signature_is_bound_to_its_table_and_time(table, raw):
    everything = TableSasPermissions(read=True, add=True, update=True, delete=True)
    late = signed_table(raw, table, permission=everything, expiry=EARLIER)
    with refused(403, "AuthenticationFailed"):
        list(late.list_entities())
    early = signed_table(raw, table, permission=everything, start=SOON, expiry=SOON + timedelta(hours=1))
    with refused(403, "AuthenticationFailed"):
        list(early.list_entities())
    token = generate_table_sas(key_of(raw), table.table_name, permission=everything, expiry=SOON)
    other = with_token(raw, "Another", token)
    with refused(403, "AuthorizationFailure", NOT_AUTHORIZED):
        list(other.list_entities())
    wrong = with_token(raw, table.table_name, token.replace("sp=raud", "sp=r"))
    with refused(403, "AuthenticationFailed"):
        list(wrong.list_entities())


@case
def a_signature_is_bound_to_its_key_range(table, raw):
    for partition in ["a", "b", "c"]:
        for key in ["1", "2", "3"]:
            table.create_entity(row(key, partition))
    everything = TableSasPermissions(read=True, add=True, update=True, delete=True)
    some = signed_table(
        raw, table, permission=everything, expiry=SOON,
        start_pk="a", start_rk="3", end_pk="b", end_rk="2",
    )
    seen = [entity["PartitionKey"] + entity["RowKey"] for entity in some.list_entities()]
    equal(seen, ["a3", "b1", "b2"])
    equal(some.get_entity("b", "2")["RowKey"], "2")
    some.create_entity(row("15", "b"))
    for partition, key in [("a", "2"), ("b", "3"), ("c", "1")]:
        with refused(403, "AuthorizationFailure", NOT_AUTHORIZED):
            some.get_entity(partition, key)
        with refused(403, "AuthorizationFailure", NOT_AUTHORIZED):
            some.update_entity(row(key, partition))
    with refused(403, "AuthorizationFailure"):
        some.submit_transaction([("upsert", row("1", "b")), ("upsert", row("3", "b"))])


@case
def a_stored_policy_gives_and_takes_away(table, raw):
    table.create_entity(row("r"))
    policy = TableAccessPolicy(permission="r", expiry=SOON)
    table.set_table_access_policy({"reader": policy})
    reader = signed_table(raw, table, policy_id="reader")
    equal(rows(reader.list_entities()), ["r"])
    with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
        reader.create_entity(row("s"))
    table.set_table_access_policy({"reader": TableAccessPolicy(permission="ra", expiry=SOON)})
    reader.create_entity(row("s"))
    table.set_table_access_policy({})
    with refused(403, "AuthenticationFailed"):
        list(reader.list_entities())


@case
def an_account_signature_opens_what_it_says(table, raw):
    everything = AccountSasPermissions(
        read=True, write=True, delete=True, list=True, add=True, create=True, update=True
    )
    types = ResourceTypes(service=True, object=True, container=True)
    full = signed_service(raw, types, everything)
    assert table.table_name in [item.name for item in full.list_tables()]
    client = full.get_table_client(table.table_name)
    client.create_entity(row("r"))
    client.submit_transaction([("upsert", row("r", n=1)), ("create", row("s"))])
    equal(rows(client.list_entities()), ["r", "s"])
    full.get_service_properties()
    lister = signed_service(raw, ResourceTypes(container=True), AccountSasPermissions(list=True))
    assert table.table_name in [item.name for item in lister.list_tables()]
    with refused(403, "AuthorizationResourceTypeMismatch"):
        lister.get_table_client(table.table_name).get_entity("p", "r")
    reader = signed_service(raw, types, AccountSasPermissions(read=True))
    with refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION):
        reader.get_table_client(table.table_name).delete_entity("p", "r")


@case
def service_properties_are_kept_section_by_section(service):
    retention = TableRetentionPolicy(enabled=True, days=5)
    logging = TableAnalyticsLogging(read=True, write=True, delete=True, retention_policy=retention)
    metrics = TableMetrics(enabled=True, include_apis=True, retention_policy=retention)
    off = TableMetrics(enabled=False)
    rule = TableCorsRule(["www.xyz.com"], ["GET", "PUT"], max_age_in_seconds=500)
    silent = TableAnalyticsLogging()
    try:
        service.set_service_properties(
            analytics_logging=logging, hour_metrics=metrics, minute_metrics=off, cors=[rule]
        )
        service.set_service_properties(minute_metrics=metrics)
        read = service.get_service_properties()
        log = read["analytics_logging"]
        equal((log.version, log.read, log.write, log.delete), ("1.0", True, True, True))
        equal((log.retention_policy.enabled, log.retention_policy.days), (True, 5))
        for name in ["hour_metrics", "minute_metrics"]:
            equal((read[name].enabled, read[name].include_apis), (True, True), name)
        kept = read["cors"][0]
        equal((kept.allowed_origins, kept.allowed_methods, kept.max_age_in_seconds),
              (["www.xyz.com"], ["GET", "PUT"], 500))
    finally:
        service.set_service_properties(
            analytics_logging=silent, hour_metrics=off, minute_metrics=off, cors=[]
        )
    equal(service.get_service_properties()["cors"], [])


@case
def impossible_service_properties_are_refused(service):
    rules = [TableCorsRule(["www.xyz.com"], ["GET"]) for _ in range(6)]
    for attempt in [
        lambda: service.set_service_properties(cors=rules),
        lambda: service.set_service_properties(
            minute_metrics=TableMetrics(
                enabled=True,
                include_apis=True,
                retention_policy=TableRetentionPolicy(enabled=True, days=366),
            )
        ),
    ]:
        try:
            attempt()
        except Exception as error:
            equal((error.status_code, "InvalidXmlDocument" in str(error)), (400, True), str(error))
        else:
            raise AssertionError("accepted")


@case
def statistics_are_told_by_the_secondary(raw, connection):
    secondary = f"{raw.endpoint.netloc}{raw.endpoint.path.rstrip('/')}-secondary"
    service = TableServiceClient.from_connection_string(
        connection, secondary_hostname=secondary, **harness.client_options()
    )
    stats = service.get_service_stats()
    equal(stats["geo_replication"]["status"], "live")
    assert stats["geo_replication"]["last_sync_time"], stats
