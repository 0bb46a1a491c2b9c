"""Entity group transactions: every kind of operation, atomicity, and the index of what failed."""

from azure.core import MatchConditions
from azure.data.tables import RequestTooLargeError, UpdateMode
from harness import case, equal, refused, rows
from raw import batch_error

PARTITION = "p'% +😀"
KEYS = ["o'clock", "100%", "a b", "a+b", "ô", "日本", "😀", ""]


def row(key, **properties):
    return {"PartitionKey": "p", "RowKey": key, **properties}


def contents(table):
    return [dict(entity) for entity in table.list_entities()]


@case
def every_kind_of_operation_in_one_transaction(table):
    for key in ["merge", "replace", "delete", "upmerge", "upreplace"]:
        table.create_entity(row(key, a=1))
    results = table.submit_transaction(
        [
            ("create", row("create", n="new")),
            ("update", row("merge", b=2), {"mode": UpdateMode.MERGE}),
            ("update", row("replace", b=2), {"mode": UpdateMode.REPLACE}),
            ("upsert", row("upmerge", b=2), {"mode": UpdateMode.MERGE}),
            ("upsert", row("upreplace", b=2), {"mode": UpdateMode.REPLACE}),
            ("upsert", row("upcreate1", b=2), {"mode": UpdateMode.MERGE}),
            ("upsert", row("upcreate2", b=2), {"mode": UpdateMode.REPLACE}),
            ("delete", row("delete")),
        ]
    )
    equal(
        contents(table),
        [
            row("create", n="new"),
            row("merge", a=1, b=2),
            row("replace", b=2),
            row("upcreate1", b=2),
            row("upcreate2", b=2),
            row("upmerge", a=1, b=2),
            row("upreplace", b=2),
        ],
    )
    order = ["create", "merge", "replace", "upmerge", "upreplace", "upcreate1", "upcreate2"]
    etags = [table.get_entity("p", key).metadata["etag"] for key in order]
    equal([result.get("etag") for result in results], [*etags, None])


@case
def a_transaction_of_one(table):
    equal(len(table.submit_transaction([("create", row("r"))])), 1)
    equal(rows(table.list_entities()), ["r"])


@case
def a_hundred_operations_are_the_most(table):
    results = table.submit_transaction([("create", row(f"{number:03}")) for number in range(100)])
    equal(len(results), 100)
    equal(len(list(table.list_entities())), 100)
    with refused(
        400,
        "InvalidInput",
        "99:The batch request operation exceeds the maximum 100 changes per change set.",
        index=99,
    ):
        table.submit_transaction([("create", row(f"x{number:03}")) for number in range(101)])
    equal(len(list(table.list_entities())), 100)


@case
def a_failed_insert_undoes_the_others_and_names_its_index(table):
    table.create_entity(row("2", a=1))
    with refused(409, "EntityAlreadyExists", "2:The specified entity already exists.", index=2):
        table.submit_transaction(
            [
                ("create", row("0")),
                ("create", row("1")),
                ("create", row("2")),
                ("create", row("3")),
            ]
        )
    equal(contents(table), [row("2", a=1)])


@case
def every_change_is_undone(table):
    for key in ["merge", "replace", "delete"]:
        table.create_entity(row(key, a=1))
    before = [(dict(entity), entity.metadata["etag"]) for entity in table.list_entities()]
    with refused(404, "ResourceNotFound", "4:The specified resource does not exist.", index=4):
        table.submit_transaction(
            [
                ("upsert", row("new", a=1)),
                ("update", row("merge", b=2), {"mode": UpdateMode.MERGE}),
                ("update", row("replace", b=2), {"mode": UpdateMode.REPLACE}),
                ("delete", row("delete")),
                ("update", row("missing", b=2)),
            ]
        )
    equal([(dict(entity), entity.metadata["etag"]) for entity in table.list_entities()], before)


@case
def a_stale_etag_fails_its_operation(table):
    stale = table.create_entity(row("a", n=1))["etag"]
    fresh = table.upsert_entity(row("a", n=2))["etag"]
    text = "1:The update condition specified in the request was not satisfied."
    when_stale = {"etag": stale, "match_condition": MatchConditions.IfNotModified}
    for operation in [
        ("update", row("a", n=3), {**when_stale, "mode": UpdateMode.MERGE}),
        ("update", row("a", n=3), {**when_stale, "mode": UpdateMode.REPLACE}),
        ("delete", row("a"), when_stale),
    ]:
        with refused(412, "UpdateConditionNotSatisfied", text, index=1):
            table.submit_transaction([("create", row("b")), operation])
    equal(contents(table), [row("a", n=2)])
    when_fresh = {"etag": fresh, "match_condition": MatchConditions.IfNotModified}
    table.submit_transaction([("create", row("b")), ("delete", row("a"), when_fresh)])
    equal(contents(table), [row("b")])


@case
def an_execution_error_of_a_lone_operation_has_no_index(table):
    # T-6.39
    with refused(404, "ResourceNotFound", "The specified resource does not exist.", index=0):
        table.submit_transaction([("update", row("missing"))])
    etag = table.create_entity(row("r"))["etag"]
    table.upsert_entity(row("r"))
    when = {"etag": etag, "match_condition": MatchConditions.IfNotModified}
    text = "The update condition specified in the request was not satisfied."
    with refused(412, "UpdateConditionNotSatisfied", text, index=0):
        table.submit_transaction([("update", row("r"), when)])


@case
def the_same_row_twice_is_refused(table):
    text = (
        "2:The batch request contains multiple changes with same row key. "
        "An entity can appear only once in a batch request."
    )
    with refused(400, "InvalidDuplicateRow", text, index=2):
        table.submit_transaction([("upsert", row("a")), ("upsert", row("b")), ("upsert", row("a"))])
    equal(contents(table), [])


@case
def two_partitions_are_refused(table, raw):
    path = f"/{table.table_name}"
    answer = raw.batch(
        ("POST", path, {"PartitionKey": "p", "RowKey": "1"}, {}),
        ("POST", path, {"PartitionKey": "q", "RowKey": "2"}, {}),
    )
    equal(answer.status, 202)
    text = "1:All commands in a batch must operate on same entity group."
    equal(batch_error(answer), (400, "CommandsInBatchActOnDifferentPartitions", text))
    equal(contents(table), [])


@case
def a_missing_table_fails_the_first_operation(service):
    table = service.get_table_client("Nosuchtable")
    with refused(404, "TableNotFound", "0:The table specified does not exist.", index=0):
        table.submit_transaction([("create", row("a")), ("create", row("b"))])


@case
def an_invalid_operation_fails_with_its_index(table):
    with refused(400, "PropertyValueTooLarge", index=1):
        table.submit_transaction([("create", row("a")), ("create", row("b", s="x" * 40_000))])
    equal(contents(table), [])


@case
def a_body_of_more_than_4_mib_is_refused(table):
    big = "x" * 30_000
    operations = [
        ("create", row(f"{number:03}", **{f"p{part}": big for part in range(15)}))
        for number in range(10)
    ]
    try:
        table.submit_transaction(operations)
    except RequestTooLargeError as error:
        equal(error.status_code, 413)
        equal(getattr(error.error_code, "value", error.error_code), "RequestBodyTooLarge")
    else:
        raise AssertionError("accepted more than 4 MiB")
    equal(contents(table), [])
    table.submit_transaction(operations[:8])
    equal(len(list(table.list_entities(select="RowKey"))), 8)


@case
def keys_keep_every_character(table):
    table.submit_transaction([("create", {"PartitionKey": PARTITION, "RowKey": key}) for key in KEYS])
    table.submit_transaction(
        [("update", {"PartitionKey": PARTITION, "RowKey": key, "v": key}) for key in KEYS]
    )
    found = {entity["RowKey"]: entity["v"] for entity in table.list_entities()}
    equal(found, {key: key for key in KEYS})
    table.submit_transaction([("delete", {"PartitionKey": PARTITION, "RowKey": key}) for key in KEYS])
    equal(contents(table), [])
