// Runs named cases against one server, prints one line for each, and counts.
//
// A case is `test("group.name", async ({ service, table, connection }) => ...)`; `table` is a
// client of a table made for this case and dropped after it. `queue_harness.js` has the same for queues.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { TableClient, TableServiceClient } from "@azure/data-tables";

const cases = [];

export function test(name, run, surround = withTable) {
  cases.push({ name, run: (connection) => surround(connection, run) });
}

export const equal = assert.deepStrictEqual;

// One attempt: a retry would hide an answer that should not have been given.
export const options = { allowInsecureConnection: true, retryOptions: { maxRetries: 0 } };

/** Runs the cases whose name contains one of `wanted`, all when there is none. */
export async function run(connection, wanted) {
  let passed = 0;
  let failed = 0;
  for (const { name, run } of cases) {
    if (wanted.length > 0 && !wanted.some((part) => name.includes(part))) continue;
    try {
      await run(connection);
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

async function withTable(connection, run) {
  const service = TableServiceClient.fromConnectionString(connection, options);
  const table = clientOf(connection, freshName());
  await table.createTable();
  try {
    await run({ connection, service, table });
  } finally {
    await table.deleteTable();
  }
}

export function clientOf(connection, name) {
  return TableClient.fromConnectionString(connection, name, options);
}

export function freshName(prefix = "T") {
  return prefix + randomUUID().replaceAll("-", "");
}

/**
 * The request must be refused with exactly this answer. `message` is the first line of the text;
 * the service adds request id and time (T-7.1).
 */
export async function refused(status, code, message, attempt) {
  const error = await refusal(status, code, attempt);
  const answer = error.details?.odataError ?? { code: error.code, message: { value: error.message } };
  equal([error.statusCode, answer.code], [status, code], error.message);
  const [first, id, time] = answer.message.value.split("\n");
  if (message !== undefined) equal(first, message);
  assert.match(id, /^RequestId:/);
  assert.match(time, /^Time:/);
}

/** What the client makes of the refusal that must come. */
export async function refusal(status, code, attempt) {
  try {
    await attempt();
  } catch (error) {
    return error;
  }
  return assert.fail(`accepted, where ${status} ${code} was due`);
}

/** The same for the operations that speak XML, of whose errors the client knows the status alone. */
export async function refusedXml(status, code, attempt) {
  const error = await refusal(status, code, attempt);
  const sent = error.response?.headers.get("x-ms-error-code");
  equal([error.statusCode, sent], [status, code], error.message);
}

/** The parts of a connection string by name. */
export function settingsOf(connection) {
  return Object.fromEntries(
    connection.split(";").filter(Boolean).map((part) => {
      const at = part.indexOf("=");
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
}

/** An entity without what the service adds. */
export function plain({ etag, timestamp, "odata.metadata": metadata, ...rest }) {
  return rest;
}

export async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

export async function entitiesOf(table, queryOptions = {}) {
  return (await all(table.listEntities({ queryOptions }))).map(plain);
}

/** The row keys that a filter finds, in order, as one text. */
export async function rowsOf(table, filter) {
  const found = await all(table.listEntities({ queryOptions: { filter } }));
  return found.map((entity) => entity.rowKey).join(" ");
}
