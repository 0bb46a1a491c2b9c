"""Runs az, and makes what the cases ask for:

run       az with the account's key
stranger  az without it: what it needs beside a token is said by each call
table     a table made for the case and dropped after it
queue     the same for a queue
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent.parent / "common"))

from cases import case, equal, fresh_name, main, settings_of  # noqa: E402, F401  (for the cases)


def supplies(connection, stack):
    config = stack.enter_context(tempfile.TemporaryDirectory())
    settings = settings_of(connection)
    # Of queues az does not find the secondary of a local server by itself; it wants no scheme here.
    secondary = settings["QueueEndpoint"].split("://")[1].rstrip("/") + "-secondary"
    run = lambda *words: az(f"{connection}QueueSecondaryEndpoint={secondary};", config, *words)  # noqa: E731

    def fresh(kind, prefix):
        name = fresh_name(prefix)
        run("storage", kind, "create", "--name", name, "--fail-on-exist")
        stack.callback(run, "storage", kind, "delete", "--name", name)
        return name

    def stranger():
        account = ("--account-name", settings["AccountName"])
        endpoints = {
            "entity": ("--table-endpoint", settings["TableEndpoint"]),
            "message": ("--queue-endpoint", settings["QueueEndpoint"]),
            "queue": ("--queue-endpoint", settings["QueueEndpoint"]),
        }
        return lambda *words: az("", config, *words, *account, *endpoints[words[1]])

    return {
        "run": lambda: run,
        "stranger": stranger,
        "table": lambda: fresh("table", "T"),
        "queue": lambda: fresh("queue", "q"),
    }


class Refused(Exception):
    """What az printed when it ended badly."""


def az(connection, config, *words):
    """Runs az and returns what it printed, as values."""
    environment = {
        **os.environ,
        **({"AZURE_STORAGE_CONNECTION_STRING": connection} if connection else {}),
        "AZURE_CONFIG_DIR": config,
        "AZURE_CORE_COLLECT_TELEMETRY": "false",
        "AZURE_CORE_ONLY_SHOW_ERRORS": "true",
        "AZURE_CORE_NO_COLOR": "true",
    }
    command = [sys.executable, "-m", "azure.cli", *words, "--output", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Refused(done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


def refused(text, attempt):
    """az shows the text of an error, not its code."""
    try:
        attempt()
    except Refused as error:
        assert text in str(error), error
        return
    raise AssertionError(f"accepted, where it was due: {text}")
