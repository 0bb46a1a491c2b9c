// What the cases of tables and queues share.

"use strict";

const assert = require("node:assert/strict");
const { randomUUID } = require("node:crypto");
const { promisify } = require("node:util");

const equal = assert.deepStrictEqual;
const freshName = (prefix = "T") => prefix + randomUUID().replaceAll("-", "");

/** A service of the library with promises in place of callbacks. */
function promised(service) {
  return new Proxy(service, {
    get: (target, name) => promisify(target[name].bind(target)),
  });
}

async function refused(status, code, message, attempt) {
  let error;
  try {
    await attempt();
  } catch (caught) {
    error = caught;
  }
  assert.ok(error, `accepted, where ${status} ${code} was due`);
  equal([error.statusCode, error.code], [status, code], error.message);
  if (message) assert.ok(error.message.startsWith(message), error.message);
}

module.exports = { equal, freshName, promised, refused };
