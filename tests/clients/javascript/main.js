// The newest @azure/data-tables and @azure/storage-queue through every operation of their services.
//
//   node main.js [connection string] [part of a case's name ...]
//
// Without a connection string LAZULI_CONNECTION_STRING is taken.

import { run } from "./harness.js";
import "./tables.js";
import "./entities.js";
import "./conditions.js";
import "./queries.js";
import "./paging.js";
import "./transactions.js";
import "./property_types.js";
import "./wrong_input.js";
import "./access.js";
import "./queues.js";
import "./messages.js";
import "./queue_access.js";

const parts = process.argv.slice(2);
const given = parts[0]?.includes("AccountName=") ? parts.shift() : undefined;
const connection = given ?? process.env.LAZULI_CONNECTION_STRING;
if (connection) {
  await run(connection, parts);
} else {
  console.error("no connection string: give one, or set LAZULI_CONNECTION_STRING");
  process.exitCode = 2;
}
