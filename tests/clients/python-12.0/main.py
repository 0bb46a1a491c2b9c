"""The first stable azure-data-tables and an early azure-storage-queue through the cases of the newest.

Programs pin old versions.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

import main  # noqa: E402, F401  (the newest SDK's cases, found through the path above)
import access  # noqa: E402
import cases  # noqa: E402
import entities  # noqa: E402
import harness  # noqa: E402
import paging  # noqa: E402
import transactions  # noqa: E402
from azure.core.pipeline.transport import RequestsTransport  # noqa: E402


class PlainTransport(RequestsTransport):
    """This version sends every transaction to https, whatever the connection string says."""

    def send(self, request, **options):
        request.url = request.url.replace("https://", "http://", 1)
        return super().send(request, **options)


harness.client_options = lambda: {"retry_total": 0, "transport": PlainTransport()}

# This version leaves empty keys out of the entities it returns, and does not double a quote in a key.
transactions.PARTITION = transactions.PARTITION.replace("'", "")
for keys in [entities.KEYS, paging.PARTITIONS, transactions.KEYS]:
    keys[:] = [key for key in keys if key and "'" not in key]

# Its ResourceTypes know no containers, so it cannot sign for the list of tables.
cases.CASES.remove(access.an_account_signature_opens_what_it_says)

if __name__ == "__main__":
    cases.main(harness.supplies)
