// What the service refuses, with its status, code and text.

import { AzureNamedKeyCredential, TableServiceClient } from "@azure/data-tables";
import { all, entitiesOf, equal, options, refused, test } from "./harness.js";

const row = (properties) => ({ partitionKey: "p", rowKey: "r", ...properties });

test("wrong_input.limits_of_an_entity", async ({ table }) => {
  const tooLarge =
    "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.";
  const many = (count, value) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${String(n).padStart(2, "0")}`, value]));
  for (const [properties, code, text] of [
    [
      many(253, 1),
      "TooManyProperties",
      "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.",
    ],
    [{ s: "x".repeat(32769) }, "PropertyValueTooLarge", tooLarge],
    [{ x: new Uint8Array(65537) }, "PropertyValueTooLarge", tooLarge],
    [many(31, "x".repeat(16910)), "EntityTooLarge", "The entity is larger than the maximum allowed size (1MB)."],
    [{ ["n".repeat(256)]: 1 }, "PropertyNameTooLong", "The property name exceeds the maximum allowed length (255)."],
    [{ "with-dash": 1 }, "PropertyNameInvalid", "The property name is invalid."],
  ]) {
    await refused(400, code, text, () => table.createEntity(row(properties)));
    await refused(400, code, text, () => table.upsertEntity(row(properties), "Replace"));
  }
  equal(await entitiesOf(table), []);
});

test("wrong_input.keys_are_needed", async ({ table }) => {
  const text = "The values are not specified for all properties in the entity.";
  await refused(400, "PropertiesNeedValue", text, () => table.createEntity({ partitionKey: "p" }));
  await refused(400, "PropertiesNeedValue", text, () => table.createEntity({ rowKey: "r" }));
});

test("wrong_input.values_that_do_not_fit_their_type", async ({ table }) => {
  const text = "An error occurred while processing this request.";
  for (const [type, value] of [
    ["Boolean", "not a bool"],
    ["Int32", 2 ** 31],
    ["Int64", "9223372036854775808"],
    ["Double", "x"],
    ["DateTime", "yesterday"],
    ["Guid", "not a guid"],
    ["Binary", "not base64!"],
  ]) {
    await refused(400, "InvalidInput", text, () => table.createEntity(row({ v: { type, value } })));
  }
  await refused(400, "OutOfRangeInput", undefined, () =>
    table.createEntity(row({ v: { type: "DateTime", value: "0001-01-01T00:00:00Z" } })),
  );
});

test("wrong_input.a_body_of_more_than_4_mib", async ({ table }) => {
  await refused(413, "RequestBodyTooLarge", undefined, () =>
    table.createEntity(row({ s: "x".repeat(4 * 2 ** 20) })),
  );
});

test("wrong_input.a_wrong_key_is_not_let_in", async ({ table }) => {
  const wrong = new AzureNamedKeyCredential("devstoreaccount1", "d3Jvbmcga2V5");
  const service = new TableServiceClient(table.url, wrong, options);
  await refused(
    403,
    "AuthenticationFailed",
    "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.",
    () => all(service.listTables()),
  );
});
