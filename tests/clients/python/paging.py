"""Thousands of entities over several partitions, page by page."""

from azure.data.tables import TableClient
from harness import case, equal, refused

PARTITIONS = ["", "a", "b'c", "ô", "日本", "😀", "\uff5e"]
PER_PARTITION = 600


def fill(table):
    """Several thousand entities, written in transactions of a hundred."""
    for partition in PARTITIONS:
        for start in range(0, PER_PARTITION, 100):
            numbers = range(start, start + 100)
            table.submit_transaction([("create", entity(partition, number)) for number in numbers])


def entity(partition, number):
    return {"PartitionKey": partition, "RowKey": f"{number:05}", "n": number, "even": number % 2 == 0}


def keys(entities):
    return [(entity["PartitionKey"], entity["RowKey"]) for entity in entities]


def expected_keys(keep=lambda number: True):
    order = sorted(PARTITIONS, key=lambda key: key.encode("utf-16-be"))
    numbers = [number for number in range(PER_PARTITION) if keep(number)]
    return [(partition, f"{number:05}") for partition in order for number in numbers]


@case
def every_entity_comes_once_and_in_order(table, connection):
    fill(table)
    equal(keys(table.list_entities()), expected_keys())
    pages = [list(page) for page in table.list_entities().by_page()]
    assert all(len(page) <= 1000 for page in pages), [len(page) for page in pages]
    equal(keys(sum(pages, [])), expected_keys())
    small = [list(page) for page in table.list_entities(results_per_page=7).by_page()]
    equal(keys(sum(small, [])), expected_keys())
    equal({len(page) for page in small[:-1]}, {7})

    half = table.query_entities("even eq true", results_per_page=250).by_page()
    equal(keys(sum((list(page) for page in half), [])), expected_keys(lambda number: number % 2 == 0))
    tail = table.query_entities("RowKey ge '00590'", results_per_page=3).by_page()
    equal(keys(sum((list(page) for page in tail), [])), expected_keys(lambda number: number >= 590))

    resumed_elsewhere(table, connection)
    resumed_after_deletion(table)


def resumed_elsewhere(table, connection):
    """A token is good for any client, at any later time."""
    pages = table.list_entities(results_per_page=601).by_page()
    seen = keys(next(pages))
    token = pages.continuation_token
    other = TableClient.from_connection_string(connection, table.table_name, retry_total=0)
    rest = other.list_entities(results_per_page=601).by_page(continuation_token=token)
    equal(seen + keys(sum((list(page) for page in rest), [])), expected_keys())


def resumed_after_deletion(table):
    """The entity that the token names may be gone: the next page starts at its successor."""
    pages = table.query_entities("PartitionKey eq 'a'", results_per_page=10).by_page()
    equal(keys(next(pages))[-1], ("a", "00009"))
    table.delete_entity("a", "00010")
    equal(keys(next(pages)), [("a", f"{number:05}") for number in range(11, 21)])


@case
def a_page_ends_without_a_token_when_nothing_is_left(table, raw):
    for number in range(4):
        table.create_entity(entity("p", number))
    path = f"/{table.table_name}()?$top="
    names = ["x-ms-continuation-NextPartitionKey", "x-ms-continuation-NextRowKey"]
    full = raw.request("GET", path + "4")
    equal([full.headers[name] for name in names], [None, None])
    # T-4.60, T-4.65: the token names the first entity not yet returned.
    part = raw.request("GET", path + "2")
    equal([part.headers[name] for name in names], ["1!4!cA--", "1!8!MDAwMDI-"])
    query = "2&NextPartitionKey=1!4!cA--&NextRowKey=1!8!MDAwMDI-"
    rest = raw.request("GET", path + query)
    equal([row["RowKey"] for row in rest.json()["value"]], ["00002", "00003"])


@case
def tokens_that_are_none_are_refused(table, raw):
    path = f"/{table.table_name}()?"
    for query in ["NextPartitionKey=1!4!cA--&NextRowKey=", "NextRowKey=1!4!cA--", "NextPartitionKey=x"]:
        equal(raw.request("GET", path + query).error()[:2], (400, "InvalidInput"), query)
    table.create_entity(entity("p", 1))
    answer = raw.request("GET", path + "NextPartitionKey=1!4!cA--")
    equal([row["RowKey"] for row in answer.json()["value"]], ["00001"])


@case
def an_empty_table_is_one_empty_page(table):
    equal([list(page) for page in table.list_entities().by_page()], [[]])
    equal(list(table.query_entities("PartitionKey eq 'p' and RowKey eq 'r'")), [])


@case
def paging_over_a_missing_table_is_not_found(service):
    with refused(404, "TableNotFound"):
        next(service.get_table_client("Nosuchtable").list_entities().by_page())
