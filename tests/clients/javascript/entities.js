// Insert, read, replace, merge, upsert and delete single entities.

import assert from "node:assert/strict";
import { odata } from "@azure/data-tables";
import { clientOf, entitiesOf, equal, plain, refused, rowsOf, test } from "./harness.js";

// Every character that a key may hold and that some layer might mistake for its own (T-3.16).
const KEYS = [
  "plain",
  "",
  " ",
  "with space",
  "o'clock",
  "''",
  '"quoted"',
  "100%",
  "%20",
  "%27",
  "a+b",
  "a,b",
  "a:b@c=d&e$f~g",
  "(round) [square] {curly} <angle>",
  "semi;colon|pipe^caret`tick!bang*star",
  "ô-ñ-ß",
  "日本語",
  "emoji-😀-👩‍👩‍👧",
  "\ufffd\uff5e",
  "PartitionKey='x',RowKey='y'",
  "k".repeat(512),
];
const MISSING = "The specified resource does not exist.";

test("entities.what_is_inserted_is_read_back", async ({ table }) => {
  const entity = { partitionKey: "p", rowKey: "r", name: "x", age: 39, ok: true, ratio: 1.5 };
  const written = await table.createEntity(entity);
  const read = await table.getEntity("p", "r");
  equal(plain(read), entity);
  equal(read.etag, written.etag);
  equal(read.etag, `W/"datetime'${read.timestamp.replaceAll(":", "%3A")}'"`);
});

test("entities.insert_of_existing_entity_is_conflict", async ({ table }) => {
  await table.createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
  await refused(409, "EntityAlreadyExists", "The specified entity already exists.", () =>
    table.createEntity({ partitionKey: "p", rowKey: "r", n: 2 }),
  );
  equal((await table.getEntity("p", "r")).n, 1);
});

test("entities.read_of_missing_entity_is_not_found", async ({ table }) => {
  await table.createEntity({ partitionKey: "p", rowKey: "r" });
  for (const [partition, row] of [["p", "R"], ["P", "r"], ["", ""], ["p", "rr"]]) {
    await refused(404, "ResourceNotFound", MISSING, () => table.getEntity(partition, row));
  }
});

test("entities.operations_on_a_missing_table_are_not_found", async ({ connection }) => {
  const table = clientOf(connection, "Nosuchtable");
  const entity = { partitionKey: "p", rowKey: "r" };
  for (const attempt of [
    () => table.createEntity(entity),
    () => table.getEntity("p", "r"),
    () => entitiesOf(table),
    () => table.updateEntity(entity, "Merge"),
    () => table.updateEntity(entity, "Replace"),
    () => table.upsertEntity(entity, "Merge"),
    () => table.upsertEntity(entity, "Replace"),
    () => table.deleteEntity("p", "r"),
  ]) {
    await refused(404, "TableNotFound", "The table specified does not exist.", attempt);
  }
});

test("entities.a_read_can_select_properties", async ({ table }) => {
  await table.createEntity({ partitionKey: "p", rowKey: "r", a: 1, b: "two" });
  const read = async (select) => plain(await table.getEntity("p", "r", { queryOptions: { select } }));
  equal(await read(["a"]), { a: 1 });
  equal(await read(["rowKey", "b"]), { rowKey: "r", b: "two" });
  // T-4.44: a selected property that the entity lacks comes back as null.
  equal(await read(["a", "z"]), { a: 1, z: null });
});

test("entities.replace_drops_and_merge_keeps_what_is_left_out", async ({ table }) => {
  const keys = { partitionKey: "p", rowKey: "r" };
  await table.createEntity({ ...keys, a: 1, b: 2 });
  await table.updateEntity({ ...keys, b: 3, c: 4 }, "Merge");
  equal(plain(await table.getEntity("p", "r")), { ...keys, a: 1, b: 3, c: 4 });
  await table.updateEntity({ ...keys, c: "text" }, "Replace");
  equal(plain(await table.getEntity("p", "r")), { ...keys, c: "text" });
});

test("entities.upsert_creates_and_then_merges_or_replaces", async ({ table }) => {
  for (const [mode, expected] of [["Merge", { a: 1, b: 2 }], ["Replace", { b: 2 }]]) {
    const keys = { partitionKey: "p", rowKey: mode };
    const first = await table.upsertEntity({ ...keys, a: 1 }, mode);
    equal(plain(await table.getEntity("p", mode)), { ...keys, a: 1 });
    const second = await table.upsertEntity({ ...keys, b: 2 }, mode);
    const read = await table.getEntity("p", mode);
    equal(plain(read), { ...keys, ...expected });
    equal(read.etag, second.etag);
    assert.notEqual(first.etag, second.etag);
  }
});

test("entities.null_properties_are_not_stored_and_merge_leaves_them", async ({ table }) => {
  const keys = { partitionKey: "p", rowKey: "r" };
  await table.createEntity({ ...keys, a: 1, n: null });
  equal(plain(await table.getEntity("p", "r")), { ...keys, a: 1 });
  await table.updateEntity({ ...keys, a: null, b: 2 }, "Merge");
  equal(plain(await table.getEntity("p", "r")), { ...keys, a: 1, b: 2 });
});

test("entities.a_deleted_entity_is_gone", async ({ table }) => {
  await table.createEntity({ partitionKey: "p", rowKey: "r" });
  await table.deleteEntity("p", "r");
  await refused(404, "ResourceNotFound", MISSING, () => table.getEntity("p", "r"));
  await refused(404, "ResourceNotFound", MISSING, () => table.deleteEntity("p", "r"));
});

test("entities.keys_keep_every_character_through_every_operation", async ({ table }) => {
  for (const [number, key] of KEYS.entries()) {
    const keys = { partitionKey: key, rowKey: key };
    await table.createEntity({ ...keys, n: number });
    equal(plain(await table.getEntity(key, key)), { ...keys, n: number }, key);
    await table.updateEntity({ ...keys, m: 1 }, "Merge");
    await table.upsertEntity({ ...keys, k: "😀" }, "Merge");
    const filter = odata`PartitionKey eq ${key} and RowKey eq ${key}`;
    equal(await entitiesOf(table, { filter }), [{ ...keys, n: number, m: 1, k: "😀" }], key);
  }
  // Strings of JavaScript compare by UTF-16 code unit, as the service does (T-3.19).
  const order = [...KEYS].sort((a, b) => (a < b ? -1 : 1));
  equal((await entitiesOf(table)).map((entity) => entity.partitionKey), order);
  for (const key of KEYS) await table.deleteEntity(key, key);
  equal(await rowsOf(table), "");
});

test("entities.property_names_may_be_unicode", async ({ table }) => {
  const entity = { partitionKey: "p", rowKey: "r", Birthday: 1, birthday: 2, _under: 3, größe: 4, 名前: "x" };
  await table.createEntity(entity);
  equal(plain(await table.getEntity("p", "r")), entity);
});
