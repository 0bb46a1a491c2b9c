// Reads what the Rust client wrote into a table and writes the same as the official client does (CS-24).
//
// Run by the acceptance tests of the Rust client: interop.js <table>.

import assert from "node:assert/strict";
import { TableClient, odata } from "@azure/data-tables";

const ROWS = 100;

function everything(partition) {
  return {
    partitionKey: partition,
    rowKey: "everything",
    Text: "it's \u00e9 \u{1f680}",
    Flag: true,
    Small: -7,
    Big: { type: "Int64", value: String(2n ** 40n) },
    Ratio: 0.25,
    When: { type: "DateTime", value: "2014-08-22T00:50:32.1230000Z" },
    Id: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    Data: new Uint8Array([0, 1, 254, 255]),
  };
}

async function main() {
  const connection = process.env.LAZULI_CONNECTION_STRING;
  const table = TableClient.fromConnectionString(connection, process.argv[2], { allowInsecureConnection: true });
  const ours = await table.getEntity("ours", "everything");
  for (const [name, expected] of Object.entries(everything("ours"))) {
    const found = ours[name];
    if (name === "Big") assert.equal(found, 2n ** 40n, name);
    else if (name === "When") assert.equal(new Date(found).toISOString(), "2014-08-22T00:50:32.123Z", name);
    else if (name === "Id") assert.equal(found.value ?? found, expected.value, name);
    else if (name === "Data") assert.deepEqual([...found], [...expected], name);
    else assert.equal(found, expected, name);
  }

  // Pages, each by the token of the one before it.
  const sizes = [];
  const rows = [];
  let continuationToken;
  do {
    const filter = odata`PartitionKey eq ${"rows-of-ours"}`;
    const pages = table.listEntities({ queryOptions: { filter } }).byPage({ maxPageSize: 40, continuationToken });
    const { value: page } = await pages.next();
    sizes.push(page.length);
    rows.push(...page.map((row) => row.N));
    continuationToken = page.continuationToken;
  } while (continuationToken);
  assert.deepEqual(sizes, [40, 40, 20]);
  assert.deepEqual(rows, [...Array(ROWS).keys()]);

  await table.createEntity(everything("theirs"));
  const row = (number) => ({ partitionKey: "rows-of-theirs", rowKey: String(number).padStart(3, "0"), N: number });
  await table.submitTransaction([...Array(ROWS).keys()].map((number) => ["create", row(number)]));
}

await main();
