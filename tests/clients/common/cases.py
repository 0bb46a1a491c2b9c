"""Runs named cases against one server, prints one line for each, and counts.

A case is a function marked `@case`. It names what it needs as parameters; the program gives a
function that makes each of these by name.
"""

import contextlib
import inspect
import os
import sys
import traceback
import uuid

CASES = []


def case(function):
    CASES.append(function)
    return function


def name_of(function):
    module = function.__module__
    return function.__name__ if module == "__main__" else f"{module}.{function.__name__}"


def main(supplies, skipped=None):
    """Reads the command line: `[--list] [connection string] [part of a case's name ...]`.

    Without a connection string LAZULI_CONNECTION_STRING is taken. `supplies(connection, stack)`
    gives a dictionary from parameter names to functions; `skipped` maps case names to reasons.
    """
    arguments = sys.argv[1:]
    if arguments[:1] == ["--list"]:
        print("\n".join(name_of(function) for function in CASES))
        return
    connection = os.environ.get("LAZULI_CONNECTION_STRING")
    if arguments and "AccountName=" in arguments[0]:
        connection = arguments.pop(0)
    if not connection:
        sys.exit("no connection string: give one, or set LAZULI_CONNECTION_STRING")
    run(lambda stack: supplies(connection, stack), arguments, skipped or {})


def run(supplies, wanted, skipped):
    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    for function in CASES:
        name = name_of(function)
        if wanted and not any(part in name for part in wanted):
            continue
        if name in skipped:
            outcome = "skipped"
            print(f"test {name} ... skipped: {skipped[name]}", flush=True)
        else:
            outcome = run_one(supplies, function)
            print(f"test {name} ... {outcome}", flush=True)
        counts[outcome] += 1
    summary = f"{counts['ok']} passed, {counts['FAILED']} failed"
    print(summary + (f", {counts['skipped']} skipped" if counts["skipped"] else ""))
    sys.exit(1 if counts["FAILED"] or not counts["ok"] else 0)


def run_one(supplies, function):
    try:
        with contextlib.ExitStack() as stack:
            makers = supplies(stack)
            names = inspect.signature(function).parameters
            function(**{name: makers[name]() for name in names})
        return "ok"
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return "FAILED"


def fresh_name(prefix="T"):
    return prefix + uuid.uuid4().hex


def settings_of(connection):
    """The parts of a connection string by name."""
    return dict(part.split("=", 1) for part in connection.strip(";").split(";"))


def equal(got, expected, note=""):
    if got != expected:
        raise AssertionError(f"{note}\n     got: {got!r}\nexpected: {expected!r}")
