"""The official Python SDK as a client of the benchmark: client.py <address> <table> <work> <operations>.

One request at a time, which costs the least CPU time. Prints the sample that the benchmark reads.
"""

import json
import sys
import time

from azure.core.credentials import AzureNamedKeyCredential
from azure.data.tables import TableClient

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def client(address, table):
    credential = AzureNamedKeyCredential(ACCOUNT, KEY)
    return TableClient(f"http://{address}/{ACCOUNT}", table, credential=credential)


def main():
    address, name, work, operations = sys.argv[1:]
    operations = int(operations)
    table = client(address, name)
    loaded = client(address, "Bench").query_entities(
        "PartitionKey eq 'customer-000000'", results_per_page=1000
    )
    known = list(next(loaded.by_page()))

    def new(number):
        keys = {"PartitionKey": f"customer-{number // 100:06}", "RowKey": f"order-{number % 100:06}"}
        return {**known[number % len(known)], **keys}

    entities = [new(number) for number in range(operations)] if work != "point" else []
    cpu, wall = time.process_time(), time.perf_counter()
    if work == "point":
        for number in range(operations):
            table.get_entity("customer-000000", f"order-{number % 1000:06}")
    elif work == "insert":
        for entity in entities:
            table.create_entity(entity)
    elif work == "bulk":
        for first in range(0, operations, 100):
            table.submit_transaction([("create", it) for it in entities[first : first + 100]])
    else:
        sys.exit(f"no such work: {work}")
    sample = {
        "operations": operations,
        "cpu_us": (time.process_time() - cpu) * 1e6,
        "elapsed_us": (time.perf_counter() - wall) * 1e6,
    }
    print(json.dumps(sample))


main()
