"""What the cases of queues share. A case may ask for:

account     what a client of the account needs: name, key, the two endpoints, clients with tokens
queues      a QueueServiceClient
queue       a QueueClient of a queue made for this case and dropped after it
"""

import contextlib
import re
import xml.etree.ElementTree as ElementTree

from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueClient, QueueServiceClient
from cases import case, equal, fresh_name, settings_of  # noqa: F401  (for the cases)


class Account:
    def __init__(self, connection, options):
        settings = settings_of(connection)
        self.connection = connection
        self.name = settings["AccountName"]
        self.key = settings["AccountKey"]
        self.endpoint = settings["QueueEndpoint"].rstrip("/")
        self.secondary = self.endpoint + "-secondary"
        self.options = options

    def service(self, credential=None, **options):
        """A client with this credential, the account's key unless one is given."""
        credential = credential or self.key_credential(self.key)
        return QueueServiceClient(self.endpoint, credential=credential, **self.options(), **options)

    def queue(self, name, credential=None, **options):
        credential = credential or self.key_credential(self.key)
        return QueueClient(self.endpoint, name, credential=credential, **self.options(), **options)

    def key_credential(self, key):
        return {"account_name": self.name, "account_key": key}


def supplies(connection, stack, options):
    account = Account(connection, options)

    def service():
        client = QueueServiceClient.from_connection_string(connection, **options())
        stack.callback(client.close)
        return client

    def queue():
        client = service().create_queue(fresh_queue_name())
        stack.callback(client.delete_queue)
        return client

    return {"account": lambda: account, "queues": service, "queue": queue}


def fresh_queue_name(prefix="q"):
    return fresh_name(prefix)


@contextlib.contextmanager
def refused(status, code, message=None, **details):
    """The request of the block must be refused with exactly this answer.

    `message` is the first line of the text (Q-8.2), `details` elements after it (Q-8.1).
    """
    try:
        yield
    except HttpResponseError as error:
        equal((error.status_code, error.error_code), (status, code), str(error))
        root = ElementTree.fromstring(error.response.body())
        answer = {element.tag: element.text for element in root}
        lines = answer["Message"].split("\n")
        if message is not None:
            equal(lines[0], message)
        assert lines[1].startswith("RequestId:") and lines[2].startswith("Time:"), lines
        equal({name: answer.get(name) for name in details}, details)
        return
    raise AssertionError(f"accepted, where {status} {code} was due")


def texts(messages):
    return [message.content for message in messages]


def count(queue):
    return queue.get_queue_properties().approximate_message_count


def is_guid(text):
    return re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None
