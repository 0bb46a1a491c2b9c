// Create, list, filter, page and delete tables.

import { odata } from "@azure/data-tables";
import { all, clientOf, entitiesOf, equal, freshName, refused, test } from "./harness.js";

const names = async (iterator) => (await all(iterator)).map((item) => item.name);

async function createEach(service, list) {
  for (const name of list) await service.createTable(name);
}

async function deleteEach(service, list) {
  for (const name of list) await service.deleteTable(name);
}

test("tables.create_of_existing_table_is_conflict", async ({ service, table }) => {
  // The SDK takes TableAlreadyExists for success; the answer itself is seen in onResponse.
  let seen;
  const onResponse = ({ status, parsedBody }) => (seen = [status, parsedBody?.odataError?.code]);
  await service.createTable(table.tableName, { onResponse });
  equal(seen, [409, "TableAlreadyExists"]);
});

test("tables.names_that_differ_only_in_case_are_one_table", async ({ connection, table }) => {
  const shouted = clientOf(connection, table.tableName.toUpperCase());
  await shouted.createEntity({ partitionKey: "p", rowKey: "r", n: 1 });
  equal((await table.getEntity("p", "r")).n, 1);
});

test("tables.listed_by_lower_case_name_in_the_case_given", async ({ service }) => {
  const stem = freshName("List");
  const list = [`${stem}b`, `${stem}A`, `${stem}C`];
  await createEach(service, list);
  const listed = (await names(service.listTables())).filter((name) => name.startsWith(stem));
  equal(listed, [`${stem}A`, `${stem}b`, `${stem}C`]);
  await deleteEach(service, list);
});

test("tables.filtered_by_name", async ({ service }) => {
  const stem = freshName("Filter");
  const list = ["a", "b", "c", "d"].map((letter) => stem + letter);
  await createEach(service, list);
  const found = async (filter) => {
    const listed = await names(service.listTables({ queryOptions: { filter } }));
    return listed.filter((name) => name.startsWith(stem)).map((name) => name.at(-1)).join("");
  };
  equal(await found(odata`TableName eq ${`${stem}b`}`), "b");
  equal(await found(odata`TableName ge ${`${stem}b`} and TableName lt ${`${stem}d`}`), "bc");
  equal(await found(`TableName ge '${stem}' and TableName lt '${stem}{'`), "abcd");
  equal(await found(`TableName eq '${stem}a' or TableName eq '${stem}d'`), "ad");
  equal(await found(`TableName eq '${stem}z'`), "");
  await deleteEach(service, list);
});

test("tables.paged_and_resumed", async ({ service }) => {
  const stem = freshName("Page");
  const list = [0, 1, 2, 3, 4, 5, 6].map((number) => `${stem}${number}`);
  await createEach(service, list);
  const filter = `TableName ge '${stem}' and TableName lt '${stem}{'`;
  const pages = service.listTables({ queryOptions: { filter } }).byPage({ maxPageSize: 3 });
  const first = (await pages.next()).value;
  equal(first.map((item) => item.name), list.slice(0, 3));
  const again = service.listTables({ queryOptions: { filter } });
  const rest = await all(
    again.byPage({ maxPageSize: 3, continuationToken: first.continuationToken }),
  );
  equal(rest.map((page) => page.map((item) => item.name)), [list.slice(3, 6), list.slice(6)]);
  await deleteEach(service, list);
});

test("tables.a_deleted_table_is_gone_and_its_name_is_free", async ({ connection, service }) => {
  const name = freshName();
  await service.createTable(name);
  const table = clientOf(connection, name);
  await table.createEntity({ partitionKey: "p", rowKey: "r" });
  await service.deleteTable(name);
  equal(await names(service.listTables({ queryOptions: { filter: `TableName eq '${name}'` } })), []);
  await refused(404, "TableNotFound", "The table specified does not exist.", () => entitiesOf(table));
  const seen = [];
  await service.deleteTable(name, { onResponse: (response) => seen.push(response.status) });
  equal(seen, [404]);
  await service.createTable(name);
  equal(await entitiesOf(table), []);
  await service.deleteTable(name);
});

test("tables.invalid_names_are_refused", async ({ service }) => {
  const characters = "The specifed resource name contains invalid characters.";
  const length = "The specified resource name length is not within the permissible limits.";
  for (const [name, code, text] of [
    ["my_table", "InvalidResourceName", characters],
    ["1table", "InvalidResourceName", characters],
    ["aa", "OutOfRangeInput", length],
    ["a".repeat(64), "OutOfRangeInput", length],
  ]) {
    await refused(400, code, text, () => service.createTable(name));
  }
});
