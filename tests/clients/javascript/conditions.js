// If-Match in every form, on every operation that takes it.

import { entitiesOf, equal, plain, refused, test } from "./harness.js";

const KEYS = { partitionKey: "p", rowKey: "r" };
const NOT_MET = "The update condition specified in the request was not satisfied.";
const FOREIGN = "The condition specified using HTTP conditional header(s) is not met.";
const MISSING = "The specified resource does not exist.";

const writes = (table) => ({
  merge: (when) => table.updateEntity({ ...KEYS, b: 2 }, "Merge", when),
  replace: (when) => table.updateEntity({ ...KEYS, b: 2 }, "Replace", when),
  delete: (when) => table.deleteEntity("p", "r", when),
});

test("conditions.a_matching_etag_lets_the_write_through", async ({ table }) => {
  const expected = { merge: [{ ...KEYS, a: 1, b: 2 }], replace: [{ ...KEYS, b: 2 }], delete: [] };
  for (const [name, write] of Object.entries(writes(table))) {
    const { etag } = await table.upsertEntity({ ...KEYS, a: 1 }, "Replace");
    await write({ etag });
    equal(await entitiesOf(table), expected[name], name);
  }
});

test("conditions.a_stale_or_foreign_etag_stops_the_write", async ({ table }) => {
  const { etag } = await table.createEntity({ ...KEYS, a: 1 });
  await table.upsertEntity({ ...KEYS, a: 2 });
  for (const write of Object.values(writes(table))) {
    await refused(412, "UpdateConditionNotSatisfied", NOT_MET, () => write({ etag }));
    await refused(412, "ConditionNotMet", FOREIGN, () => write({ etag: 'W/"wrong"' }));
  }
  equal(plain(await table.getEntity("p", "r")), { ...KEYS, a: 2 });
});

test("conditions.a_malformed_etag_is_invalid_input", async ({ table }) => {
  await table.createEntity(KEYS);
  for (const etag of ["wrong", '"strong"']) {
    for (const write of Object.values(writes(table))) {
      await refused(
        400,
        "InvalidInput",
        `The etag value '${etag}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.`,
        () => write({ etag }),
      );
    }
  }
});

test("conditions.a_missing_entity_is_not_found", async ({ table }) => {
  const { etag } = await table.createEntity(KEYS);
  await table.deleteEntity("p", "r");
  for (const write of Object.values(writes(table))) {
    await refused(404, "ResourceNotFound", MISSING, () => write({ etag: "*" }));
    await refused(404, "ResourceNotFound", MISSING, () => write({ etag }));
  }
});

test("conditions.racing_increments_lose_none", async ({ table }) => {
  await table.createEntity({ ...KEYS, n: 0 });
  const [writers, increments] = [8, 12];
  const increment = async () => {
    for (;;) {
      const { n, etag } = await table.getEntity("p", "r");
      try {
        await table.updateEntity({ ...KEYS, n: n + 1 }, "Replace", { etag });
        return;
      } catch (error) {
        if (error.statusCode !== 412) throw error;
      }
    }
  };
  const writer = async () => {
    for (let done = 0; done < increments; done += 1) await increment();
  };
  await Promise.all(Array.from({ length: writers }, writer));
  equal((await table.getEntity("p", "r")).n, writers * increments);
});
