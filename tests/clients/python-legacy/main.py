"""azure-cosmosdb-table 1.0.6, the SDK before azure-data-tables, through every operation.

It speaks an older dialect: the MERGE verb, `3.0;NetFx`, service version 2017-04-17, batches with
bare line feeds, relative paths and keys that are not percent-encoded.
"""

from datetime import datetime, timedelta, timezone

from harness import case, equal, fresh_name, main, refused  # first: it finds the common modules
from azure.cosmosdb.table.models import EdmType, EntityProperty
from azure.cosmosdb.table.tablebatch import TableBatch
from azure.cosmosdb.table.tableservice import TableService
import queues

KEYS = ["plain", "with space", "o'clock", "100%", "a+b", "a,b", "a:b@c=d&e$f~g", "ô", "日本語", "😀"]


def supplies(connection, stack):
    service = TableService(connection_string=connection)
    service.retry = lambda context: None

    def table():
        name = fresh_name()
        service.create_table(name, fail_on_exist=True)
        stack.callback(service.delete_table, name)
        return name

    return {"service": lambda: service, "table": table, **queues.supplies(connection, stack)}


def row(key="r", **properties):
    return {"PartitionKey": "p", "RowKey": key, **properties}


def plain(entity):
    return {name: value for name, value in entity.items() if name not in ("etag", "Timestamp")}


def contents(service, table, **query):
    return [plain(entity) for entity in service.query_entities(table, **query)]


@case
def tables_are_created_listed_and_deleted(service):
    stem = fresh_name("Legacy")
    names = [f"{stem}{number}" for number in range(5)]
    for name in names:
        equal(service.create_table(name), True)
        equal(service.create_table(name), False)
    with refused(409, "TableAlreadyExists"):
        service.create_table(names[0], fail_on_exist=True)
    equal([item.name for item in service.list_tables() if item.name.startswith(stem)], names)
    listed, marker = [], None
    while True:
        page = service.list_tables(num_results=2, marker=marker)
        listed += [item.name for item in page if item.name.startswith(stem)]
        marker = page.next_marker
        if not marker:
            break
    equal(listed, names)
    equal(service.exists(names[0]), True)
    for name in names:
        equal(service.delete_table(name), True)
    equal(service.exists(names[0]), False)
    equal(service.delete_table(names[0]), False)
    with refused(404, "ResourceNotFound"):
        service.delete_table(names[0], fail_not_exist=True)


@case
def an_entity_is_inserted_read_and_deleted(service, table):
    etag = service.insert_entity(table, row(name="x", ok=True, ratio=1.5))
    read = service.get_entity(table, "p", "r")
    equal(plain(read), row(name="x", ok=True, ratio=1.5))
    equal(read["etag"], etag)
    assert abs(read["Timestamp"] - datetime.now(timezone.utc)) < timedelta(minutes=5)
    with refused(409, "EntityAlreadyExists", "The specified entity already exists."):
        service.insert_entity(table, row())
    service.delete_entity(table, "p", "r")
    with refused(404, "ResourceNotFound", "The specified resource does not exist."):
        service.get_entity(table, "p", "r")


@case
def entities_are_replaced_merged_and_upserted(service, table):
    service.insert_entity(table, row(a="1", b="2"))
    service.merge_entity(table, row(b="3", c="4"))
    equal(plain(service.get_entity(table, "p", "r")), row(a="1", b="3", c="4"))
    service.update_entity(table, row(b="5"))
    equal(plain(service.get_entity(table, "p", "r")), row(b="5"))
    service.insert_or_merge_entity(table, row(a="6"))
    equal(plain(service.get_entity(table, "p", "r")), row(a="6", b="5"))
    service.insert_or_replace_entity(table, row(z="7"))
    equal(plain(service.get_entity(table, "p", "r")), row(z="7"))
    service.insert_or_merge_entity(table, row("new1", a="1"))
    service.insert_or_replace_entity(table, row("new2", a="1"))
    equal(len(contents(service, table)), 3)


@case
def etags_are_honoured(service, table):
    stale = service.insert_entity(table, row(a="1"))
    fresh = service.merge_entity(table, row(a="2"), if_match=stale)
    for attempt in [
        lambda: service.update_entity(table, row(a="3"), if_match=stale),
        lambda: service.merge_entity(table, row(a="3"), if_match=stale),
        lambda: service.delete_entity(table, "p", "r", if_match=stale),
    ]:
        with refused(412, "UpdateConditionNotSatisfied"):
            attempt()
    fresh = service.update_entity(table, row(a="4"), if_match=fresh)
    service.delete_entity(table, "p", "r", if_match=fresh)
    with refused(404, "ResourceNotFound"):
        service.update_entity(table, row(a="5"))


@case
def every_type_comes_back(service, table):
    time = datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
    service.insert_entity(
        table,
        row(
            s="text 😀",
            b=False,
            d=3.0,
            nan=float("nan"),
            inf=float("inf"),
            long=2**63 - 1,
            low=-(2**63),
            i=EntityProperty(EdmType.INT32, -(2**31)),
            t=time,
            x=EntityProperty(EdmType.BINARY, b"\x00\xff"),
            g=EntityProperty(EdmType.GUID, "c9da6455-213d-42c9-9a79-3e9149a57833"),
            n=None,
        ),
    )
    read = plain(service.get_entity(table, "p", "r"))
    equal([read[name] for name in ["s", "b", "d", "inf", "long", "low", "t"]],
          ["text 😀", False, 3.0, float("inf"), 2**63 - 1, -(2**63), time])
    assert isinstance(read["d"], float) and read["nan"] != read["nan"] and "n" not in read, read
    typed = [(read[name].type, read[name].value) for name in ["i", "x", "g"]]
    guid = "c9da6455-213d-42c9-9a79-3e9149a57833"
    equal(typed, [(EdmType.INT32, -(2**31)), (EdmType.BINARY, b"\x00\xff"), (EdmType.GUID, guid)])


@case
def metadata_levels_are_read(service, table):
    service.insert_entity(table, row(n=5))
    for accept, expected in [
        ("application/json;odata=nometadata", "5"),
        ("application/json;odata=minimalmetadata", 5),
        ("application/json;odata=fullmetadata", 5),
    ]:
        equal(plain(service.get_entity(table, "p", "r", accept=accept)), row(n=expected))


@case
def queries_filter_select_and_page(service, table):
    with service.batch(table) as batch:
        for number in range(100):
            batch.insert_entity(row(f"{number:03}", n=number, even=number % 2 == 0))
    found = contents(service, table, filter="n ge 10L and n lt 20L and even eq true")
    equal([entity["RowKey"] for entity in found], ["010", "012", "014", "016", "018"])
    found = contents(service, table, filter="RowKey eq '005'", select="n,nosuch")
    equal(found, [{"n": 5, "nosuch": None}])
    seen, marker = [], {}
    while True:
        page = service.query_entities(table, num_results=30, marker=marker)
        seen += [entity["RowKey"] for entity in page]
        marker = page.next_marker
        if not marker:
            break
    equal(seen, [f"{number:03}" for number in range(100)])
    with refused(400, "InvalidInput", "Syntax error at position 7 in 'aaa bbb ccc'."):
        list(service.query_entities(table, filter="aaa bbb ccc"))


@case
def every_kind_of_operation_in_one_batch(service, table):
    for key in ["merge", "replace", "delete", "upmerge"]:
        service.insert_entity(table, row(key, a="1"))
    batch = TableBatch()
    batch.insert_entity(row("create", a="1"))
    batch.merge_entity(row("merge", b="2"))
    batch.update_entity(row("replace", b="2"))
    batch.delete_entity("p", "delete")
    batch.insert_or_merge_entity(row("upmerge", b="2"))
    batch.insert_or_replace_entity(row("upreplace", b="2"))
    etags = service.commit_batch(table, batch)
    equal(len(etags), 6)
    equal(etags[1], service.get_entity(table, "p", "merge")["etag"])
    equal(etags[3], None)
    equal(
        contents(service, table),
        [
            row("create", a="1"),
            row("merge", a="1", b="2"),
            row("replace", b="2"),
            row("upmerge", a="1", b="2"),
            row("upreplace", b="2"),
        ],
    )


@case
def a_failed_batch_changes_nothing(service, table):
    stale = service.insert_entity(table, row("old", a="1"))
    service.merge_entity(table, row("old", a="2"))
    batch = TableBatch()
    batch.insert_entity(row("new"))
    batch.insert_entity(row("old"))
    with refused(409, "EntityAlreadyExists", "1:The specified entity already exists."):
        service.commit_batch(table, batch)
    batch = TableBatch()
    batch.insert_entity(row("new"))
    batch.update_entity(row("old"), if_match=stale)
    with refused(412, "UpdateConditionNotSatisfied", "1:"):
        service.commit_batch(table, batch)
    equal(contents(service, table), [row("old", a="2")])


@case
def keys_keep_every_character(service, table):
    for key in KEYS:
        service.insert_entity(table, {"PartitionKey": key, "RowKey": key, "v": key})
        read = service.get_entity(table, key, key)
        equal((read["PartitionKey"], read["RowKey"], read["v"]), (key, key, key))
        service.merge_entity(table, {"PartitionKey": key, "RowKey": key, "w": "1"})
        service.delete_entity(table, key, key)
    equal(contents(service, table), [])


@case
def keys_keep_every_character_in_batches(service, table):
    # The library writes keys into the request line as they are, spaces and percent signs too.
    for change in ["insert_or_replace_entity", "merge_entity"]:
        with service.batch(table) as batch:
            for key in KEYS:
                getattr(batch, change)(row(key, v=key))
    equal({entity["RowKey"]: entity["v"] for entity in contents(service, table)}, {key: key for key in KEYS})
    with service.batch(table) as batch:
        for key in KEYS:
            batch.delete_entity("p", key)
    equal(contents(service, table), [])


@case
def missing_tables_are_not_found(service):
    with refused(404, "TableNotFound"):
        service.insert_entity("Nosuchtable", row())
    with refused(404, "TableNotFound"):
        list(service.query_entities("Nosuchtable"))
    batch = TableBatch()
    batch.insert_entity(row())
    with refused(404, "TableNotFound", "0:The table specified does not exist."):
        service.commit_batch("Nosuchtable", batch)


if __name__ == "__main__":
    main(supplies)
