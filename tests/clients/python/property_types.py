"""Every property type with the ends of its range, through insert, merge, batch and query."""

import json
import math
from datetime import datetime, timedelta, timezone
from uuid import UUID

from azure.data.tables import EdmType, EntityProperty, UpdateMode
from harness import case, equal


def check(table, values, expected=None):
    """Writes the values three ways and reads each back; `expected` when it differs from `values`."""
    properties = {f"v{number}": value for number, value in enumerate(values)}
    table.create_entity({"PartitionKey": "p", "RowKey": "insert", **properties})
    table.upsert_entity({"PartitionKey": "p", "RowKey": "merge", **properties}, mode=UpdateMode.MERGE)
    table.submit_transaction([("create", {"PartitionKey": "p", "RowKey": "batch", **properties})])
    for entity in [table.get_entity("p", "insert"), *table.list_entities()]:
        got = [entity[name] for name in properties]
        equal(got, list(values if expected is None else expected), entity["RowKey"])
        equal([type(value) for value in got], [type(value) for value in (expected or values)])


@case
def strings(table):
    check(
        table,
        [
            "",
            " ",
            "  both ends  ",
            "plain",
            "it's \"quoted\" \\ back/slash",
            "tab\tline\nreturn\r\x01\x1f\x7f",
            "ä ñ ß 日本語 \u2028 \ufeff",
            "😀👩‍👩‍👧\U0010ffff",
            "2020-01-01T00:00:00Z",
            "c9da6455-213d-42c9-9a79-3e9149a57833",
            "true",
            "x" * 32_768,
            "😀" * 16_384,
        ],
    )


@case
def booleans(table):
    check(table, [True, False])


@case
def int32(table):
    check(table, [0, 1, -1, 2**31 - 1, -(2**31)])


@case
def int64(table):
    values = [0, 1, -1, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63)]
    check(table, [EntityProperty(value, EdmType.INT64) for value in values])


@case
def doubles(table):
    check(
        table,
        [
            0.0,
            1.0,
            -1.5,
            0.1,
            1 / 3,
            123456789012345.12,
            1e15,
            1.23456789012346e24,
            1e-5,
            5e-324,
            2.2250738585072014e-308,
            1.7976931348623157e308,
            -1.7976931348623157e308,
            8589934592.0,
            math.inf,
            -math.inf,
        ],
    )
    table.create_entity({"PartitionKey": "q", "RowKey": "nan", "d": math.nan, "z": -0.0})
    read = table.get_entity("q", "nan")
    assert isinstance(read["d"], float) and math.isnan(read["d"]), read["d"]
    equal(read["z"], 0.0)


@case
def whole_doubles_stay_doubles_on_the_wire(table, raw):
    table.create_entity({"PartitionKey": "p", "RowKey": "r", "d": 5.0, "e": 1e24})
    body = raw.request("GET", f"/{table.table_name}(PartitionKey='p',RowKey='r')").body.decode()
    assert '"d":5.0' in body and '"e":1E+24' in body, body
    assert "Edm.Double" not in body, body


@case
def datetimes_to_the_tick(table):
    texts = [
        "1601-01-01T00:00:00Z",
        "1970-01-01T00:00:00Z",
        "2022-05-06T00:40:27.6737512Z",
        "2022-05-06T00:40:27.5Z",
        "9999-12-31T23:59:59.9999999Z",
    ]
    entity = {f"t{number}": EntityProperty(text, EdmType.DATETIME) for number, text in enumerate(texts)}
    table.create_entity({"PartitionKey": "p", "RowKey": "r", **entity})
    read = table.get_entity("p", "r")
    equal([read[name].tables_service_value for name in entity], texts)
    # What was read goes back unchanged, though Python holds six digits only.
    table.update_entity(read, mode=UpdateMode.REPLACE)
    again = table.get_entity("p", "r")
    equal([again[name].tables_service_value for name in entity], texts)


@case
def datetimes_are_kept_in_utc(table):
    zone = timezone(timedelta(hours=2))
    sent = {
        "python": datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=zone),
        "offset": EntityProperty("2020-01-02T03:04:05.6789012+02:00", EdmType.DATETIME),
        "bare": EntityProperty("2008-07-10T00:00:00", EdmType.DATETIME),
        "nine": EntityProperty("2008-07-10T00:00:01.000000001Z", EdmType.DATETIME),
        "zeros": EntityProperty("2011-11-04T00:05:23.2830000Z", EdmType.DATETIME),
    }
    table.create_entity({"PartitionKey": "p", "RowKey": "r", **sent})
    read = table.get_entity("p", "r")
    equal(
        {name: read[name].tables_service_value for name in sent},
        {
            "python": "2020-01-02T01:04:05.678901Z",
            "offset": "2020-01-02T01:04:05.6789012Z",
            "bare": "2008-07-10T00:00:00Z",
            "nine": "2008-07-10T00:00:01Z",
            "zeros": "2011-11-04T00:05:23.283Z",
        },
    )


@case
def guids(table):
    texts = [
        "00000000-0000-0000-0000-000000000000",
        "c9da6455-213d-42c9-9a79-3e9149a57833",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ]
    check(table, [UUID(text) for text in texts])


@case
def binaries(table):
    check(table, [b"", b"\x00", bytes(range(256)), b"x" * 65_536])


@case
def annotated_texts_are_converted(table, raw):
    # T-3.27, T-3.28: the value may be given as text, or as a whole number for a Double.
    body = {
        "PartitionKey": "p",
        "RowKey": "r",
        "b@odata.type": "Edm.Boolean",
        "b": "false",
        "d@odata.type": "Edm.Double",
        "d": "0",
        "e@odata.type": "Edm.Double",
        "e": 5,
        "i": "42",
        "i@odata.type": "Edm.Int32",
        "l@odata.type": "Edm.Int64",
        "l": "8589934592",
        "n@odata.type": "Edm.DateTime",
        "n": None,
    }
    equal(raw.request("POST", f"/{table.table_name}", body).status, 201)
    read = dict(table.get_entity("p", "r"))
    keys = {"PartitionKey": "p", "RowKey": "r"}
    long = EntityProperty(8589934592, EdmType.INT64)
    equal(read, {**keys, "b": False, "d": 0.0, "e": 5.0, "i": 42, "l": long})
    equal([type(read[name]) for name in "bdei"], [bool, float, float, int])


@case
def types_are_annotated_where_json_does_not_tell(table, raw):
    table.create_entity(
        {
            "PartitionKey": "p",
            "RowKey": "r",
            "s": "x",
            "b": True,
            "i": 1,
            "l": EntityProperty(1, EdmType.INT64),
            "d": 1.5,
            "n": math.nan,
            "t": EntityProperty("2020-01-01T00:00:00Z", EdmType.DATETIME),
            "g": UUID(int=1),
            "x": b"x",
        }
    )
    answer = raw.request("GET", f"/{table.table_name}(PartitionKey='p',RowKey='r')")
    pairs = json.loads(answer.body, object_pairs_hook=list)
    annotations = {name[:-11]: value for name, value in pairs if name.endswith("@odata.type")}
    equal(
        annotations,
        {
            "l": "Edm.Int64",
            "n": "Edm.Double",
            "t": "Edm.DateTime",
            "g": "Edm.Guid",
            "x": "Edm.Binary",
        },
    )


@case
def the_widest_entity(table):
    entity = {"PartitionKey": "p", "RowKey": "r", **{f"p{number:03}": number for number in range(252)}}
    table.create_entity(entity)
    equal(dict(table.get_entity("p", "r")), entity)


@case
def the_heaviest_entity(table):
    # T-3.10: 4 + 2*(1+1) + 31 * (8 + 2*3 + 2*len + 4) must stay within 1 MiB.
    entity = {"PartitionKey": "p", "RowKey": "r"}
    entity.update({f"p{number:02}": "x" * 16_900 for number in range(31)})
    assert 8 + 31 * (18 + 2 * 16_900) <= 2**20 < 8 + 31 * (18 + 2 * 16_910)
    table.create_entity(entity)
    equal(dict(table.get_entity("p", "r")), entity)
