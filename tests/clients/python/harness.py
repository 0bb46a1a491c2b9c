"""Runs named cases against one server, prints one line for each, and counts.

A case is a function marked `@case`. It names what it needs as parameters:

service     a TableServiceClient
table       a TableClient of a table made for this case and dropped after it
raw         signed requests by hand, for what the SDK refuses to send
connection  the connection string itself
"""

import contextlib
import inspect
import json
import sys
import traceback
import uuid

from azure.core.exceptions import HttpResponseError
from azure.data.tables import TableServiceClient

from raw import Raw

CASES = []


def client_options():
    """What every client is made with; older SDKs replace this function."""
    # One attempt: a retry would hide an answer that should not have been given.
    return {"retry_total": 0}


def case(function):
    CASES.append(function)
    return function


def name_of(function):
    return f"{function.__module__}.{function.__name__}"


def run(connection, wanted, skipped=None):
    """Runs the cases whose name contains one of `wanted` (all when there is none)."""
    skipped = skipped or {}
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    for function in CASES:
        name = name_of(function)
        if wanted and not any(part in name for part in wanted):
            continue
        if name in skipped:
            outcome = "skipped"
            print(f"test {name} ... skipped: {skipped[name]}", flush=True)
        else:
            outcome = run_one(connection, function)
            print(f"test {name} ... {outcome}", flush=True)
        counts[outcome] += 1
    summary = f"{counts['ok']} passed, {counts['FAILED']} failed"
    print(summary + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(1 if counts["FAILED"] or not counts["ok"] else 0)


def run_one(connection, function):
    with contextlib.ExitStack() as stack:
        try:
            function(**supplies(connection, function, stack))
            return "ok"
        except Exception:
            traceback.print_exc(file=sys.stdout)
            return "FAILED"


def supplies(connection, function, stack):
    """The arguments that a case asks for by name."""
    service = TableServiceClient.from_connection_string(connection, **client_options())
    stack.callback(service.close)
    makers = {
        "connection": lambda: connection,
        "service": lambda: service,
        "table": lambda: fresh_table(service, stack),
        "raw": lambda: Raw(connection),
    }
    return {name: makers[name]() for name in inspect.signature(function).parameters}


def fresh_table(service, stack):
    name = fresh_name()
    table = service.create_table(name)
    stack.callback(service.delete_table, name)
    return table


def fresh_name(prefix="T"):
    return prefix + uuid.uuid4().hex


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


def equal(got, expected, note=""):
    if got != expected:
        raise AssertionError(f"{note}\n     got: {got!r}\nexpected: {expected!r}")


def rows(entities):
    """The row keys of a result, in its order."""
    return [entity["RowKey"] for entity in entities]


def ticks(etag):
    """The time inside an etag as a text that sorts: the service trims trailing zeros (T-2.43)."""
    time = etag.removeprefix("W/\"datetime'").removesuffix("Z'\"")
    return time if "." not in time else time.ljust(len("2022-05-06T00%3A36%3A46.0687650"), "0")
