"""What the cases of this SDK share. A case may ask for:

service     a TableServiceClient
table       a TableClient of a table made for this case and dropped after it
raw         signed requests by hand, for what the SDK refuses to send
connection  the connection string itself

and for what `queue_harness.py` names.
"""

import contextlib
import json
import pathlib
import sys

from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient

sys.path.append(str(pathlib.Path(__file__).parent.parent / "common"))

from cases import case, equal, fresh_name  # noqa: E402, F401  (for the cases)
from raw import Raw  # noqa: E402
import queue_harness  # noqa: E402


def client_options():
    """What every client is made with; older SDKs replace this function."""
    # One attempt: a retry would hide an answer that should not have been given.
    return {"retry_total": 0}


def supplies(connection, stack):
    service = TableServiceClient.from_connection_string(connection, **client_options())
    stack.callback(service.close)
    return {
        "connection": lambda: connection,
        "service": lambda: service,
        "table": lambda: fresh_table(service, stack),
        "raw": lambda: Raw(connection),
        **queue_harness.supplies(connection, stack, client_options),
    }


def fresh_table(service, stack):
    name = fresh_name()
    table = service.create_table(name)
    stack.callback(service.delete_table, name)
    return table


@contextlib.contextmanager
def refused(status, code, message=None, index=None):
    """The request of the block must be refused with exactly this answer.

    `message` is the first line of the text; the service adds request id and time (T-7.1).
    """
    try:
        yield
    except HttpResponseError as error:
        # From the body itself: some methods of the SDK raise without having decoded it.
        answer = json.loads(error.response.text())["odata.error"]
        equal((error.status_code, answer["code"]), (status, code))
        lines = answer["message"]["value"].split("\n")
        if message is not None:
            equal(lines[0], message)
        assert lines[1].startswith("RequestId:") and lines[2].startswith("Time:"), lines
        if index is not None:
            equal(error.index, index)
        return
    raise AssertionError(f"accepted, where {status} {code} was due")


def rows(entities):
    """The row keys of a result, in its order."""
    return [entity["RowKey"] for entity in entities]


def ticks(etag):
    """The time inside an etag as a text that sorts: the service trims trailing zeros (T-2.43)."""
    time = etag.removeprefix("W/\"datetime'").removesuffix("Z'\"")
    return time if "." not in time else time.ljust(len("2022-05-06T00%3A36%3A46.0687650"), "0")
