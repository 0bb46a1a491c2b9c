// Create, find, list and delete queues, and their metadata.

import assert from "node:assert/strict";
import { all, equal, freshName } from "./harness.js";
import { count, options, peeked, queueRefused, queueTest } from "./queue_harness.js";
import { QueueServiceClient } from "@azure/storage-queue";

const NO_QUEUE = "The specified queue does not exist.";

queueTest("queues.created_once_found_and_deleted", async ({ queues }) => {
  const queue = queues.getQueueClient(freshName("q"));
  equal(await queue.exists(), false);
  const metadata = { owner: "me" };
  equal((await queue.create({ metadata }))._response.status, 201);
  // the same again is 204, other metadata a conflict.
  equal((await queue.create({ metadata }))._response.status, 204);
  equal((await queue.createIfNotExists({ metadata })).succeeded, false);
  await queueRefused(409, "QueueAlreadyExists", "The specified queue already exists.", () => queue.create());
  equal((await queue.createIfNotExists()).errorCode, "QueueAlreadyExists");
  equal([await queue.exists(), (await queue.getProperties()).metadata], [true, metadata]);
  await queue.sendMessage("left behind");
  equal((await queue.deleteIfExists()).succeeded, true);
  const again = await queue.deleteIfExists();
  equal([again.succeeded, again.errorCode], [false, "QueueNotFound"]);
  equal((await queue.createIfNotExists()).succeeded, true);
  equal([await count(queue), await peeked(queue)], [0, []]);
  await queue.delete();
});

queueTest("queues.nothing_is_found_in_a_missing_queue", async ({ queues }) => {
  const queue = queues.getQueueClient(freshName("q"));
  for (const attempt of [
    () => queue.delete(),
    () => queue.getProperties(),
    () => queue.setMetadata({ a: "1" }),
    () => queue.getAccessPolicy(),
    () => queue.setAccessPolicy([]),
    () => queue.sendMessage("x"),
    () => queue.receiveMessages(),
    () => queue.peekMessages(),
    () => queue.clearMessages(),
    () => queue.deleteMessage("id", "AgAAAAMAAAAAAAAATo9G3YHt2AE="),
  ]) {
    await queueRefused(404, "QueueNotFound", NO_QUEUE, attempt);
  }
});

queueTest("queues.listed_by_prefix_page_by_page", async ({ connection, queues }) => {
  const stem = freshName("list");
  const list = ["a", "b", "c", "d", "e"].map((letter) => `${stem}-${letter}`);
  for (const name of list) await queues.createQueue(name, { metadata: { last: name.at(-1), _n: "<&>" } });
  const names = (items) => items.map((item) => item.name);
  equal(names(await all(queues.listQueues({ prefix: stem }))), list);
  const pages = queues.listQueues({ prefix: stem }).byPage({ maxPageSize: 2 });
  const first = (await pages.next()).value;
  equal(names(first.queueItems), list.slice(0, 2));
  assert.match(first.continuationToken, new RegExp(`^/[^/]+/${list[2]}$`));
  const other = QueueServiceClient.fromConnectionString(connection, options);
  const rest = await all(
    other.listQueues({ prefix: stem }).byPage({ maxPageSize: 2, continuationToken: first.continuationToken }),
  );
  equal(rest.map((page) => names(page.queueItems)), [list.slice(2, 4), list.slice(4)]);
  const found = await all(queues.listQueues({ prefix: stem, includeMetadata: true }));
  equal(found.map((item) => item.metadata), list.map((name) => ({ last: name.at(-1), _n: "<&>" })));
  for (const name of list) await queues.deleteQueue(name);
  equal(await all(queues.listQueues({ prefix: stem })), []);
});

queueTest("queues.metadata_is_replaced_as_a_whole", async ({ queue }) => {
  const metadata = async () => (await queue.getProperties()).metadata;
  await queue.setMetadata({ color: "deep blue", n1: "5" });
  equal(await metadata(), { color: "deep blue", n1: "5" });
  await queue.setMetadata({ shape: "round" });
  equal(await metadata(), { shape: "round" });
  const text = "The metadata specified is invalid. It has characters that are not permitted.";
  await queueRefused(400, "InvalidMetadata", text, () => queue.setMetadata({ "invalid-meta": "x" }));
  await queue.setMetadata();
  equal(await metadata(), {});
});

queueTest("queues.invalid_names_are_refused", async ({ queues }) => {
  const characters = "The specifed resource name contains invalid characters.";
  const length = "The specified resource name length is not within the permissible limits.";
  for (const [name, code, text] of [
    ["UPPER", "InvalidResourceName", characters],
    ["two--dashes", "InvalidResourceName", characters],
    ["啊齄丂狛狜", "InvalidResourceName", characters],
    ["ab", "OutOfRangeInput", length],
    ["a".repeat(64), "OutOfRangeInput", length],
  ]) {
    await queueRefused(400, code, text, () => queues.createQueue(name));
  }
});
