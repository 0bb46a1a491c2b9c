// Entity group transactions: every kind of operation, atomicity, and the index of what failed.

import { clientOf, entitiesOf, equal, refused, test } from "./harness.js";

const row = (rowKey, properties = {}) => ({ partitionKey: "p", rowKey, ...properties });

test("transactions.every_kind_of_operation_in_one", async ({ table }) => {
  for (const key of ["merge", "replace", "delete", "upmerge", "upreplace"]) {
    await table.createEntity(row(key, { a: 1 }));
  }
  const result = await table.submitTransaction([
    ["create", row("create", { n: "new" })],
    ["update", row("merge", { b: 2 }), "Merge"],
    ["update", row("replace", { b: 2 }), "Replace"],
    ["upsert", row("upmerge", { b: 2 }), "Merge"],
    ["upsert", row("upreplace", { b: 2 }), "Replace"],
    ["upsert", row("upcreate1", { b: 2 }), "Merge"],
    ["upsert", row("upcreate2", { b: 2 }), "Replace"],
    ["delete", row("delete")],
  ]);
  equal(result.status, 202);
  equal(result.subResponses.map((part) => part.status), Array(8).fill(204));
  equal(result.subResponses[0].rowKey, "create");
  for (const [index, key] of [[0, "create"], [1, "merge"], [4, "upreplace"], [6, "upcreate2"]]) {
    equal(result.subResponses[index].etag, (await table.getEntity("p", key)).etag, key);
  }
  equal(await entitiesOf(table), [
    row("create", { n: "new" }),
    row("merge", { a: 1, b: 2 }),
    row("replace", { b: 2 }),
    row("upcreate1", { b: 2 }),
    row("upcreate2", { b: 2 }),
    row("upmerge", { a: 1, b: 2 }),
    row("upreplace", { b: 2 }),
  ]);
});

test("transactions.a_hundred_operations_are_the_most", async ({ table }) => {
  const creates = (count, prefix) =>
    Array.from({ length: count }, (_, number) => ["create", row(`${prefix}${number}`)]);
  const result = await table.submitTransaction(creates(100, "a"));
  equal(result.subResponses.length, 100);
  await refused(
    400,
    "InvalidInput",
    "99:The batch request operation exceeds the maximum 100 changes per change set.",
    () => table.submitTransaction(creates(101, "b")),
  );
  equal((await entitiesOf(table)).length, 100);
});

test("transactions.a_failure_undoes_all_and_names_its_index", async ({ table }) => {
  await table.createEntity(row("old", { a: 1 }));
  const { etag } = await table.getEntity("p", "old");
  await refused(409, "EntityAlreadyExists", "2:The specified entity already exists.", () =>
    table.submitTransaction([
      ["create", row("0")],
      ["upsert", row("1")],
      ["create", row("old")],
    ]),
  );
  await refused(404, "ResourceNotFound", "1:The specified resource does not exist.", () =>
    table.submitTransaction([
      ["update", row("old", { a: 2 }), "Replace"],
      ["update", row("missing"), "Merge"],
    ]),
  );
  await refused(404, "ResourceNotFound", "1:The specified resource does not exist.", () =>
    table.submitTransaction([
      ["delete", row("old")],
      ["delete", row("missing")],
    ]),
  );
  equal(await entitiesOf(table), [row("old", { a: 1 })]);
  equal((await table.getEntity("p", "old")).etag, etag);
});

test("transactions.a_stale_etag_fails_its_operation", async ({ table }) => {
  const { etag } = await table.createEntity(row("a", { n: 1 }));
  await table.upsertEntity(row("a", { n: 2 }));
  await refused(
    412,
    "UpdateConditionNotSatisfied",
    "1:The update condition specified in the request was not satisfied.",
    () =>
      table.submitTransaction([
        ["create", row("b")],
        ["update", row("a", { n: 3 }), "Replace", { etag }],
      ]),
  );
  equal(await entitiesOf(table), [row("a", { n: 2 })]);
});

test("transactions.the_same_row_twice_is_refused", async ({ table }) => {
  await refused(
    400,
    "InvalidDuplicateRow",
    "2:The batch request contains multiple changes with same row key. An entity can appear only once in a batch request.",
    () =>
      table.submitTransaction([
        ["upsert", row("a")],
        ["upsert", row("b")],
        ["upsert", row("a")],
      ]),
  );
  equal(await entitiesOf(table), []);
});

test("transactions.a_missing_table_fails_the_first_operation", async ({ connection }) => {
  const table = clientOf(connection, "Nosuchtable");
  await refused(404, "TableNotFound", "0:The table specified does not exist.", () =>
    table.submitTransaction([["create", row("a")]]),
  );
});

test("transactions.a_body_of_more_than_4_mib_is_refused", async ({ table }) => {
  const big = Object.fromEntries(Array.from({ length: 15 }, (_, n) => [`p${n}`, "x".repeat(30000)]));
  const creates = Array.from({ length: 10 }, (_, number) => ["create", row(`${number}`, big)]);
  await refused(
    413,
    "RequestBodyTooLarge",
    "The request body is too large and exceeds the maximum permissible limit.",
    () => table.submitTransaction(creates),
  );
  equal(await entitiesOf(table, { select: ["rowKey"] }), []);
});

test("transactions.keys_keep_every_character", async ({ table }) => {
  const keys = ["o'clock", "100%", "a b", "a+b", "ô", "日本", "😀", ""];
  const partitionKey = "p'% +😀";
  await table.submitTransaction(keys.map((rowKey) => ["create", { partitionKey, rowKey }]));
  await table.submitTransaction(keys.map((rowKey) => ["update", { partitionKey, rowKey, v: rowKey }, "Merge"]));
  const found = Object.fromEntries((await entitiesOf(table)).map((entity) => [entity.rowKey, entity.v]));
  equal(found, Object.fromEntries(keys.map((key) => [key, key])));
  await table.submitTransaction(keys.map((rowKey) => ["delete", { partitionKey, rowKey }]));
  equal(await entitiesOf(table), []);
});
