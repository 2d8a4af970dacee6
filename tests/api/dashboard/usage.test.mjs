import assert from "node:assert/strict";
import test from "node:test";

import { byPath, requestsOf } from "../../../api/dashboard/page/lib/usage.js";

const DAYS = [
  { day: "2026-11-24", paths: { "/api/usage": 2, other: 1 } },
  { day: "2026-11-25", paths: { "/api/usage": 5, "/mcp": 3 } },
];

test("a day's requests are those of all paths", () => {
  assert.deepEqual(DAYS.map(requestsOf), [3, 8]);
  assert.equal(requestsOf({ day: "2026-11-25", paths: {} }), 0);
});

test("paths are summed over days, and today is the last", () => {
  assert.deepEqual(byPath(DAYS), [
    { path: "/api/usage", requests: 7, today: 5 },
    { path: "other", requests: 1, today: 0 },
    { path: "/mcp", requests: 3, today: 3 },
  ]);
  assert.deepEqual(byPath([]), []);
});

test("a path may have the name of anything", () => {
  const paths = JSON.parse('{"__proto__": 1, "constructor": 2}');
  assert.equal(requestsOf({ paths }), 3);
  assert.equal(byPath([{ paths }]).length, 2);
});
