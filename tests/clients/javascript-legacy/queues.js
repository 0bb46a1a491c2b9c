// The queues of azure-storage 2.10.7. It encodes texts as it is told, and parses every answer with its
// own XML reader.

"use strict";

const assert = require("node:assert/strict");
const azure = require("azure-storage");
const { equal, freshName, promised, refused } = require("./harness.js");

const { TextBase64QueueMessageEncoder, TextXmlQueueMessageEncoder, BinaryBase64QueueMessageEncoder } =
  azure.QueueMessageEncoder;
const NO_MESSAGE = "The specified message does not exist.";
const soon = () => new Date(Math.floor(Date.now() / 1000) * 1000 + 3600 * 1000);

const texts = (messages) => messages.map((message) => message.messageText);

async function count(queues, queue) {
  return (await queues.getQueueMetadata(queue)).approximateMessageCount;
}

const cases = {
  async queues_are_created_listed_and_deleted({ queues }) {
    const stem = freshName("legacy");
    const names = [0, 1, 2, 3, 4].map((number) => `${stem}-${number}`);
    for (const name of names) await queues.createQueue(name, { metadata: { n: name.at(-1) } });
    await refused(409, "QueueAlreadyExists", "The specified queue already exists.", () =>
      queues.createQueue(names[0]),
    );
    equal((await queues.createQueueIfNotExists(names[0])).created, false);
    const pages = [];
    let token = null;
    do {
      const asked = { maxResults: 2, include: "metadata" };
      const page = await queues.listQueuesSegmentedWithPrefix(stem, token, asked);
      pages.push(page.entries.map((item) => [item.name, item.metadata]));
      token = page.continuationToken;
    } while (token);
    const listed = names.map((name) => [name, { n: name.at(-1) }]);
    equal(pages, [listed.slice(0, 2), listed.slice(2, 4), listed.slice(4)]);
    for (const name of names) await queues.deleteQueue(name);
    equal((await queues.doesQueueExist(names[0])).exists, false);
    equal(await queues.deleteQueueIfExists(names[0]), false);
    await refused(404, "QueueNotFound", "The specified queue does not exist.", () =>
      queues.deleteQueue(names[0]),
    );
  },

  async metadata_and_the_count_are_read({ queues, queue }) {
    await queues.setQueueMetadata(queue, { color: "blue" });
    await queues.createMessage(queue, "x");
    const read = await queues.getQueueMetadata(queue);
    equal([read.metadata, read.approximateMessageCount], [{ color: "blue" }, 1]);
    await queues.setQueueMetadata(queue, { shape: "round" });
    equal((await queues.getQueueMetadata(queue)).metadata, { shape: "round" });
  },

  async a_message_is_put_got_updated_and_deleted({ queues, queue }) {
    const put = await queues.createMessage(queue, "first", { messageTimeToLive: -1 });
    equal(put.expirationTime, "Fri, 31 Dec 9999 23:59:59 GMT");
    const seen = await queues.peekMessage(queue);
    equal([seen.messageId, seen.messageText, seen.popReceipt], [put.messageId, "first", undefined]);
    const got = await queues.getMessage(queue, { visibilityTimeout: 60 });
    equal([got.messageId, got.messageText, got.dequeueCount], [put.messageId, "first", 1]);
    equal([await queues.getMessages(queue), await queues.peekMessages(queue)], [[], []]);
    const change = { messageText: "second" };
    const updated = await queues.updateMessage(queue, got.messageId, got.popReceipt, 0, change);
    equal(texts(await queues.peekMessages(queue)), ["second"]);
    // the receipt before the update is stale.
    for (const receipt of [put.popReceipt, got.popReceipt]) {
      await refused(404, "MessageNotFound", NO_MESSAGE, () =>
        queues.deleteMessage(queue, got.messageId, receipt),
      );
    }
    await refused(400, "InvalidQueryParameterValue", undefined, () =>
      queues.deleteMessage(queue, got.messageId, "invalid"),
    );
    await queues.updateMessage(queue, got.messageId, updated.popReceipt, 0);
    const again = await queues.getMessage(queue);
    equal([again.messageText, again.dequeueCount], ["second", 2]);
    await queues.deleteMessage(queue, again.messageId, again.popReceipt);
    equal(await count(queues, queue), 0);
  },

  async messages_are_delayed_counted_and_cleared({ queues, queue }) {
    await queues.createMessage(queue, "late", { visibilityTimeout: 3600 });
    const sent = Array.from({ length: 40 }, (_, number) => String(number));
    for (const text of sent) await queues.createMessage(queue, text);
    equal(texts(await queues.getMessages(queue, { numOfMessages: 32 })), sent.slice(0, 32));
    equal(texts(await queues.getMessages(queue, { numOfMessages: 32 })), sent.slice(32));
    equal(await count(queues, queue), 41);
    await refused(400, "OutOfRangeQueryParameterValue", undefined, () =>
      queues.getMessages(queue, { numOfMessages: 33 }),
    );
    await refused(400, "InvalidQueryParameterValue", undefined, () =>
      queues.createMessage(queue, "x", { visibilityTimeout: 30, messageTimeToLive: 30 }),
    );
    await queues.clearMessages(queue);
    equal(await count(queues, queue), 0);
  },

  async every_encoding_comes_back({ connection, queue }) {
    const text = "<tag>&amp; 'ô' \"日本語\" 😀</tag>\nend";
    for (const [encoder, content] of [
      [new TextXmlQueueMessageEncoder(), text],
      [new TextBase64QueueMessageEncoder(), text],
      [new BinaryBase64QueueMessageEncoder(), Buffer.from([...Array(256).keys()])],
      [null, text],
    ]) {
      const service = azure.createQueueService(connection);
      service.messageEncoder = encoder;
      const queues = promised(service);
      await queues.createMessage(queue, content);
      equal(texts(await queues.getMessages(queue)), [content]);
    }
    const plain = azure.createQueueService(connection);
    plain.messageEncoder = null;
    const queues = promised(plain);
    await queues.createMessage(queue, "a".repeat(65536));
    equal(texts(await queues.peekMessages(queue)), ["a".repeat(65536)]);
    await refused(413, "RequestBodyTooLarge", undefined, () =>
      queues.createMessage(queue, "a".repeat(65537)),
    );
  },

  async policies_and_tokens_open_what_they_say({ account, key, service, queues, queue, stranger }) {
    await queues.createMessage(queue, "x");
    const policies = { reader: { Permissions: "r", Expiry: soon() } };
    await queues.setQueueAcl(queue, policies);
    const { signedIdentifiers } = await queues.getQueueAcl(queue);
    equal(Object.keys(signedIdentifiers), ["reader"]);
    equal(signedIdentifiers.reader.Permissions, "r");
    const reader = stranger(service.generateSharedAccessSignature(queue, { Id: "reader" }));
    equal(texts(await reader.peekMessages(queue)), ["x"]);
    await refused(403, "AuthorizationPermissionMismatch", undefined, () => reader.getMessages(queue));
    await queues.setQueueAcl(queue, null);
    await refused(403, "AuthenticationFailed", undefined, () => reader.peekMessages(queue));
    const worker = stranger(
      service.generateSharedAccessSignature(queue, { AccessPolicy: { Permissions: "ap", Expiry: soon() } }),
    );
    await worker.createMessage(queue, "y");
    equal(texts(await worker.getMessages(queue, { numOfMessages: 2 })), ["x", "y"]);
    await refused(403, "AuthorizationFailure", undefined, () => worker.clearMessages(queue));
    const lister = stranger(
      azure.generateAccountSharedAccessSignature(account, key, {
        AccessPolicy: { Services: "q", ResourceTypes: "s", Permissions: "l", Expiry: soon() },
      }),
    );
    equal((await lister.listQueuesSegmentedWithPrefix(queue, null)).entries.length, 1);
    await refused(403, "AuthorizationResourceTypeMismatch", undefined, () => lister.peekMessages(queue));
  },

  async a_wrong_key_is_refused({ connection, key, queue }) {
    const wrong = promised(azure.createQueueService(connection.replace(key, "d3Jvbmcga2V5")));
    await refused(403, "AuthenticationFailed", undefined, () => wrong.createMessage(queue, "x"));
  },

  async service_properties_and_statistics({ queues }) {
    const RetentionPolicy = { Enabled: true, Days: 5 };
    const metrics = { Version: "1.0", Enabled: true, IncludeAPIs: true, RetentionPolicy };
    const rule = {
      AllowedOrigins: ["http://a.example", "http://b.example"],
      AllowedMethods: ["GET", "PUT"],
      AllowedHeaders: ["x-ms-meta-one", "x-ms-meta-*"],
      ExposedHeaders: ["*"],
      MaxAgeInSeconds: 500,
    };
    const before = await queues.getServiceProperties();
    await queues.setServiceProperties({ ...before, HourMetrics: metrics, Cors: { CorsRule: [rule] } });
    const read = await queues.getServiceProperties();
    await queues.setServiceProperties(before);
    equal(read.HourMetrics, metrics);
    equal(read.Cors.CorsRule, [rule]);
    equal((await queues.getServiceProperties()).Cors, before.Cors);
    const locationMode = azure.StorageUtilities.LocationMode.SECONDARY_ONLY;
    const stats = await queues.getServiceStats({ locationMode });
    equal(stats.GeoReplication.Status, "live");
    assert.ok(stats.GeoReplication.LastSyncTime instanceof Date);
  },
};

/** A queue for one case, and a service that knows the secondary too. */
async function withQueue(connection, run) {
  const [account, key, endpoint] = ["AccountName", "AccountKey", "QueueEndpoint"].map(
    (name) => connection.match(`${name}=([^;]+)`)[1],
  );
  const host = { primaryHost: endpoint, secondaryHost: `${endpoint}-secondary` };
  const service = azure.createQueueService(account, key, host);
  const queues = promised(service);
  const stranger = (token) => promised(azure.createQueueServiceWithSas(endpoint, token));
  const queue = freshName("q");
  await queues.createQueue(queue);
  try {
    await run({ connection, account, key, service, queues, queue, stranger });
  } finally {
    await queues.deleteQueue(queue);
  }
}

module.exports = { cases, withQueue };
