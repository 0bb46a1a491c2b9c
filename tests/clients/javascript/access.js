// Stored access policies, shared access signatures, service properties and statistics.

import { Agent } from "node:http";
import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
  generateAccountSas,
  generateTableSas,
} from "@azure/data-tables";
import { all, clientOf, equal, options, refused, refusedXml, rowsOf, settingsOf, test } from "./harness.js";

const NO_PERMISSION = "This request is not authorized to perform this operation using this permission.";
const soon = () => new Date(Math.floor(Date.now() / 1000) * 1000 + 3600 * 1000);
const row = (rowKey, partitionKey = "p") => ({ partitionKey, rowKey });

function keyOf(connection) {
  const { AccountName, AccountKey } = settingsOf(connection);
  return new AzureNamedKeyCredential(AccountName, AccountKey);
}

/** A client of the same table that has nothing but a signature. */
function signed(connection, table, signature) {
  const token = generateTableSas(table.tableName, keyOf(connection), signature);
  const endpoint = settingsOf(connection).TableEndpoint;
  return new TableClient(endpoint, table.tableName, new AzureSASCredential(token), options);
}

/** A connection string in host style, and the options to reach its hosts, which no DNS knows. */
function inHostStyle(connection) {
  const { AccountName, AccountKey, TableEndpoint } = settingsOf(connection);
  const { hostname, port } = new URL(TableEndpoint);
  const endpoint = `http://${AccountName}.table.localhost:${port}`;
  const found = { address: hostname, family: 4 };
  const lookup = (_, { all: every }, answer) =>
    every ? answer(null, [found]) : answer(null, found.address, found.family);
  return [
    `DefaultEndpointsProtocol=http;AccountName=${AccountName};AccountKey=${AccountKey};TableEndpoint=${endpoint};`,
    { ...options, agent: new Agent({ lookup }) },
  ];
}

test("access.policies_come_back_as_set", async ({ table }) => {
  equal(await table.getAccessPolicy(), []);
  const accessPolicy = { permission: "raud", start: new Date(0), expiry: soon() };
  await table.setAccessPolicy([{ id: "full", accessPolicy }]);
  equal([...(await table.getAccessPolicy())], [{ id: "full", accessPolicy }]);
  await table.setAccessPolicy([]);
  equal(await table.getAccessPolicy(), []);
});

test("access.a_signature_opens_what_it_says", async ({ connection, table }) => {
  await table.createEntity(row("r"));
  const reader = signed(connection, table, { permissions: { query: true }, expiresOn: soon() });
  equal(await rowsOf(reader), "r");
  for (const attempt of [
    () => reader.createEntity(row("s")),
    () => reader.updateEntity(row("r")),
    () => reader.deleteEntity("p", "r"),
  ]) {
    await refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, attempt);
  }
  const adder = signed(connection, table, { permissions: { add: true }, expiresOn: soon() });
  await adder.submitTransaction([["create", row("s")], ["create", row("t")]]);
  await refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () => rowsOf(adder));
  const late = signed(connection, table, { permissions: { query: true }, expiresOn: new Date(0) });
  await refused(403, "AuthenticationFailed", undefined, () => rowsOf(late));
});

test("access.six_policies_are_too_many", async ({ table }) => {
  const policies = [1, 2, 3, 4, 5, 6].map((id) => ({ id: `id${id}`, accessPolicy: { permission: "r" } }));
  await refusedXml(400, "InvalidXmlDocument", () => table.setAccessPolicy(policies));
});

test("access.a_signature_is_bound_to_its_table_and_time", async ({ connection, table }) => {
  const permissions = { query: true, add: true, update: true, delete: true };
  const later = new Date(soon().getTime() + 3600 * 1000);
  const early = signed(connection, table, { permissions, startsOn: soon(), expiresOn: later });
  await refused(403, "AuthenticationFailed", undefined, () => rowsOf(early));
  const token = generateTableSas(table.tableName, keyOf(connection), { permissions, expiresOn: soon() });
  const client = (name, text) =>
    new TableClient(settingsOf(connection).TableEndpoint, name, new AzureSASCredential(text), options);
  await refused(403, "AuthorizationFailure", undefined, () => rowsOf(client("Another", token)));
  const forged = client(table.tableName, token.replace("sp=raud", "sp=r"));
  await refused(403, "AuthenticationFailed", undefined, () => rowsOf(forged));
});

test("access.a_signature_is_bound_to_its_key_range", async ({ connection, table }) => {
  for (const partition of ["a", "b", "c"]) {
    for (const key of ["1", "2", "3"]) await table.createEntity(row(key, partition));
  }
  const some = signed(connection, table, {
    permissions: { query: true, update: true },
    expiresOn: soon(),
    startPartitionKey: "a",
    startRowKey: "3",
    endPartitionKey: "b",
    endRowKey: "2",
  });
  const seen = (await all(some.listEntities())).map((entity) => entity.partitionKey + entity.rowKey);
  equal(seen, ["a3", "b1", "b2"]);
  await refused(403, "AuthorizationFailure", undefined, () => some.getEntity("c", "1"));
  await refused(403, "AuthorizationFailure", undefined, () => some.updateEntity(row("2", "a")));
});

test("access.a_stored_policy_gives_and_takes_away", async ({ connection, table }) => {
  await table.createEntity(row("r"));
  await table.setAccessPolicy([{ id: "reader", accessPolicy: { permission: "r", expiry: soon() } }]);
  const reader = signed(connection, table, { identifier: "reader" });
  equal(await rowsOf(reader), "r");
  await refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () => reader.createEntity(row("s")));
  await table.setAccessPolicy([{ id: "reader", accessPolicy: { permission: "ra", expiry: soon() } }]);
  await reader.createEntity(row("s"));
  await table.setAccessPolicy([]);
  await refused(403, "AuthenticationFailed", undefined, () => rowsOf(reader));
});

test("access.an_account_signature_opens_what_it_says", async ({ connection, table }) => {
  const token = generateAccountSas(keyOf(connection), {
    expiresOn: soon(),
    permissions: { list: true, query: true },
    resourceTypes: "sco",
  });
  const endpoint = settingsOf(connection).TableEndpoint;
  const service = new TableServiceClient(endpoint, new AzureSASCredential(token), options);
  const names = (await all(service.listTables())).map((item) => item.name);
  equal(names.includes(table.tableName), true);
  await refused(403, "AuthorizationPermissionMismatch", NO_PERMISSION, () => service.createTable("Another"));
  const containers = generateAccountSas(keyOf(connection), {
    expiresOn: soon(),
    permissions: { list: true, query: true },
    resourceTypes: "c",
  });
  const lister = new TableClient(endpoint, table.tableName, new AzureSASCredential(containers), options);
  await refused(403, "AuthorizationResourceTypeMismatch", undefined, () => lister.getEntity("p", "r"));
});

test("access.service_properties_are_kept_section_by_section", async ({ service }) => {
  const retentionPolicy = { enabled: true, days: 5 };
  const metrics = { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy };
  const off = { version: "1.0", enabled: false, retentionPolicy: { enabled: false } };
  const logging = { version: "1.0", read: true, write: true, delete: true, retentionPolicy };
  const rule = {
    allowedOrigins: "www.xyz.com",
    allowedMethods: "GET,PUT",
    allowedHeaders: "x-ms-meta-data*",
    exposedHeaders: "x-ms-meta-abc",
    maxAgeInSeconds: 500,
  };
  try {
    await service.setProperties({ logging, hourMetrics: metrics, cors: [rule] });
    await service.setProperties({ minuteMetrics: metrics });
    const read = await service.getProperties();
    equal(read.logging, logging);
    equal([read.hourMetrics, read.minuteMetrics], [metrics, metrics]);
    equal(read.cors, [rule]);
  } finally {
    const silent = { ...logging, read: false, write: false, delete: false, retentionPolicy: { enabled: false } };
    await service.setProperties({ logging: silent, hourMetrics: off, minuteMetrics: off, cors: [] });
  }
  equal((await service.getProperties()).hourMetrics.enabled, false);
});

test("access.impossible_service_properties_are_refused", async ({ service }) => {
  const retentionPolicy = { enabled: true, days: 366 };
  const hourMetrics = { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy };
  await refusedXml(400, "InvalidXmlDocument", () => service.setProperties({ hourMetrics }));
});

test("access.analytics_tables_are_read_and_not_listed", async ({ connection, service }) => {
  const metrics = { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy: { enabled: false } };
  const name = "$MetricsMinutePrimaryTransactionsTable";
  await service.setProperties({ minuteMetrics: metrics });
  try {
    await all(clientOf(connection, name).listEntities());
    const names = (await all(service.listTables())).map((item) => item.name);
    equal(names.includes(name), false);
  } finally {
    await service.setProperties({ minuteMetrics: { ...metrics, enabled: false, includeAPIs: undefined } });
  }
});

test("access.host_style_is_served_and_the_secondary_tells_statistics", async ({ connection, table }) => {
  const [hosts, reaching] = inHostStyle(connection);
  const client = TableClient.fromConnectionString(hosts, table.tableName, reaching);
  await client.createEntity(row("r"));
  await client.submitTransaction([["create", row("s")], ["delete", row("r")]]);
  equal(await rowsOf(client), "s");
  const service = TableServiceClient.fromConnectionString(hosts, reaching);
  const { geoReplication } = await service.getStatistics();
  equal(geoReplication.status, "live");
  equal(geoReplication.lastSyncTime instanceof Date, true);
});
