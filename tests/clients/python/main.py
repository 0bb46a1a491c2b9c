"""The newest azure-data-tables and azure-storage-queue through every operation of their services.

    python main.py [--list] [connection string] [part of a case's name ...]
"""

import harness  # first: it finds the common modules

import cases
import access  # noqa: F401  (each import registers its cases)
import conditions  # noqa: F401
import entities  # noqa: F401
import messages  # noqa: F401
import paging  # noqa: F401
import property_types  # noqa: F401
import queries  # noqa: F401
import queue_access  # noqa: F401
import queue_async  # noqa: F401
import queues  # noqa: F401
import tables  # noqa: F401
import transactions  # noqa: F401
import wrong_input  # noqa: F401

if __name__ == "__main__":
    cases.main(harness.supplies)
