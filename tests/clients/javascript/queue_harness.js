// What the cases of queues share.
//
// A case is `queueTest("group.name", async ({ connection, queues, queue }) => ...)`; `queue` is a client
// of a queue made for this case and dropped after it.

import assert from "node:assert/strict";
import { QueueServiceClient, StorageSharedKeyCredential } from "@azure/storage-queue";
import { equal, freshName, refusal, settingsOf, test } from "./harness.js";

// One attempt: a retry would hide an answer that should not have been given.
export const options = { retryOptions: { maxTries: 1 } };

export function queueTest(name, run) {
  test(name, run, withQueue);
}

async function withQueue(connection, run) {
  const queues = QueueServiceClient.fromConnectionString(connection, options);
  const queue = queues.getQueueClient(freshName("q"));
  await queue.create();
  try {
    await run({ connection, queues, queue });
  } finally {
    await queue.delete();
  }
}

/** A client of the account with another key. */
export function withKey(connection, key) {
  const { AccountName, QueueEndpoint } = settingsOf(connection);
  return new QueueServiceClient(QueueEndpoint, new StorageSharedKeyCredential(AccountName, key), options);
}

/**
 * The request must be refused with exactly this answer. `message` is the first line of the text
 * `details` elements after it.
 */
export async function queueRefused(status, code, message, attempt, details = {}) {
  const error = await refusal(status, code, attempt);
  equal([error.statusCode, error.code], [status, code], error.message);
  const [first, id, time] = error.details.message.split("\n");
  if (message !== undefined) equal(first, message);
  assert.match(id, /^RequestId:/);
  assert.match(time, /^Time:/);
  for (const [name, value] of Object.entries(details)) {
    equal(String(error.details[name]), value, JSON.stringify(error.details));
  }
}

export const texts = (items) => items.map((item) => item.messageText);

export async function peeked(queue, numberOfMessages = 32) {
  return texts((await queue.peekMessages({ numberOfMessages })).peekedMessageItems);
}

export async function received(queue, receiveOptions = {}) {
  return (await queue.receiveMessages({ numberOfMessages: 32, ...receiveOptions })).receivedMessageItems;
}

export async function count(queue) {
  return (await queue.getProperties()).approximateMessagesCount;
}
