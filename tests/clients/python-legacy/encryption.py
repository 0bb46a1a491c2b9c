"""Client-side encryption, version 1: reads what the Rust client wrote, and writes for it to read (ES-2).

Run by the acceptance tests of the Rust client: encryption.py <table> <step>..., where a step is
read:<partition>:<key> or write:<partition>:<key>.
"""

import base64
import os
import sys

from azure.cosmosdb.table.models import EdmType, EntityProperty, TablePayloadFormat
from azure.cosmosdb.table.tablebatch import TableBatch
from azure.cosmosdb.table.tableservice import TableService
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.keywrap import aes_key_unwrap, aes_key_wrap
from cryptography.hazmat.primitives.serialization import load_der_private_key

ENCRYPTED = ("Email", "Notes")
LEVELS = (
    TablePayloadFormat.JSON_NO_METADATA,
    TablePayloadFormat.JSON_MINIMAL_METADATA,
    TablePayloadFormat.JSON_FULL_METADATA,
)
# The rows, with the two texts of each; both sides of the test have this table.
ROWS = {
    "insert": ("jonesj@contoso.com", ""),
    "upsert": ("x" * 15, "x" * 16),
    "replace": ("x" * 17, "it's \u00e9 \U0001f680"),
    "batch-1": ("[a, b]", '["a"]'),
    "batch-2": ("line\r\nline", "x" * 65_535),
}


class AesKey:
    def __init__(self, kid, secret):
        self.kid, self.secret = kid, secret

    def get_kid(self):
        return self.kid

    def get_key_wrap_algorithm(self):
        return f"A{8 * len(self.secret)}KW"

    def wrap_key(self, key):
        return aes_key_wrap(self.secret, key)

    def unwrap_key(self, key, algorithm):
        check(algorithm == self.get_key_wrap_algorithm(), f"wrapped with {algorithm}")
        return aes_key_unwrap(self.secret, key)


class RsaKey:
    """Goes by the name of its algorithm."""

    PADDINGS = {
        "RSA-OAEP": padding.OAEP(padding.MGF1(SHA1()), SHA1(), None),
        "RSA-OAEP-256": padding.OAEP(padding.MGF1(SHA256()), SHA256(), None),
        "RSA1_5": padding.PKCS1v15(),
    }

    def __init__(self, kid):
        self.kid, self.padding = kid, self.PADDINGS[kid]
        self.private = load_der_private_key(base64.b64decode(os.environ["LAZULI_RSA_KEY"]), None)

    def get_kid(self):
        return self.kid

    def get_key_wrap_algorithm(self):
        return self.kid

    def wrap_key(self, key):
        return self.private.public_key().encrypt(key, self.padding)

    def unwrap_key(self, key, algorithm):
        check(algorithm == self.kid, f"wrapped with {algorithm}")
        return self.private.decrypt(key, self.padding)


def key_named(kid):
    aes = {"key1": bytes([1]) * 32, "key2": bytes([2]) * 32, "key3": bytes([3]) * 16}
    return AesKey(kid, aes[kid]) if kid in aes else RsaKey(kid)


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


def check_row(entity, name, encrypted, what):
    for property, expected in zip(ENCRYPTED, ROWS[name]):
        found = entity.get(property)
        if property in encrypted:
            check(found == expected, f"{what}: {property} of {name}: {found!r:.80}")
        else:
            check(found is None, f"{what}: {property} of {name} was not asked for")
    left = [property for property in entity if property.startswith("_ClientEncryption")]
    check(not left, f"{what}: {left}")


def read(service, table, partition):
    in_partition = f"PartitionKey eq '{partition}'"
    for level in LEVELS:
        for name in ROWS:
            row = service.get_entity(table, partition, name, accept=level)
            check_row(row, name, ENCRYPTED, f"{partition}, {level}")
            if level != TablePayloadFormat.JSON_NO_METADATA:
                # It wraps a number whose type the answer does not spell out.
                clear = getattr(row["Age"], "value", row["Age"]), row["Photo"].value
                check(clear == (34, b"\x00\xff"), f"clear properties: {clear}")
        for select, encrypted in [
            (None, ENCRYPTED),
            ("PartitionKey,RowKey,Email", ("Email",)),
            ("PartitionKey,RowKey,Age", ()),
        ]:
            rows = list(service.query_entities(table, in_partition, select, accept=level))
            check({row["RowKey"] for row in rows} == set(ROWS), f"{partition}: {len(rows)} rows")
            for row in rows:
                check_row(row, row["RowKey"], encrypted, f"{partition}, {level}, {select}")


def write(service, table, partition):
    def row(name, flagged=False):
        texts = dict(zip(ENCRYPTED, ROWS[name]))
        if flagged:
            texts = {key: EntityProperty(EdmType.STRING, text, True) for key, text in texts.items()}
        photo = EntityProperty(EdmType.BINARY, b"\x00\xff")
        return {"PartitionKey": partition, "RowKey": name, "Age": 34, "Photo": photo, **texts}

    # Both ways to say what is encrypted: of a property, and for all entities.
    service.insert_entity(table, row("insert", flagged=True))
    service.encryption_resolver_function = lambda partition, row, name: name in ENCRYPTED
    service.insert_or_replace_entity(table, row("upsert"))
    service.insert_entity(table, {**row("replace"), "Email": "old"})
    service.update_entity(table, row("replace"))
    batch = TableBatch(True, service.key_encryption_key, service.encryption_resolver_function)
    batch.insert_entity(row("batch-1"))
    batch.insert_or_replace_entity(row("batch-2"))
    service.commit_batch(table, batch)


def main():
    table, *steps = sys.argv[1:]
    for step in steps:
        verb, partition, kid = step.split(":")
        service = TableService(connection_string=os.environ["LAZULI_CONNECTION_STRING"])
        service.retry = lambda context: None
        service.require_encryption = True
        service.key_encryption_key = key_named(kid)
        {"read": read, "write": write}[verb](service, table, partition)


main()
