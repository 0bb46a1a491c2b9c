// Thousands of entities over several partitions, page by page.

import assert from "node:assert/strict";
import { all, clientOf, equal, test } from "./harness.js";

const PARTITIONS = ["", "a", "b'c", "ô", "日本", "😀", "\uff5e"];
const PER_PARTITION = 500;

const rowKey = (number) => String(number).padStart(5, "0");
const keyOf = (entity) => `${entity.partitionKey}/${entity.rowKey}`;

function expected(keep = () => true) {
  const numbers = Array.from({ length: PER_PARTITION }, (_, number) => number).filter(keep);
  const order = [...PARTITIONS].sort((a, b) => (a < b ? -1 : 1));
  return order.flatMap((partition) => numbers.map((number) => `${partition}/${rowKey(number)}`));
}

async function fill(table) {
  for (const partitionKey of PARTITIONS) {
    for (let start = 0; start < PER_PARTITION; start += 100) {
      const numbers = Array.from({ length: 100 }, (_, offset) => start + offset);
      await table.submitTransaction(
        numbers.map((n) => ["create", { partitionKey, rowKey: rowKey(n), n, even: n % 2 === 0 }]),
      );
    }
  }
}

test("paging.every_entity_comes_once_and_in_order", async ({ connection, table }) => {
  await fill(table);
  equal((await all(table.listEntities())).map(keyOf), expected());

  const small = await all(table.listEntities().byPage({ maxPageSize: 9 }));
  equal(small.flat().map(keyOf), expected());
  equal(new Set(small.slice(0, -1).map((page) => page.length)), new Set([9]));

  const half = table.listEntities({ queryOptions: { filter: "even eq true" } });
  equal((await all(half.byPage({ maxPageSize: 250 }))).flat().map(keyOf), expected((n) => n % 2 === 0));

  const pages = table.listEntities().byPage({ maxPageSize: 501 });
  const first = (await pages.next()).value;
  assert.ok(first.continuationToken);
  const other = clientOf(connection, table.tableName).listEntities();
  const rest = await all(
    other.byPage({ maxPageSize: 501, continuationToken: first.continuationToken }),
  );
  equal([...first, ...rest.flat()].map(keyOf), expected());
});

test("paging.a_page_that_takes_all_carries_no_token", async ({ table }) => {
  for (const n of [0, 1, 2, 3]) await table.createEntity({ partitionKey: "p", rowKey: rowKey(n) });
  const pages = await all(table.listEntities().byPage({ maxPageSize: 4 }));
  equal(pages.map((page) => [page.length, page.continuationToken]), [[4, undefined]]);
});

test("paging.an_empty_table_is_one_empty_page", async ({ table }) => {
  const pages = await all(table.listEntities().byPage());
  equal(pages.map((page) => page.length), [0]);
});
