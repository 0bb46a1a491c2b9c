"""Filters over every type, $select, $top, and what a filter may not say."""

from datetime import datetime, timezone
from uuid import UUID

from azure.data.tables import EdmType, EntityProperty
from harness import case, equal, refused, rows

GUIDS = [UUID(int=number) for number in (1, 2**64, 2**127)]


def int64(value):
    return EntityProperty(value, EdmType.INT64)


def time(text):
    return EntityProperty(text, EdmType.DATETIME)


DATA = [
    {
        "RowKey": "r0",
        "s": "apple",
        "i": 1,
        "l": int64(-5),
        "d": 1.5,
        "b": True,
        "t": time("2020-01-01T00:00:00.0000001Z"),
        "g": GUIDS[0],
        "x": b"\x00\x01",
    },
    {
        "RowKey": "r1",
        "s": "Apple",
        "i": 2,
        "l": int64(2**40),
        "d": 2.0,
        "b": False,
        "t": time("2020-01-01T00:00:00.0000002Z"),
        "g": GUIDS[1],
        "x": b"\x00\x02",
    },
    {
        "RowKey": "r2",
        "s": "",
        "i": -3,
        "l": int64(2**63 - 1),
        "d": -1e300,
        "b": True,
        "t": time("9999-12-31T23:59:59.9999999Z"),
        "g": GUIDS[2],
        "x": b"",
    },
    {
        "RowKey": "r3",
        "s": "o'clock 😀",
        "i": 2**31 - 1,
        "l": int64(-(2**63)),
        "d": float("nan"),
        "b": False,
        "t": time("1601-01-01T00:00:00Z"),
        "x": b"\x00",
    },
    {"RowKey": "r4"},
    {"RowKey": "r5", "s": 7, "i": "text"},
]

ALL = "r0 r1 r2 r3 r4 r5"

FILTERS = [
    # Strings: ordinal, case-sensitive; values of other types lie below them (T-4.28, T-4.38).
    ("s eq 'apple'", "r0"),
    ("s eq 'APPLE'", ""),
    ("s ne 'apple'", "r1 r2 r3 r5"),
    ("s eq ''", "r2"),
    ("s ne ''", "r0 r1 r3 r5"),
    ("s eq 'o''clock 😀'", "r3"),
    ("s gt 'Apple'", "r0 r3"),
    ("s ge 'Apple' and s le 'apple'", "r0 r1"),
    ("s lt ''", "r5"),
    ("s gt ''", "r0 r1 r3"),
    ("s eq 7", "r5"),
    # Int32
    ("i eq 1", "r0"),
    ("i ne 1", "r1 r2 r3 r5"),
    ("i eq -3", "r2"),
    ("i ge 1 and i lt 3", "r0 r1"),
    ("i le 2147483647 and i gt 2", "r3"),
    # Int64, compared over the whole range (T-4.34)
    ("l eq 1099511627776L", "r1"),
    ("l lt 0L", "r0 r3"),
    ("l eq 9223372036854775807L", "r2"),
    ("l gt 9223372036854775806L", "r2"),
    ("l eq -9223372036854775808L", "r3"),
    ("l ge -5L", "r0 r1 r2"),
    # Double; NaN is unequal to everything (T-4.33)
    ("d eq 1.5", "r0"),
    ("d gt 1.4", "r0 r1"),
    ("d lt -1e299", "r2"),
    ("d ge 2.0", "r1"),
    ("d ne 1.5", "r1 r2 r3"),
    ("d eq 2.0d", "r1"),
    # Boolean, also bare (T-4.16)
    ("b eq true", "r0 r2"),
    ("b eq false", "r1 r3"),
    ("b ne true", "r1 r3"),
    ("b", "r0 r2"),
    ("b eq True", "r0 r2"),
    # DateTime to the tick (T-4.29)
    ("t eq datetime'2020-01-01T00:00:00.0000001Z'", "r0"),
    ("t gt datetime'2020-01-01T00:00:00.0000001Z'", "r1 r2"),
    ("t le datetime'2020-01-01T00:00:00.0000002Z'", "r0 r1 r3"),
    ("t lt datetime'1601-01-01T00:00:00.0000001Z'", "r3"),
    ("t eq datetime'9999-12-31T23:59:59.9999999Z'", "r2"),
    # Guid and Binary
    (f"g eq guid'{GUIDS[1]}'", "r1"),
    (f"g ne guid'{GUIDS[1]}'", "r0 r2"),
    (f"g gt guid'{GUIDS[0]}'", "r1 r2"),
    ("x eq X'0001'", "r0"),
    ("x eq binary'0001'", "r0"),
    ("x eq X''", "r2"),
    ("x gt X'00'", "r0 r1"),
    ("x le X'0001'", "r0 r2 r3"),
    # Keys and Timestamp
    ("PartitionKey eq 'p'", ALL),
    ("PartitionKey eq 'P'", ""),
    ("PartitionKey eq 'p' and RowKey eq 'r3'", "r3"),
    ("PartitionKey eq 'p' and RowKey ge 'r1' and RowKey lt 'r3'", "r1 r2"),
    ("PartitionKey gt 'o' and PartitionKey lt 'q' and RowKey gt 'r4'", "r5"),
    ("RowKey eq 'r0' or RowKey eq 'r4'", "r0 r4"),
    ("(PartitionKey eq 'p' and RowKey eq 'r5') or (PartitionKey eq 'p' and RowKey eq 'r1')", "r1 r5"),
    ("RowKey ne 'r2'", "r0 r1 r3 r4 r5"),
    ("Timestamp gt datetime'2000-01-01T00:00:00Z'", ALL),
    ("Timestamp lt datetime'2000-01-01T00:00:00Z'", ""),
    # Logic: precedence, not, literals on the left, constants
    ("s eq 'apple' or s eq 'Apple' and i eq 99", "r0"),
    ("(s eq 'apple' or s eq 'Apple') and i eq 2", "r1"),
    ("not (RowKey lt 'r4')", "r4 r5"),
    ("not (not (RowKey lt 'r1'))", "r0"),
    ("not (i eq 1)", "r1 r2 r3 r4 r5"),
    ("'apple' eq s", "r0"),
    ("'r3' lt RowKey", "r4 r5"),
    ("true", ALL),
    ("false", ""),
    # A property that nobody has matches nothing, ne included (T-4.35)
    ("nosuch eq 1", ""),
    ("nosuch ne 1", ""),
    ("_odd eq 'x'", ""),
    ("", ALL),
]


def fill(table):
    table.submit_transaction([("create", {"PartitionKey": "p", **entity}) for entity in DATA])


@case
def filters_select_exactly_what_they_say(table):
    fill(table)
    wrong = []
    for text, expected in FILTERS:
        got = " ".join(rows(table.query_entities(text)))
        if got != expected:
            wrong.append(f"{text!r} gave {got!r}, not {expected!r}")
    equal(wrong, [], "\n".join(wrong))


@case
def filters_take_parameters_of_every_type(table):
    fill(table)
    for name, value, expected in [
        ("s", "o'clock 😀", "r3"),
        ("i", -3, "r2"),
        ("l", 2**40, "r1"),
        ("d", 1.5, "r0"),
        ("b", True, "r0 r2"),
        ("t", datetime(1601, 1, 1, tzinfo=timezone.utc), "r3"),
        ("g", GUIDS[2], "r2"),
        ("x", b"\x00\x02", "r1"),
    ]:
        # The SDK splits a filter at blanks, so the value must stand alone.
        found = table.query_entities(f"{name} eq @value", parameters={"value": value})
        equal(" ".join(rows(found)), expected, name)


@case
def select_names_what_comes_back(table):
    fill(table)
    found = list(table.query_entities("RowKey eq 'r0'", select=["RowKey", "i", "nosuch"]))
    equal([dict(entity) for entity in found], [{"RowKey": "r0", "i": 1, "nosuch": None}])
    assert found[0].metadata["etag"], "the etag stays, T-4.45a"
    equal([dict(entity) for entity in table.query_entities("RowKey eq 'r4'", select="i")], [{"i": None}])
    everything = list(table.query_entities("RowKey eq 'r4'", select="*"))
    equal([dict(entity) for entity in everything], [{"PartitionKey": "p", "RowKey": "r4"}])


@case
def top_is_the_page_size(table, raw):
    fill(table)
    path = f"/{table.table_name}()?$top="
    for top, count in [(0, 0), (1, 1), (6, 6), (1000, 6)]:
        answer = raw.request("GET", f"{path}{top}")
        equal((answer.status, len(answer.json()["value"])), (200, count), top)
    for top in ["1001", "-1", "x", "1.5"]:
        equal(raw.request("GET", path + top).error()[:2], (400, "InvalidInput"), top)


@case
def a_long_filter_is_served(table):
    fill(table)
    text = " or ".join(f"RowKey eq 'r{number}'" for number in range(100))
    equal(" ".join(rows(table.query_entities(text))), ALL)


@case
def wrong_filters_are_refused_with_the_service_s_text(table):
    for text, status, code, message in [
        ("aaa bbb ccc", 400, "InvalidInput", "Syntax error at position 7 in 'aaa bbb ccc'."),
        ("PartitionKey eq 12345", 400, "InvalidInput", None),
        ("RowKey eq true", 400, "InvalidInput", None),
        ("Timestamp eq 'x'", 400, "InvalidInput", None),
        ("s eq null", 400, "InvalidInput", "One of the request inputs is not valid."),
        ("s Eq 'x'", 400, "InvalidInput", None),
        ("s eq 'x' OR s eq 'y'", 400, "InvalidInput", None),
        ('s eq "x"', 400, "InvalidInput", None),
        ("s eq 'x", 400, "InvalidInput", None),
        ("(s eq 'x'", 400, "InvalidInput", None),
        ("s eq", 400, "InvalidInput", None),
        ("s eq 'x' and", 400, "InvalidInput", None),
        ("t eq datetime'yesterday'", 400, "InvalidInput", None),
        ("g eq guid'1'", 400, "InvalidInput", None),
        ("x eq X'0'", 400, "InvalidInput", None),
        ("startswith(s,'a')", 501, "NotImplemented", None),
        ("s eq i", 501, "NotImplemented", None),
    ]:
        try:
            with refused(status, code, message):
                list(table.query_entities(text))
        except AssertionError as error:
            raise AssertionError(f"{text}: {error}") from error


@case
def unsupported_options_are_refused(table, raw):
    for option in ["$orderby=i", "$skip=1", "$expand=x", "$inlinecount=allpages"]:
        answer = raw.request("GET", f"/{table.table_name}()?{option}")
        equal(answer.error()[:2], (501, "NotImplemented"), option)
    equal(raw.request("GET", f"/{table.table_name}()?$filter=&$select=").status, 200)
