"""Insert, read, replace, merge, upsert and delete single entities."""

from datetime import datetime, timedelta, timezone

from azure.data.tables import UpdateMode
from harness import case, equal, refused, ticks

# Every character that a key may hold and that some layer might mistake for its own (T-3.16).
KEYS = [
    "plain",
    "",
    " ",
    "with space",
    "o'clock",
    "''",
    '"quoted"',
    "100%",
    "%20",
    "%27",
    "a+b",
    "a,b",
    "a:b@c=d&e$f~g",
    "(round) [square] {curly} <angle>",
    "semi;colon|pipe^caret`tick!bang*star",
    "ô-ñ-ß",
    "日本語",
    "emoji-😀-👩‍👩‍👧",
    "\ufffd\uff5e",
    "PartitionKey='x',RowKey='y'",
    "k" * 512,
]


@case
def what_is_inserted_is_read_back(table):
    entity = {"PartitionKey": "p", "RowKey": "r", "name": "x", "age": 39, "ok": True}
    written = table.create_entity(entity)
    read = table.get_entity("p", "r")
    equal(dict(read), entity)
    equal(read.metadata["etag"], written["etag"])


@case
def the_etag_is_the_timestamp(table):
    before = datetime.now(timezone.utc)
    written = table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    time = table.get_entity("p", "r").metadata["timestamp"]
    text = time.tables_service_value.replace(":", "%3A")
    equal(written["etag"], f"W/\"datetime'{text}'\"")
    assert abs(time - before) < timedelta(minutes=5), f"{time} is not now, {before}"


@case
def insert_of_existing_entity_is_conflict(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
    with refused(409, "EntityAlreadyExists", "The specified entity already exists."):
        table.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 2})
    equal(table.get_entity("p", "r")["n"], 1)


@case
def read_of_missing_entity_is_not_found(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    for keys in [("p", "R"), ("P", "r"), ("", ""), ("p", "rr")]:
        with refused(404, "ResourceNotFound", "The specified resource does not exist."):
            table.get_entity(*keys)


@case
def operations_on_a_missing_table_are_not_found(service):
    table = service.get_table_client("Nosuchtable")
    entity = {"PartitionKey": "p", "RowKey": "r"}
    for attempt in [
        lambda: table.create_entity(entity),
        lambda: table.get_entity("p", "r"),
        lambda: list(table.list_entities()),
        lambda: table.update_entity(entity, mode=UpdateMode.MERGE),
        lambda: table.update_entity(entity, mode=UpdateMode.REPLACE),
        lambda: table.upsert_entity(entity, mode=UpdateMode.MERGE),
        lambda: table.upsert_entity(entity, mode=UpdateMode.REPLACE),
    ]:
        with refused(404, "TableNotFound", "The table specified does not exist."):
            attempt()


@case
def a_read_can_select_properties(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1, "b": "two", "c": 3.5})
    equal(dict(table.get_entity("p", "r", select=["a", "c"])), {"a": 1, "c": 3.5})
    equal(dict(table.get_entity("p", "r", select="b")), {"b": "two"})
    # T-4.44: a selected property that the entity lacks comes back as null.
    equal(dict(table.get_entity("p", "r", select=["a", "z"])), {"a": 1, "z": None})
    some = table.get_entity("p", "r", select=["a"])
    equal(some.metadata["etag"], table.get_entity("p", "r").metadata["etag"])


@case
def replace_drops_what_the_body_leaves_out(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1, "b": 2})
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "b": 3}, mode=UpdateMode.REPLACE)
    equal(dict(table.get_entity("p", "r")), {"PartitionKey": "p", "RowKey": "r", "b": 3})


@case
def merge_keeps_what_the_body_leaves_out(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 1, "b": 2})
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "b": 3, "c": 4}, mode=UpdateMode.MERGE)
    expected = {"PartitionKey": "p", "RowKey": "r", "a": 1, "b": 3, "c": 4}
    equal(dict(table.get_entity("p", "r")), expected)


@case
def merge_may_change_the_type_of_a_property(table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "a": 39})
    table.update_entity({"PartitionKey": "p", "RowKey": "r", "a": "abc"}, mode=UpdateMode.MERGE)
    equal(table.get_entity("p", "r")["a"], "abc")


@case
def upsert_creates_and_then_merges_or_replaces(table):
    for mode, expected in [
        (UpdateMode.MERGE, {"a": 1, "b": 2}),
        (UpdateMode.REPLACE, {"b": 2}),
    ]:
        keys = {"PartitionKey": "p", "RowKey": str(mode)}
        first = table.upsert_entity({**keys, "a": 1}, mode=mode)
        equal(dict(table.get_entity("p", str(mode))), {**keys, "a": 1})
        second = table.upsert_entity({**keys, "b": 2}, mode=mode)
        read = table.get_entity("p", str(mode))
        equal(dict(read), {**keys, **expected})
        equal(read.metadata["etag"], second["etag"])
        assert first["etag"] != second["etag"]


@case
def a_deleted_entity_is_gone_and_can_come_back(table):
    first = table.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
    table.delete_entity("p", "r")
    with refused(404, "ResourceNotFound"):
        table.get_entity("p", "r")
    second = table.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 2})
    assert ticks(second["etag"]) > ticks(first["etag"]), (first, second)


@case
def every_write_changes_the_etag_and_time_goes_forward(table):
    keys = {"PartitionKey": "p", "RowKey": "r"}
    table.create_entity(keys)
    etags = [table.get_entity("p", "r").metadata["etag"]]
    for number in range(20):
        mode = UpdateMode.MERGE if number % 2 else UpdateMode.REPLACE
        written = table.upsert_entity({**keys, "n": number % 4}, mode=mode)
        equal(table.get_entity("p", "r").metadata["etag"], written["etag"])
        etags.append(written["etag"])
    times = [ticks(etag) for etag in etags]
    equal(times, sorted(set(times)))


@case
def null_properties_are_not_stored_and_merge_leaves_them(table, raw):
    path = f"/{table.table_name}(PartitionKey='p',RowKey='r')"
    body = {"PartitionKey": "p", "RowKey": "r", "a": 1, "n": None}
    equal(raw.request("POST", f"/{table.table_name}", body).status, 201)
    equal(dict(table.get_entity("p", "r")), {"PartitionKey": "p", "RowKey": "r", "a": 1})
    equal(raw.request("PATCH", path, {"a": None, "b": 2}).status, 204)
    expected = {"PartitionKey": "p", "RowKey": "r", "a": 1, "b": 2}
    equal(dict(table.get_entity("p", "r")), expected)


@case
def a_timestamp_sent_by_the_client_is_ignored(table):
    sent = datetime(2001, 2, 3, tzinfo=timezone.utc)
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "Timestamp": sent})
    assert table.get_entity("p", "r").metadata["timestamp"].year > 2001


@case
def keys_keep_every_character_through_every_operation(table):
    for number, key in enumerate(KEYS):
        keys = {"PartitionKey": key, "RowKey": key}
        table.create_entity({**keys, "n": number})
        equal(dict(table.get_entity(key, key)), {**keys, "n": number}, key)
        table.update_entity({**keys, "m": 1}, mode=UpdateMode.MERGE)
        table.upsert_entity({**keys, "k": "😀"}, mode=UpdateMode.MERGE)
        expected = {**keys, "n": number, "m": 1, "k": "😀"}
        filtered = table.query_entities(
            "PartitionKey eq @pk and RowKey eq @rk", parameters={"pk": key, "rk": key}
        )
        equal([dict(entity) for entity in filtered], [expected], key)
    # Keys sort by UTF-16 code unit (T-3.19): emoji are surrogates, below U+FFFD.
    order = sorted(KEYS, key=lambda key: key.encode("utf-16-be"))
    equal([entity["PartitionKey"] for entity in table.list_entities()], order)
    for key in KEYS:
        table.delete_entity(key, key)
    equal(list(table.list_entities()), [])


@case
def property_names_are_case_sensitive_and_may_be_unicode(table):
    entity = {"PartitionKey": "p", "RowKey": "r", "Birthday": 1, "birthday": 2}
    entity.update({"_under": 3, "größe": 4, "名前": "x", "ꀕ": 5, "etag": "mine", "n" * 255: 6})
    table.create_entity(entity)
    equal(dict(table.get_entity("p", "r")), entity)


@case
def insert_answers_with_content_or_without(table, raw):
    path = f"/{table.table_name}"
    full = raw.request("POST", path, {"PartitionKey": "p", "RowKey": "1", "a": 1})
    equal((full.status, full.headers["Preference-Applied"]), (201, None))
    equal(full.json()["a"], 1)
    equal(full.json()["odata.etag"], full.headers["ETag"])
    body = {"PartitionKey": "p", "RowKey": "o'2"}
    bare = raw.request("POST", path, body, Prefer="return-no-content")
    equal((bare.status, bare.body), (204, b""))
    equal(bare.headers["Preference-Applied"], "return-no-content")
    where = f"{raw.endpoint.geturl()}{path}(PartitionKey='p',RowKey='o''2')"
    equal((bare.headers["Location"], bare.headers["DataServiceId"]), (where, where))


@case
def metadata_levels_show_what_they_should(table, raw):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
    path = f"/{table.table_name}(PartitionKey='p',RowKey='r')"
    shown = {
        level: raw.request("GET", path, Accept=f"application/json;odata={level}").json()
        for level in ["nometadata", "minimalmetadata", "fullmetadata"]
    }
    data = ["PartitionKey", "RowKey", "Timestamp", "n"]
    equal(list(shown["nometadata"]), data)
    equal(list(shown["minimalmetadata"]), ["odata.metadata", "odata.etag", *data])
    head = ["odata.metadata", "odata.type", "odata.id", "odata.etag", "odata.editLink"]
    rest = ["PartitionKey", "RowKey", "Timestamp@odata.type", "Timestamp", "n"]
    equal(list(shown["fullmetadata"]), head + rest)
    base = raw.endpoint.geturl().rstrip("/")
    equal(shown["fullmetadata"]["odata.id"], base + path)
