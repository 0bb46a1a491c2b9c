// Every property type with the ends of its range, through insert, merge, batch and query.

import { entitiesOf, equal, plain, test } from "./harness.js";

/** Writes the values three ways and reads each back; `expected` when it differs from `values`. */
async function check(table, values, expected = values) {
  const keys = Object.keys(values);
  const properties = { ...values };
  await table.createEntity({ partitionKey: "p", rowKey: "insert", ...properties });
  await table.upsertEntity({ partitionKey: "p", rowKey: "merge", ...properties }, "Merge");
  await table.submitTransaction([["create", { partitionKey: "p", rowKey: "batch", ...properties }]]);
  const entities = [await table.getEntity("p", "insert"), ...(await entitiesOf(table))];
  for (const entity of entities) {
    const got = Object.fromEntries(keys.map((key) => [key, entity[key]]));
    equal(got, expected, entity.rowKey);
  }
}

const named = (values) => Object.fromEntries(values.map((value, number) => [`v${number}`, value]));

test("property_types.strings", ({ table }) =>
  check(
    table,
    named([
      "",
      " ",
      "  both ends  ",
      "it's \"quoted\" \\ back/slash",
      "tab\tline\nreturn\r\x01\x1f\x7f",
      "ä ñ ß 日本語 \u2028 \ufeff",
      "😀👩‍👩‍👧\u{10ffff}",
      "2020-01-01T00:00:00Z",
      "true",
      "x".repeat(32768),
      "😀".repeat(16384),
    ]),
  ));

test("property_types.booleans", ({ table }) => check(table, { yes: true, no: false }));

test("property_types.int32", ({ table }) => check(table, named([0, 1, -1, 2 ** 31 - 1, -(2 ** 31)])));

test("property_types.int64", ({ table }) =>
  check(table, named([0n, 1n, -1n, 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)])));

test("property_types.doubles", async ({ table }) => {
  await check(
    table,
    named([0.5, -1.5, 0.1, 1 / 3, 123456789012345.12, 1.23456789012346e24, 5e-324, 1.7976931348623157e308]),
  );
  const special = ["NaN", "Infinity", "-Infinity"];
  const doubles = Object.fromEntries(special.map((value, n) => [`d${n}`, { type: "Double", value }]));
  await table.createEntity({ partitionKey: "q", rowKey: "r", ...doubles, five: { type: "Double", value: 5 } });
  const read = await table.getEntity("q", "r");
  equal([read.d0, read.d1, read.d2, read.five], [...special, 5]);
});

test("property_types.a_whole_double_stays_a_double", async ({ table }) => {
  await table.createEntity({ partitionKey: "p", rowKey: "r", d: { type: "Double", value: 5 } });
  let text;
  await table.getEntity("p", "r", { onResponse: (response) => (text = response.bodyAsText) });
  equal(/"d":5\.0[,}]/.test(text), true, text);
});

test("property_types.datetimes", async ({ table }) => {
  const texts = [
    "1601-01-01T00:00:00Z",
    "1970-01-01T00:00:00Z",
    "2022-05-06T00:40:27.6737512Z",
    "9999-12-31T23:59:59.9999999Z",
  ];
  const times = Object.fromEntries(texts.map((value, n) => [`t${n}`, { type: "DateTime", value }]));
  await check(table, { date: new Date("2020-01-02T03:04:05.678Z"), epoch: new Date(0) });
  await table.createEntity({ partitionKey: "q", rowKey: "r", ...times });
  const read = await table.getEntity("q", "r", { disableTypeConversion: true });
  equal(texts.map((_, n) => read[`t${n}`]), Object.values(times));
});

test("property_types.guids_and_binaries", ({ table }) =>
  check(table, {
    zero: { type: "Guid", value: "00000000-0000-0000-0000-000000000000" },
    guid: { type: "Guid", value: "c9da6455-213d-42c9-9a79-3e9149a57833" },
    bytes: Buffer.from(Array.from({ length: 256 }, (_, n) => n)),
    empty: Buffer.from([]),
    big: Buffer.alloc(65536, "x"),
  }));

test("property_types.the_widest_entity", async ({ table }) => {
  const properties = Object.fromEntries(Array.from({ length: 252 }, (_, n) => [`p${n}`, n]));
  const entity = { partitionKey: "p", rowKey: "r", ...properties };
  await table.createEntity(entity);
  equal(plain(await table.getEntity("p", "r")), entity);
});
