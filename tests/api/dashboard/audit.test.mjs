import assert from "node:assert/strict";
import test from "node:test";

import { audit, sum } from "../../../api/dashboard/page/lib/audit.js";

const position = {
  held_raw: "9007199254740993",
  held_cost_usd_micros: "30",
  realized_usd_micros: "-5",
  realized_lamports: null,
};
const lots = [
  { quantity_raw: "9007199254740992", cost_usd_micros: "30" },
  { quantity_raw: "1", cost_usd_micros: null },
];
const matches = [
  { realized_usd_micros: "-8", realized_lamports: null },
  { realized_usd_micros: "3", realized_lamports: null },
];

test("integers beyond what numbers hold are summed exactly", () => {
  assert.equal(sum(["9007199254740993", null, "-1"]), 9007199254740992n);
});

test("lots that add up are found to", () => {
  assert.ok(audit(position, lots, matches).every((line) => line.isEqual));
});

test("one unit too much or too little is seen", () => {
  const one = audit({ ...position, held_raw: "9007199254740992" }, lots, matches);
  assert.deepEqual(one.map((line) => line.isEqual), [false, true, true, true]);
  const other = audit(position, lots, matches.slice(1));
  assert.deepEqual(other.map((line) => line.isEqual), [true, true, false, true]);
  assert.deepEqual([other[2].stated, other[2].found], [-5n, 3n]);
});
