// Keys, stored access policies, shared access signatures, service properties and statistics of queues.

import {
  AccountSASPermissions,
  AnonymousCredential,
  QueueClient,
  QueueSASPermissions,
  QueueServiceClient,
  StorageSharedKeyCredential,
} from "@azure/storage-queue";
import { all, equal, freshName, settingsOf } from "./harness.js";
import { count, options, peeked, queueRefused, queueTest, received, texts, withKey } from "./queue_harness.js";

const NO_PERMISSION = "This request is not authorized to perform this operation using this permission.";
const NOT_AUTHORIZED = "This request is not authorized to perform this operation.";
const soon = () => new Date(Math.floor(Date.now() / 1000) * 1000 + 3600 * 1000);

/** A client of the same queue that has nothing but a signature. */
function signed(queue, { permissions, ...rest }) {
  const parsed = permissions && QueueSASPermissions.parse(permissions);
  const url = queue.generateSasUrl({ permissions: parsed, ...rest });
  return new QueueClient(url, new AnonymousCredential(), options);
}

function signedService(queues, permissions, resourceTypes) {
  const url = queues.generateAccountSasUrl(soon(), AccountSASPermissions.parse(permissions), resourceTypes);
  return new QueueServiceClient(url, new AnonymousCredential(), options);
}

queueTest("queue_access.a_wrong_key_is_refused", async ({ connection, queue }) => {
  const wrong = withKey(connection, "d3Jvbmcga2V5");
  const text = "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.";
  for (const attempt of [
    () => wrong.getQueueClient(queue.name).sendMessage("x"),
    () => all(wrong.listQueues()),
  ]) {
    await queueRefused(403, "AuthenticationFailed", text, attempt);
  }
});

queueTest("queue_access.policies_come_back_as_set", async ({ queue }) => {
  const policies = async () => (await queue.getAccessPolicy()).signedIdentifiers;
  equal(await policies(), []);
  const accessPolicy = { permissions: "raup", startsOn: new Date(0), expiresOn: soon() };
  await queue.setAccessPolicy([{ id: "full", accessPolicy }]);
  equal(await policies(), [{ id: "full", accessPolicy }]);
  const six = [1, 2, 3, 4, 5, 6].map((id) => ({ id: `id${id}`, accessPolicy }));
  await queueRefused(400, "InvalidXmlDocument", undefined, () => queue.setAccessPolicy(six));
  const wrong = [{ id: "x", accessPolicy: { ...accessPolicy, permissions: "rwdl" } }];
  await queueRefused(400, "InvalidXmlDocument", undefined, () => queue.setAccessPolicy(wrong));
  equal((await policies()).length, 1);
  await queue.setAccessPolicy([]);
  equal(await policies(), []);
});

queueTest("queue_access.each_letter_of_a_signature_opens_its_operations", async ({ queue }) => {
  await queue.sendMessage("1");
  const operations = {
    r: async (client) => equal([await peeked(client), await count(client)], [["1"], 1]),
    a: (client) => client.sendMessage("2", { visibilityTimeout: 600 }),
    // Last, since it takes the message away.
    p: async (client) => equal(texts(await received(client, { visibilityTimeout: 600 })), ["1"]),
  };
  for (const permissions of Object.keys(operations)) {
    const client = signed(queue, { permissions, expiresOn: soon() });
    for (const [needed, attempt] of Object.entries(operations)) {
      if (needed === permissions) await attempt(client);
      else await queueRefused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () => attempt(client));
    }
  }
  const updater = signed(queue, { permissions: "u", expiresOn: soon() });
  const put = await queue.sendMessage("3");
  const { popReceipt } = await updater.updateMessage(put.messageId, put.popReceipt, "4", 0);
  await queueRefused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () =>
    updater.deleteMessage(put.messageId, popReceipt),
  );
  const everything = signed(queue, { permissions: "raup", expiresOn: soon() });
  for (const attempt of [() => everything.delete(), () => everything.clearMessages(), () => everything.getAccessPolicy()]) {
    await queueRefused(403, "AuthorizationFailure", NOT_AUTHORIZED, attempt);
  }
});

queueTest("queue_access.a_signature_is_bound_to_its_queue_and_time", async ({ queue }) => {
  for (const times of [
    { expiresOn: new Date(0) },
    { startsOn: soon(), expiresOn: new Date(soon().getTime() + 3600 * 1000) },
  ]) {
    const client = signed(queue, { permissions: "r", ...times });
    await queueRefused(403, "AuthenticationFailed", undefined, () => client.peekMessages());
  }
  const good = signed(queue, { permissions: "r", expiresOn: soon() });
  for (const url of [good.url.replace(queue.name, freshName("q")), good.url.replace("sp=r", "sp=rp")]) {
    const client = new QueueClient(url, new AnonymousCredential(), options);
    await queueRefused(403, "AuthenticationFailed", undefined, () => client.peekMessages());
  }
});

queueTest("queue_access.a_stored_policy_gives_and_takes_away", async ({ queue }) => {
  const policy = (permissions) => [{ id: "worker", accessPolicy: { permissions, startsOn: new Date(0), expiresOn: soon() } }];
  await queue.setAccessPolicy(policy("r"));
  const worker = signed(queue, { identifier: "worker" });
  equal(await peeked(worker), []);
  await queueRefused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () => worker.sendMessage("x"));
  await queue.setAccessPolicy(policy("ap"));
  await worker.sendMessage("x");
  equal(texts(await received(worker)), ["x"]);
  await queue.setAccessPolicy([]);
  await queueRefused(403, "AuthenticationFailed", undefined, () => worker.sendMessage("x"));
});

queueTest("queue_access.an_account_signature_opens_what_it_says", async ({ queues, queue }) => {
  const full = signedService(queues, "rwdlacup", "sco");
  const name = freshName("q");
  await full.createQueue(name, { metadata: { a: "1" } });
  equal((await all(full.listQueues({ prefix: name }))).length, 1);
  const client = full.getQueueClient(name);
  await client.sendMessage("x");
  const [got] = await received(client);
  const { popReceipt } = await client.updateMessage(got.messageId, got.popReceipt, "y", 0);
  await client.deleteMessage(got.messageId, popReceipt);
  await client.clearMessages();
  await queueRefused(403, "AuthorizationFailure", NOT_AUTHORIZED, () => client.getAccessPolicy());
  await full.deleteQueue(name);
  const lister = signedService(queues, "l", "s");
  equal((await all(lister.listQueues({ prefix: queue.name }))).length, 1);
  await queueRefused(403, "AuthorizationResourceTypeMismatch", undefined, () =>
    lister.getQueueClient(queue.name).peekMessages(),
  );
  const reader = signedService(queues, "r", "o");
  await queueRefused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () =>
    reader.getQueueClient(queue.name).sendMessage("x"),
  );
});

queueTest("queue_access.service_properties_are_kept_section_by_section", async ({ queues }) => {
  const retentionPolicy = { enabled: true, days: 5 };
  const off = { enabled: false };
  const quiet = { version: "1.0", read: false, write: false, deleteProperty: false, retentionPolicy: off };
  const metrics = { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy };
  const logging = { version: "1.0", read: true, write: true, deleteProperty: true, retentionPolicy };
  const rule = {
    allowedOrigins: "http://a.example,http://b.example",
    allowedMethods: "GET,PUT",
    allowedHeaders: "x-ms-meta-one,x-ms-meta-*",
    exposedHeaders: "*",
    maxAgeInSeconds: 500,
  };
  const silent = { version: "1.0", enabled: false, retentionPolicy: off };
  try {
    await queues.setProperties({ queueAnalyticsLogging: logging, hourMetrics: metrics, cors: [rule, rule] });
    await queues.setProperties({ minuteMetrics: metrics });
    const read = await queues.getProperties();
    equal([read.queueAnalyticsLogging, read.hourMetrics, read.minuteMetrics], [logging, metrics, metrics]);
    equal([...read.cors], [rule, rule]);
    await queueRefused(400, "InvalidXmlDocument", undefined, () => queues.setProperties({ cors: Array(6).fill(rule) }));
  } finally {
    await queues.setProperties({ queueAnalyticsLogging: quiet, hourMetrics: silent, minuteMetrics: silent, cors: [] });
  }
  equal((await queues.getProperties()).cors, []);
});

queueTest("queue_access.the_secondary_is_read_only_and_has_the_statistics", async ({ connection, queue }) => {
  await queue.sendMessage("x");
  const { AccountName, AccountKey, QueueEndpoint } = settingsOf(connection);
  const key = new StorageSharedKeyCredential(AccountName, AccountKey);
  const secondary = new QueueServiceClient(`${QueueEndpoint}-secondary`, key, options);
  const { geoReplication } = await secondary.getStatistics();
  equal([geoReplication.status, geoReplication.lastSyncOn instanceof Date], ["live", true]);
  const reader = secondary.getQueueClient(queue.name);
  equal([await peeked(reader), await count(reader)], [["x"], 1]);
  for (const attempt of [() => reader.sendMessage("y"), () => reader.receiveMessages()]) {
    await queueRefused(403, "InsufficientAccountPermissions", undefined, attempt);
  }
});
