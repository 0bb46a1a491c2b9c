// Stored access policies, shared access signatures, service properties.

import {
  AzureNamedKeyCredential,
  AzureSASCredential,
  TableClient,
  TableServiceClient,
  generateAccountSas,
  generateTableSas,
} from "@azure/data-tables";
import { all, equal, options, refused, rowsOf, test } from "./harness.js";

const NO_PERMISSION = "This request is not authorized to perform this operation using this permission.";
const soon = () => new Date(Math.floor(Date.now() / 1000) * 1000 + 3600 * 1000);
const row = (rowKey, partitionKey = "p") => ({ partitionKey, rowKey });

function settingsOf(connection) {
  return Object.fromEntries(
    connection.split(";").filter(Boolean).map((part) => {
      const at = part.indexOf("=");
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
}

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
});

test("access.service_properties_are_kept", async ({ service }) => {
  const retentionPolicy = { enabled: true, days: 5 };
  await service.setProperties({
    hourMetrics: { version: "1.0", enabled: true, includeAPIs: true, retentionPolicy },
  });
  const read = await service.getProperties();
  equal(read.hourMetrics.retentionPolicy, retentionPolicy);
  equal([read.hourMetrics.enabled, read.hourMetrics.includeAPIs], [true, true]);
  const off = { version: "1.0", enabled: false, retentionPolicy: { enabled: false } };
  await service.setProperties({ hourMetrics: off });
  equal((await service.getProperties()).hourMetrics.enabled, false);
});
