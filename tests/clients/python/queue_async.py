"""The asynchronous clients: many requests at once, and no message for two receivers."""

import asyncio

from azure.storage.queue.aio import QueueServiceClient
from queue_harness import case, equal, fresh_queue_name, refused

MESSAGES = 60
RECEIVERS = 8


@case
def no_two_receivers_get_one_message(account):
    asyncio.run(share(account))


async def share(account):
    async with QueueServiceClient.from_connection_string(account.connection, retry_total=0) as service:
        name = fresh_queue_name()
        queue = await service.create_queue(name, metadata={"kind": "shared"})
        found = [item async for item in service.list_queues(name_starts_with=name, include_metadata=True)]
        equal([(item.name, item.metadata) for item in found], [(name, {"kind": "shared"})])
        sent = [f"message {number} <&>" for number in range(MESSAGES)]
        await asyncio.gather(*(queue.send_message(text) for text in sent))
        equal(len(await queue.peek_messages(max_messages=32)), 32)

        # while a message is invisible it is given to nobody else.
        taken = await asyncio.gather(*(drain(queue) for _ in range(RECEIVERS)))
        equal(sorted(text for texts in taken for text in texts), sorted(sent))
        equal((await queue.get_queue_properties()).approximate_message_count, 0)
        await queue.delete_queue()
        with refused(404, "QueueNotFound", "The specified queue does not exist."):
            await queue.send_message("x")


async def drain(queue):
    texts = []
    async for message in queue.receive_messages(messages_per_page=4, visibility_timeout=300):
        assert message.dequeue_count == 1, message
        kept = await queue.update_message(message, visibility_timeout=300)
        await queue.delete_message(kept)
        texts.append(message.content)
    return texts
