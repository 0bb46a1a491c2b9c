// azure-storage 2.10.7, the SDK before those of today, through every operation of tables and queues.
//
//   node main.js [connection string] [part of a case's name ...]
//
// It speaks an older dialect: service version 2018-03-28, the MERGE verb, its own batch bodies.

"use strict";

const assert = require("node:assert/strict");
const azure = require("azure-storage");
const { equal, freshName, promised, refused } = require("./harness.js");
const queues = require("./queues.js");

const { TableBatch, TableQuery } = azure;
const { entityGenerator } = azure.TableUtilities;
const KEYS = ["plain", "with space", "o'clock", "100%", "a+b", "a,b", "a:b@c=d&e$f~g", "ô", "日本語", "😀"];

/** An entity in the library's own form; strings need no type. */
function row(rowKey, properties = {}) {
  const typed = Object.entries({ PartitionKey: "p", RowKey: rowKey, ...properties });
  return Object.fromEntries(typed.map(([name, value]) => [name, { _: value }]));
}

/** What an entity holds, without types and what the service adds. */
function plain(entity) {
  const data = Object.entries(entity).filter(([name]) => ![".metadata", "Timestamp"].includes(name));
  return Object.fromEntries(data.map(([name, value]) => [name, value._]));
}

async function contents(service, table, query = null) {
  return (await service.queryEntities(table, query, null)).entries.map(plain);
}

const cases = {
  async tables_are_created_listed_and_deleted({ service }) {
    const stem = freshName("Legacy");
    const names = [0, 1, 2, 3, 4].map((number) => stem + number);
    for (const name of names) await service.createTable(name);
    await refused(409, "TableAlreadyExists", "The table specified already exists.", () =>
      service.createTable(names[0]),
    );
    equal((await service.createTableIfNotExists(names[0])).created, false);
    const listed = [];
    let token = null;
    do {
      const page = await service.listTablesSegmentedWithPrefix(stem, token, { maxResults: 2 });
      listed.push(...page.entries);
      token = page.continuationToken;
    } while (token);
    equal(listed, names);
    for (const name of names) await service.deleteTable(name);
    equal((await service.doesTableExist(names[0])).exists, false);
    equal(await service.deleteTableIfExists(names[0]), false);
    await refused(404, "ResourceNotFound", undefined, () => service.deleteTable(names[0]));
  },

  async an_entity_is_inserted_read_and_deleted({ service, table }) {
    const written = await service.insertEntity(table, row("r", { name: "x", ok: true, n: 5 }));
    const read = await service.retrieveEntity(table, "p", "r");
    equal(plain(read), { PartitionKey: "p", RowKey: "r", name: "x", ok: true, n: 5 });
    equal(read[".metadata"].etag, written[".metadata"].etag);
    await refused(409, "EntityAlreadyExists", "The specified entity already exists.", () =>
      service.insertEntity(table, row("r")),
    );
    const echoed = await service.insertEntity(table, row("echo", { a: "1" }), { echoContent: true });
    equal(plain(echoed), { PartitionKey: "p", RowKey: "echo", a: "1" });
    await service.deleteEntity(table, row("r"));
    await refused(404, "ResourceNotFound", undefined, () => service.retrieveEntity(table, "p", "r"));
  },

  async entities_are_replaced_merged_and_upserted({ service, table }) {
    const stored = async () => {
      const { PartitionKey, RowKey, ...rest } = plain(await service.retrieveEntity(table, "p", "r"));
      return rest;
    };
    await service.insertEntity(table, row("r", { a: "1", b: "2" }));
    await service.mergeEntity(table, row("r", { b: "3", c: "4" }));
    equal(await stored(), { a: "1", b: "3", c: "4" });
    await service.replaceEntity(table, row("r", { b: "5" }));
    equal(await stored(), { b: "5" });
    await service.insertOrMergeEntity(table, row("r", { a: "6" }));
    equal(await stored(), { a: "6", b: "5" });
    await service.insertOrReplaceEntity(table, row("r", { z: "7" }));
    equal(await stored(), { z: "7" });
    await service.insertOrMergeEntity(table, row("new1"));
    await service.insertOrReplaceEntity(table, row("new2"));
    equal((await contents(service, table)).length, 3);
  },

  async etags_are_honoured({ service, table }) {
    const first = await service.insertEntity(table, row("r", { a: "1" }));
    const stale = () => ({ ...row("r", { a: "3" }), ".metadata": { etag: first[".metadata"].etag } });
    await service.mergeEntity(table, stale());
    for (const operation of ["replaceEntity", "mergeEntity", "deleteEntity"]) {
      await refused(412, "UpdateConditionNotSatisfied", undefined, () =>
        service[operation](table, stale()),
      );
    }
    const read = await service.retrieveEntity(table, "p", "r");
    await service.deleteEntity(table, read);
    await refused(404, "ResourceNotFound", undefined, () => service.replaceEntity(table, row("r")));
  },

  async every_type_comes_back({ service, table }) {
    const guid = "c9da6455-213d-42c9-9a79-3e9149a57833";
    const time = new Date("2020-01-02T03:04:05.678Z");
    await service.insertEntity(table, {
      ...row("r"),
      s: entityGenerator.String("text 😀"),
      b: entityGenerator.Boolean(false),
      i: entityGenerator.Int32(-(2 ** 31)),
      l: entityGenerator.Int64("9223372036854775807"),
      d: entityGenerator.Double(3),
      t: entityGenerator.DateTime(time),
      g: entityGenerator.Guid(guid),
      x: entityGenerator.Binary(Buffer.from([0, 255])),
      nan: entityGenerator.Double("NaN"),
    });
    const read = await service.retrieveEntity(table, "p", "r");
    const typed = (name) => [read[name].$, read[name]._];
    equal(typed("l"), ["Edm.Int64", "9223372036854775807"]);
    equal(typed("t"), ["Edm.DateTime", time]);
    equal(typed("g"), ["Edm.Guid", guid]);
    equal(typed("x"), ["Edm.Binary", Buffer.from([0, 255])]);
    equal([read.s._, read.b._, read.i._, read.d._], ["text 😀", false, -(2 ** 31), 3]);
    assert.ok(Number.isNaN(Number(read.nan._)));
  },

  async metadata_levels_are_read({ service, table, account }) {
    await service.insertEntity(table, row("r", { n: 5 }));
    const { FULL_METADATA, MINIMAL_METADATA, NO_METADATA } = azure.TableUtilities.PayloadFormat;
    for (const payloadFormat of [FULL_METADATA, MINIMAL_METADATA, NO_METADATA]) {
      const read = await service.retrieveEntity(table, "p", "r", { payloadFormat });
      equal(plain(read), { PartitionKey: "p", RowKey: "r", n: 5 }, payloadFormat);
    }
    const full = await service.retrieveEntity(table, "p", "r", { payloadFormat: FULL_METADATA });
    equal(full[".metadata"].type, `${account}.${table}`);
  },

  async queries_filter_select_and_page({ service, table }) {
    const batch = new TableBatch();
    for (let n = 0; n < 100; n += 1) {
      batch.insertEntity({ ...row(String(n).padStart(3, "0")), n: entityGenerator.Int32(n) });
    }
    await service.executeBatch(table, batch);
    const range = new TableQuery().where("n ge ? and n lt ?", 10, 13);
    equal((await contents(service, table, range)).map((entity) => entity.RowKey), ["010", "011", "012"]);
    const one = new TableQuery().select("n", "nosuch").where("RowKey == ?", "005");
    equal((await contents(service, table, one)).map((entity) => entity.n), [5]);
    const seen = [];
    let token = null;
    do {
      const page = await service.queryEntities(table, new TableQuery().top(30), token);
      seen.push(...page.entries.map((entity) => entity.RowKey._));
      token = page.continuationToken;
    } while (token);
    equal(seen, Array.from({ length: 100 }, (_, n) => String(n).padStart(3, "0")));
    const wrong = new TableQuery().where("aaa bbb ccc");
    await refused(400, "InvalidInput", "Syntax error at position 7 in 'aaa bbb ccc'.", () =>
      service.queryEntities(table, wrong, null),
    );
  },

  async every_kind_of_operation_in_one_batch({ service, table }) {
    for (const key of ["merge", "replace", "delete", "upmerge"]) {
      await service.insertEntity(table, row(key, { a: "1" }));
    }
    const batch = new TableBatch();
    batch.insertEntity(row("create", { a: "1" }));
    batch.mergeEntity(row("merge", { b: "2" }));
    batch.replaceEntity(row("replace", { b: "2" }));
    batch.deleteEntity(row("delete"));
    batch.insertOrMergeEntity(row("upmerge", { b: "2" }));
    batch.insertOrReplaceEntity(row("upreplace", { b: "2" }));
    const results = await service.executeBatch(table, batch);
    equal(results.map((result) => result.response.statusCode), Array(6).fill(204));
    const stored = (await contents(service, table)).map(({ PartitionKey, ...rest }) => rest);
    equal(stored, [
      { RowKey: "create", a: "1" },
      { RowKey: "merge", a: "1", b: "2" },
      { RowKey: "replace", b: "2" },
      { RowKey: "upmerge", a: "1", b: "2" },
      { RowKey: "upreplace", b: "2" },
    ]);
  },

  async a_failed_batch_changes_nothing({ service, table }) {
    await service.insertEntity(table, row("old", { a: "1" }));
    const batch = new TableBatch();
    batch.insertEntity(row("new"));
    batch.insertEntity(row("old"));
    await refused(409, "EntityAlreadyExists", "1:The specified entity already exists.", () =>
      service.executeBatch(table, batch),
    );
    equal(await contents(service, table), [{ PartitionKey: "p", RowKey: "old", a: "1" }]);
  },

  async keys_keep_every_character({ service, table }) {
    for (const key of KEYS) {
      const entity = row(key, { PartitionKey: key, v: key });
      await service.insertEntity(table, entity);
      equal(plain(await service.retrieveEntity(table, key, key)), { PartitionKey: key, RowKey: key, v: key });
      await service.mergeEntity(table, entity);
      await service.deleteEntity(table, entity);
    }
    equal(await contents(service, table), []);
  },

  async keys_keep_every_character_in_batches({ service, table }) {
    for (const change of ["insertOrReplaceEntity", "mergeEntity", "deleteEntity"]) {
      const batch = new TableBatch();
      for (const key of KEYS) batch[change](row(key, { v: key }));
      await service.executeBatch(table, batch);
      const found = (await contents(service, table)).map((entity) => [entity.RowKey, entity.v]);
      const expected = change === "deleteEntity" ? [] : KEYS.map((key) => [key, key]);
      equal(new Map(found), new Map(expected), change);
    }
  },

  async missing_tables_are_not_found({ service }) {
    await refused(404, "TableNotFound", undefined, () => service.insertEntity("Nosuchtable", row("r")));
    await refused(404, "TableNotFound", undefined, () => contents(service, "Nosuchtable"));
  },
};

async function withTable(connection, run) {
  const service = promised(azure.createTableService(connection));
  const account = /AccountName=([^;]*)/.exec(connection)[1];
  const table = freshName();
  await service.createTable(table);
  try {
    await run({ service, table, account });
  } finally {
    await service.deleteTable(table);
  }
}

async function main() {
  const parts = process.argv.slice(2);
  const given = parts[0]?.includes("AccountName=") ? parts.shift() : undefined;
  const connection = given ?? process.env.LAZULI_CONNECTION_STRING;
  let [passed, failed] = [0, 0];
  const ofTables = Object.entries(cases).map(([name, run]) => [name, run, withTable]);
  const ofQueues = Object.entries(queues.cases).map(([name, run]) => [`queues.${name}`, run, queues.withQueue]);
  for (const [name, run, surround] of [...ofTables, ...ofQueues]) {
    if (parts.length > 0 && !parts.some((part) => name.includes(part))) continue;
    try {
      await surround(connection, run);
      passed += 1;
      console.log(`test ${name} ... ok`);
    } catch (error) {
      failed += 1;
      console.log(error.stack ?? String(error));
      console.log(`test ${name} ... FAILED`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
}

main();
