"""The newest azure-data-tables through every operation of the service.

    python main.py [--list] [connection string] [part of a case's name ...]

Without a connection string LAZULI_CONNECTION_STRING is taken.
"""

import os
import sys

import conditions  # noqa: F401  (each import registers its cases)
import entities  # noqa: F401
import harness
import paging  # noqa: F401
import property_types  # noqa: F401
import queries  # noqa: F401
import tables  # noqa: F401
import transactions  # noqa: F401
import wrong_input  # noqa: F401


def main(skipped=None):
    arguments = sys.argv[1:]
    if arguments[:1] == ["--list"]:
        print("\n".join(harness.name_of(function) for function in harness.CASES))
        return
    connection = os.environ.get("LAZULI_CONNECTION_STRING")
    if arguments and "AccountName=" in arguments[0]:
        connection = arguments.pop(0)
    if not connection:
        sys.exit("no connection string: give one, or set LAZULI_CONNECTION_STRING")
    harness.run(connection, arguments, skipped)


if __name__ == "__main__":
    main()
