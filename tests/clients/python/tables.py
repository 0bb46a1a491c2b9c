"""Create, list, filter, page and delete tables."""

from azure.data.tables import TableServiceClient
from harness import case, equal, fresh_name, refused


@case
def a_created_table_can_be_used_at_once(service):
    name = fresh_name()
    table = service.create_table(name)
    equal(table.table_name, name)
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    equal(len(list(table.list_entities())), 1)
    service.delete_table(name)


@case
def create_of_existing_table_is_conflict(service, table):
    with refused(409, "TableAlreadyExists", "The table specified already exists."):
        service.create_table(table.table_name)


@case
def names_that_differ_only_in_case_are_one_table(service, table):
    with refused(409, "TableAlreadyExists"):
        service.create_table(table.table_name.swapcase())
    shouted = service.get_table_client(table.table_name.upper())
    shouted.create_entity({"PartitionKey": "p", "RowKey": "r", "n": 1})
    equal(table.get_entity("p", "r")["n"], 1)


@case
def create_if_not_exists_finds_the_existing_table(service, table):
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    again = service.create_table_if_not_exists(table.table_name)
    equal(len(list(again.list_entities())), 1)


@case
def tables_are_listed_by_lower_case_name_in_the_case_given(service):
    stem = fresh_name("List")
    names = [stem + "b", stem + "A", stem + "C"]
    for name in names:
        service.create_table(name)
    listed = [item.name for item in service.list_tables() if item.name.startswith(stem)]
    equal(listed, [stem + "A", stem + "b", stem + "C"])
    for name in names:
        service.delete_table(name)


@case
def tables_are_filtered_by_name(service):
    stem = fresh_name("Filter")
    names = [stem + letter for letter in "abcd"]
    for name in names:
        service.create_table(name)

    def found(text, **parameters):
        query = service.query_tables(text, parameters=parameters or None)
        return [item.name[-1] for item in query if item.name.startswith(stem)]

    equal(found(f"TableName eq '{stem}b'"), ["b"])
    equal(found("TableName eq @name", name=stem + "c"), ["c"])
    equal(found(f"TableName ge '{stem}b' and TableName lt '{stem}d'"), ["b", "c"])
    equal(found(f"TableName ge '{stem}' and TableName lt '{stem}{{'"), ["a", "b", "c", "d"])
    equal(found(f"TableName eq '{stem}a' or TableName eq '{stem}d'"), ["a", "d"])
    equal(found(f"TableName eq '{stem}z'"), [])
    for name in names:
        service.delete_table(name)


@case
def tables_are_paged_and_a_page_can_be_resumed(service, connection):
    stem = fresh_name("Page")
    names = [f"{stem}{number}" for number in range(7)]
    for name in names:
        service.create_table(name)
    prefix = f"TableName ge '{stem}' and TableName lt '{stem}{{'"
    pages = service.query_tables(prefix, results_per_page=3).by_page()
    first = [item.name for item in next(pages)]
    equal(first, names[:3])
    token = pages.continuation_token
    assert token, "a first page of three out of seven needs a token"

    other = TableServiceClient.from_connection_string(connection, retry_total=0)
    rest = other.query_tables(prefix, results_per_page=3).by_page(continuation_token=token)
    equal([[item.name for item in page] for page in rest], [names[3:6], names[6:]])
    for name in names:
        service.delete_table(name)


@case
def a_deleted_table_is_gone_and_its_name_is_free(service, raw):
    name = fresh_name()
    table = service.create_table(name)
    table.create_entity({"PartitionKey": "p", "RowKey": "r"})
    service.delete_table(name)
    equal(list(service.query_tables(f"TableName eq '{name}'")), [])
    with refused(404, "TableNotFound", "The table specified does not exist."):
        list(table.list_entities())
    equal(
        raw.request("DELETE", f"/Tables('{name}')").error(),
        (404, "ResourceNotFound", "The specified resource does not exist."),
    )
    again = service.create_table(name)
    equal(list(again.list_entities()), [])
    service.delete_table(name)


@case
def deleting_a_table_spares_those_whose_name_begins_alike(service, table):
    longer = service.create_table(table.table_name[:40] + "x")
    longer.create_entity({"PartitionKey": "p", "RowKey": "r"})
    shorter = service.create_table(table.table_name[:20])
    shorter.delete_table()
    equal(len(list(longer.list_entities())), 1)
    longer.delete_table()


@case
def one_table_is_read_by_name(raw, table):
    answer = raw.request("GET", f"/Tables('{table.table_name}')")
    equal(answer.status, 200)
    equal(answer.json()["TableName"], table.table_name)
    equal(
        raw.request("GET", "/Tables('Nosuch')").error()[:2],
        (404, "ResourceNotFound"),
    )


@case
def invalid_names_are_refused_with_the_service_s_text(raw):
    characters = "The specifed resource name contains invalid characters."
    length = "The specified resource name length is not within the permissible limits."
    for name, code, text in [
        ("my_table", "InvalidResourceName", characters),
        ("1table", "InvalidResourceName", characters),
        ("tab le", "InvalidResourceName", characters),
        ("aa", "OutOfRangeInput", length),
        ("a" * 64, "OutOfRangeInput", length),
    ]:
        answer = raw.request("POST", "/Tables", {"TableName": name})
        equal(answer.error(), (400, code, text), name)
    answer = raw.request("POST", "/Tables", {"TableName": "a" * 63})
    equal(answer.status, 201)
    equal(raw.request("DELETE", f"/Tables('{'a' * 63}')").status, 204)
