// Put, get, peek, update, delete and clear messages; what they hold, how long, and in which order.

import assert from "node:assert/strict";
import { equal } from "./harness.js";
import { count, peeked, queueRefused, queueTest, received, texts } from "./queue_harness.js";

const NO_MESSAGE = "The specified message does not exist.";
const INVALID = "Value for one of the query parameters specified in the request URI is invalid.";
const DAY = 24 * 3600 * 1000;

queueTest("messages.put_got_updated_and_deleted", async ({ queue }) => {
  const put = await queue.sendMessage("first");
  equal(put.expiresOn - put.insertedOn, 7 * DAY);
  equal(put.nextVisibleOn, put.insertedOn);
  const [seen] = (await queue.peekMessages()).peekedMessageItems;
  equal([seen.messageId, seen.messageText, seen.dequeueCount], [put.messageId, "first", 0]);
  const [got] = await received(queue, { visibilityTimeout: 60 });
  equal([got.messageId, got.messageText, got.dequeueCount], [put.messageId, "first", 1]);
  equal([got.insertedOn, got.expiresOn], [put.insertedOn, put.expiresOn]);
  equal([await received(queue), await peeked(queue), await count(queue)], [[], [], 1]);
  const updated = await queue.updateMessage(got.messageId, got.popReceipt, "second", 0);
  equal(await peeked(queue), ["second"]);
  // the receipt before the update is stale, and that is 404.
  for (const receipt of [put.popReceipt, got.popReceipt]) {
    await queueRefused(404, "MessageNotFound", NO_MESSAGE, () => queue.deleteMessage(got.messageId, receipt));
  }
  // Without a text the old one stays.
  await queue.updateMessage(got.messageId, updated.popReceipt, undefined, 0);
  const [again] = await received(queue);
  equal([again.messageText, again.dequeueCount], ["second", 2]);
  await queueRefused(
    400, "InvalidQueryParameterValue", INVALID,
    () => queue.deleteMessage(again.messageId, `${again.popReceipt}Random`),
    { QueryParameterName: "popreceipt", Reason: "Invalid pop receipt format" },
  );
  await queue.deleteMessage(again.messageId, again.popReceipt);
  await queueRefused(404, "MessageNotFound", NO_MESSAGE, () =>
    queue.deleteMessage(again.messageId, again.popReceipt),
  );
  equal(await count(queue), 0);
});

queueTest("messages.wait_for_their_delay_and_live_as_long_as_asked", async ({ queue }) => {
  const late = await queue.sendMessage("late", { visibilityTimeout: 3600, messageTimeToLive: 7200 });
  equal([late.nextVisibleOn - late.insertedOn, late.expiresOn - late.insertedOn], [DAY / 24, DAY / 12]);
  equal([await received(queue), await peeked(queue), await count(queue)], [[], [], 1]);
  // The receipt of Put Message is good until the message is dequeued.
  await queue.updateMessage(late.messageId, late.popReceipt, undefined, 0);
  equal(texts(await received(queue)), ["late"]);
  const never = await queue.sendMessage("never", { messageTimeToLive: -1 });
  equal(never.expiresOn.toISOString(), "9999-12-31T23:59:59.000Z");
  await queueRefused(
    400, "InvalidQueryParameterValue", INVALID,
    () => queue.sendMessage("x", { visibilityTimeout: 30, messageTimeToLive: 30 }),
    { QueryParameterName: "visibilitytimeout", Reason: "messagettl must be greater than visibilitytimeout" },
  );
});

queueTest("messages.numbers_out_of_range_are_refused_with_their_range", async ({ queue }) => {
  const text = "One of the query parameters specified in the request URI is outside the permissible range.";
  for (const [attempt, name, value, low, high] of [
    [() => queue.receiveMessages({ numberOfMessages: 33 }), "numofmessages", 33, 1, 32],
    [() => queue.peekMessages({ numberOfMessages: 33 }), "numofmessages", 33, 1, 32],
    [() => queue.receiveMessages({ visibilityTimeout: 0 }), "visibilitytimeout", 0, 1, 604800],
    [() => queue.sendMessage("x", { visibilityTimeout: 604801 }), "visibilitytimeout", 604801, 0, 604800],
  ]) {
    await queueRefused(400, "OutOfRangeQueryParameterValue", text, attempt, {
      QueryParameterName: name,
      QueryParameterValue: String(value),
      MinimumAllowed: String(low),
      MaximumAllowed: String(high),
    });
  }
});

queueTest("messages.texts_come_back_as_sent", async ({ queue }) => {
  const sent = [
    "<tag attribute=\"'\">&amp; & ]]> <!-- no --></tag>",
    "ô 日本語 😀 \u0085\u2028\ufffd",
    "  spaces\tand tabs  ", // line feeds are left out: this SDK strips them from every body it sends
    "0123",
    "true",
    Buffer.from([...Array(256).keys()]).toString("base64"),
    "",
  ];
  for (const text of sent) await queue.sendMessage(text);
  equal(await peeked(queue), sent);
  const got = await received(queue);
  equal(texts(got), sent);
  // One Get gives one receipt to all its messages.
  equal(new Set(got.map((item) => item.popReceipt)).size, 1);
  await queueRefused(400, "InvalidXmlDocument", undefined, () => queue.sendMessage("\u0001"), {
    Reason: "Error parsing Xml content",
  });
});

queueTest("messages.hold_64_kib", async ({ queue }) => {
  for (const text of ["a".repeat(65536), "é".repeat(32768), "&".repeat(65536)]) {
    const put = await queue.sendMessage(text);
    equal(await peeked(queue), [text]);
    await queueRefused(413, "RequestBodyTooLarge", undefined, () => queue.sendMessage(`${text}a`), {
      MaxLimit: "65536",
    });
    await queue.deleteMessage(put.messageId, put.popReceipt);
  }
});

queueTest("messages.are_given_once_and_a_clear_takes_all", async ({ queue }) => {
  const sent = Array.from({ length: 60 }, (_, number) => `message ${number}`);
  await Promise.all(sent.map((text) => queue.sendMessage(text)));
  // eight receivers at once share the messages, and none gets one twice.
  const taken = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const mine = [];
      for (;;) {
        const items = await received(queue, { numberOfMessages: 4, visibilityTimeout: 300 });
        if (items.length === 0) return mine;
        mine.push(...items);
      }
    }),
  );
  equal(texts(taken.flat()).sort(), [...sent].sort());
  equal(await count(queue), 60);
  await queue.clearMessages();
  equal([await count(queue), await peeked(queue)], [0, []]);
  const [gone] = taken.flat();
  await queueRefused(404, "MessageNotFound", NO_MESSAGE, () =>
    queue.deleteMessage(gone.messageId, gone.popReceipt),
  );
  assert.equal((await queue.receiveMessages()).receivedMessageItems.length, 0);
});
