"""If-Match in every form, on every operation that takes it."""

import threading

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.data.tables import UpdateMode
from harness import case, equal, refused

KEYS = {"PartitionKey": "p", "RowKey": "r"}
NOT_MET = "The update condition specified in the request was not satisfied."
FOREIGN = "The condition specified using HTTP conditional header(s) is not met."
MISSING = "The specified resource does not exist."
IF_SAME = MatchConditions.IfNotModified


def writes(table):
    """Each conditional write as (name, function of the condition's arguments)."""
    return [
        ("merge", lambda **when: table.update_entity({**KEYS, "b": 2}, mode=UpdateMode.MERGE, **when)),
        ("replace", lambda **when: table.update_entity({**KEYS, "b": 2}, mode=UpdateMode.REPLACE, **when)),
        ("delete", lambda **when: table.delete_entity("p", "r", **when)),
    ]


@case
def a_matching_etag_lets_the_write_through(table):
    for name, write in writes(table):
        etag = table.upsert_entity({**KEYS, "a": 1}, mode=UpdateMode.REPLACE)["etag"]
        write(etag=etag, match_condition=IF_SAME)
        left = [dict(entity) for entity in table.list_entities()]
        expected = {
            "merge": [{**KEYS, "a": 1, "b": 2}],
            "replace": [{**KEYS, "b": 2}],
            "delete": [],
        }
        equal(left, expected[name], name)


@case
def a_stale_etag_stops_the_write(table):
    stale = table.create_entity({**KEYS, "a": 1})["etag"]
    table.upsert_entity({**KEYS, "a": 2})
    for _, write in writes(table):
        with refused(412, "UpdateConditionNotSatisfied", NOT_MET):
            write(etag=stale, match_condition=IF_SAME)
    equal(dict(table.get_entity("p", "r")), {**KEYS, "a": 2})


@case
def a_foreign_weak_etag_matches_nothing(table):
    table.create_entity({**KEYS, "a": 1})
    for _, write in writes(table):
        with refused(412, "ConditionNotMet", FOREIGN):
            write(etag='W/"wrong"', match_condition=IF_SAME)


@case
def a_malformed_etag_is_invalid_input(table, raw):
    table.create_entity({**KEYS, "a": 1})
    text = (
        "The etag value '{}' specified in one of the request headers is not valid. "
        "Please make sure only one etag value is specified and is valid."
    )
    for _, write in writes(table):
        with refused(400, "InvalidInput", text.format('"strong"')):
            write(etag='"strong"', match_condition=IF_SAME)
    # The SDK would put quotes around this one.
    path = f"/{table.table_name}(PartitionKey='p',RowKey='r')"
    for method, body in [("PUT", {}), ("PATCH", {}), ("DELETE", None)]:
        answer = raw.request(method, path, body, If_Match="wrong")
        equal(answer.error(), (400, "InvalidInput", text.format("wrong")), method)


@case
def any_etag_needs_the_entity_to_exist(table, raw):
    for _, write in writes(table)[:2]:
        with refused(404, "ResourceNotFound", MISSING):
            write(match_condition=MatchConditions.Unconditionally)
    # The SDK keeps a 404 of a delete to itself.
    path = f"/{table.table_name}(PartitionKey='p',RowKey='r')"
    answer = raw.request("DELETE", path, If_Match="*")
    equal(answer.error(), (404, "ResourceNotFound", MISSING))
    table.create_entity({**KEYS, "a": 1})
    for _, write in writes(table):
        write(match_condition=MatchConditions.Unconditionally)
    equal(list(table.list_entities()), [])


@case
def an_etag_on_a_missing_entity_is_not_found(table, raw):
    etag = table.create_entity(KEYS)["etag"]
    table.delete_entity("p", "r")
    for _, write in writes(table)[:2]:
        with refused(404, "ResourceNotFound", MISSING):
            write(etag=etag, match_condition=IF_SAME)
    path = f"/{table.table_name}(PartitionKey='p',RowKey='r')"
    answer = raw.request("DELETE", path, If_Match=etag)
    equal(answer.error(), (404, "ResourceNotFound", MISSING))


@case
def no_etag_on_put_and_patch_is_an_upsert(table, raw):
    for method in ["PUT", "PATCH", "MERGE"]:
        path = f"/{table.table_name}(PartitionKey='p',RowKey='{method}')"
        answer = raw.request(method, path, {"a": 1})
        equal((answer.status, answer.body), (204, b""), method)
        equal(table.get_entity("p", method).metadata["etag"], answer.headers["ETag"])


@case
def a_delete_without_etag_is_refused(table, raw):
    table.create_entity(KEYS)
    path = f"/{table.table_name}(PartitionKey='p',RowKey='r')"
    equal(raw.request("DELETE", path).error()[:2], (400, "MissingRequiredHeader"))
    equal(len(list(table.list_entities())), 1)


@case
def the_entity_s_own_etag_is_taken(table):
    table.create_entity({**KEYS, "a": 1})
    read = table.get_entity("p", "r")
    read["a"] = 2
    table.update_entity(read, mode=UpdateMode.REPLACE, match_condition=IF_SAME)
    with refused(412, "UpdateConditionNotSatisfied", NOT_MET):
        table.update_entity(read, mode=UpdateMode.REPLACE, match_condition=IF_SAME)
    with refused(412, "UpdateConditionNotSatisfied", NOT_MET):
        table.delete_entity(read, match_condition=IF_SAME)


@case
def racing_increments_lose_none(table):
    table.create_entity({**KEYS, "n": 0})
    writers, increments = 6, 15
    failures = []

    def increment():
        while True:
            read = table.get_entity("p", "r")
            read["n"] += 1
            try:
                table.update_entity(read, mode=UpdateMode.REPLACE, match_condition=IF_SAME)
                return
            except ResourceModifiedError:
                continue

    def writer():
        try:
            for _ in range(increments):
                increment()
        except Exception as error:  # shown by the main thread
            failures.append(error)

    threads = [threading.Thread(target=writer) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failures, [])
    equal(table.get_entity("p", "r")["n"], writers * increments)
