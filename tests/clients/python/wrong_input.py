"""What the service refuses, with its status, code and text."""

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import EdmType, EntityProperty, TableServiceClient, UpdateMode
from harness import case, equal, refused


def row(**properties):
    return {"PartitionKey": "p", "RowKey": "r", **properties}


@case
def limits_of_an_entity(table):
    too_many = (
        "The entity contains more properties than allowed. Each entity can include up to 252 "
        "properties to store data. Each entity also has 3 system properties."
    )
    too_large = (
        "The property value exceeds the maximum allowed size (64KB). If the property value is a "
        "string, it is UTF-16 encoded and the maximum number of characters should be 32K or less."
    )
    for properties, code, text in [
        ({f"p{number}": 1 for number in range(253)}, "TooManyProperties", too_many),
        ({"s": "x" * 32_769}, "PropertyValueTooLarge", too_large),
        ({"s": "😀" * 16_385}, "PropertyValueTooLarge", too_large),
        ({"x": b"x" * 65_537}, "PropertyValueTooLarge", too_large),
        (
            {f"p{number:02}": "x" * 16_910 for number in range(31)},
            "EntityTooLarge",
            "The entity is larger than the maximum allowed size (1MB).",
        ),
        (
            {"n" * 256: 1},
            "PropertyNameTooLong",
            "The property name exceeds the maximum allowed length (255).",
        ),
        ({"with-dash": 1}, "PropertyNameInvalid", "The property name is invalid."),
        ({"with space": 1}, "PropertyNameInvalid", "The property name is invalid."),
        ({"1digit": 1}, "PropertyNameInvalid", "The property name is invalid."),
    ]:
        for attempt in [
            lambda: table.create_entity(row(**properties)),
            lambda: table.upsert_entity(row(**properties), mode=UpdateMode.REPLACE),
            lambda: table.upsert_entity(row(**properties), mode=UpdateMode.MERGE),
        ]:
            with refused(400, code, text):
                attempt()
    equal(list(table.list_entities()), [])


@case
def a_merge_may_not_grow_past_the_limits(table):
    table.create_entity(row(**{f"p{number}": 1 for number in range(250)}))
    with refused(400, "TooManyProperties"):
        table.update_entity(row(a=1, b=2, c=3), mode=UpdateMode.MERGE)
    table.update_entity(row(a=1, b=2), mode=UpdateMode.MERGE)
    equal(len(table.get_entity("p", "r")), 254)


@case
def keys_are_needed(table, raw):
    path = f"/{table.table_name}"
    text = "The values are not specified for all properties in the entity."
    for body in [{"PartitionKey": "p"}, {"RowKey": "r"}, {}, {"PartitionKey": "p", "RowKey": None}]:
        equal(raw.request("POST", path, body).error(), (400, "PropertiesNeedValue", text), body)


@case
def keys_may_not_hold_forbidden_characters(table, raw):
    path = f"/{table.table_name}"
    for character in ["/", "\\", "#", "?", "\t", "\n", "\u0000", "\u007f", "\u0085"]:
        body = {"PartitionKey": "p" + character, "RowKey": "r"}
        equal(raw.request("POST", path, body).error()[:2], (400, "OutOfRangeInput"), repr(character))
    for escape in ["%2F", "%5C", "%23", "%3F"]:
        answer = raw.request("GET", f"{path}(PartitionKey='p{escape}',RowKey='r')")
        expected = (400, "InvalidInput", "Bad Request - Error in query syntax.")
        equal(answer.error(), expected, escape)


@case
def values_that_do_not_fit_their_type(table, raw):
    text = "An error occurred while processing this request."
    for edm, value in [
        ("Edm.Boolean", "not a bool"),
        ("Edm.Int32", 2**31),
        ("Edm.Int32", "x"),
        ("Edm.Int64", str(2**63)),
        ("Edm.Int64", ""),
        ("Edm.Double", "x"),
        ("Edm.DateTime", "yesterday"),
        ("Edm.DateTime", ""),
        ("Edm.DateTime", 5),
        ("Edm.Guid", "not a guid"),
        ("Edm.Guid", ""),
        ("Edm.Binary", "not base64!"),
        ("Edm.Decimal", "1.5"),
    ]:
        body = row(**{"v@odata.type": edm, "v": value})
        answer = raw.request("POST", f"/{table.table_name}", body)
        equal(answer.error(), (400, "InvalidInput", text), (edm, value))


@case
def dates_before_1601_are_out_of_range(table):
    for text in ["0001-01-01T00:00:00Z", "1600-12-31T23:59:59.9999999Z"]:
        with refused(400, "OutOfRangeInput"):
            table.create_entity(row(t=EntityProperty(text, EdmType.DATETIME)))


@case
def bodies_that_are_no_entity(table, raw):
    text = "An error occurred while processing this request."
    for body in ["", "{", "[]", '"x"', "{'PartitionKey':'p'}", "<entry/>", '{"a":{}}', '{"a":[1]}', b"\xff"]:
        answer = raw.request("POST", f"/{table.table_name}", body)
        equal(answer.error(), (400, "InvalidInput", text), body)
    twice = '{"PartitionKey":"p","RowKey":"r","a":1,"a":2}'
    answer = raw.request("POST", f"/{table.table_name}", twice)
    equal(answer.error()[:2], (400, "DuplicatePropertiesSpecified"))


@case
def a_body_of_more_than_4_mib(table, raw):
    body = {"PartitionKey": "p", "RowKey": "r", "s": "x" * (4 * 2**20)}
    answer = raw.request("POST", f"/{table.table_name}", body)
    text = "The request body is too large and exceeds the maximum permissible limit."
    equal(answer.error(), (413, "RequestBodyTooLarge", text))


@case
def paths_and_methods_that_mean_nothing(table, raw):
    name = table.table_name
    equal(raw.request("PUT", "/Tables", {"TableName": "abc"}).status, 405)
    equal(raw.request("GET", f"/{name}(PartitionKey='p)").error()[:2], (400, "InvalidInput"))
    equal(raw.request("GET", "/bad_name()").error()[:2], (400, "InvalidResourceName"))
    equal(raw.request("GET", "/ab()").error()[:2], (400, "OutOfRangeInput"))


@case
def a_wrong_key_is_not_let_in(connection, raw):
    text = (
        "Server failed to authenticate the request. Make sure the value of Authorization header is "
        "formed correctly including the signature."
    )
    wrong = AzureNamedKeyCredential(raw.account, "d3Jvbmcga2V5")
    service = TableServiceClient(raw.endpoint.geturl(), credential=wrong, retry_total=0)
    with refused(403, "AuthenticationFailed", text):
        list(service.list_tables())
    stranger = AzureNamedKeyCredential("someoneelse", "d3Jvbmcga2V5")
    service = TableServiceClient(raw.endpoint.geturl(), credential=stranger, retry_total=0)
    with refused(403, "AuthenticationFailed", text):
        list(service.list_tables())


@case
def a_date_long_past_is_not_let_in(raw):
    answer = raw.request("GET", "/Tables", x_ms_date="Thu, 09 Dec 2021 00:23:06 GMT")
    equal(answer.error()[:2], (403, "AuthenticationFailed"))


@case
def request_ids_and_versions_come_back(raw):
    answer = raw.request("GET", "/Tables", x_ms_client_request_id="mine-1")
    equal(answer.headers["x-ms-client-request-id"], "mine-1")
    equal(answer.headers["x-ms-version"], "2019-02-02")
    assert len(answer.headers["x-ms-request-id"]) == 36
    kind = "application/json;odata=minimalmetadata;streaming=true;charset=utf-8"
    equal(answer.headers["Content-Type"], kind)
