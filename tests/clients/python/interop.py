"""Reads what the Rust client wrote into a table and writes the same as the official client does (CS-24).

Run by the acceptance tests of the Rust client: interop.py <table>.
"""

import os
import sys
import uuid
from datetime import datetime, timezone

from azure.data.tables import EdmType, EntityProperty, TableClient

ROWS = 100


def everything(partition):
    return {
        "PartitionKey": partition,
        "RowKey": "everything",
        "Text": "it's \u00e9 \U0001f680",
        "Flag": True,
        "Small": -7,
        "Big": EntityProperty(1 << 40, EdmType.INT64),
        "Ratio": 0.25,
        "When": datetime(2014, 8, 22, 0, 50, 32, 123000, tzinfo=timezone.utc),
        "Id": uuid.UUID("c9da6455-213d-42c9-9a79-3e9149a57833"),
        "Data": bytes([0, 1, 254, 255]),
    }


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def main():
    table = TableClient.from_connection_string(
        os.environ["LAZULI_CONNECTION_STRING"], table_name=sys.argv[1]
    )
    ours = table.get_entity("ours", "everything")
    for name, expected in everything("ours").items():
        found = ours[name]
        if isinstance(expected, EntityProperty):
            check(isinstance(found, EntityProperty), f"{name} has no type: {found!r}")
            check((found.value, found.edm_type) == (expected.value, expected.edm_type), f"{name}: {found!r}")
        else:
            # Times are of a class of the SDK, made from the standard one.
            check(found == expected and isinstance(found, type(expected)), f"{name}: {found!r}")
    check(len(ours) == len(everything("ours")), f"properties: {sorted(ours)}")

    # Pages, each by the token of the one before it.
    token, sizes, rows = None, [], []
    while True:
        pages = table.query_entities("PartitionKey eq 'rows-of-ours'", results_per_page=40).by_page(
            continuation_token=token
        )
        page = list(next(pages))
        sizes.append(len(page))
        rows += [row["N"] for row in page]
        token = pages.continuation_token
        if not token:
            break
    check(sizes == [40, 40, 20] and rows == list(range(ROWS)), f"pages: {sizes}")

    table.create_entity(everything("theirs"))
    table.submit_transaction(
        ("create", {"PartitionKey": "rows-of-theirs", "RowKey": f"{number:03}", "N": number})
        for number in range(ROWS)
    )


main()
