// The gaps of an answer in words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { gapWords } from "../../../api/dashboard/page/lib/gaps.js";

const none = { missing_slots: 0, lost_slots: 0, rolled_back_slots: 0 };

test("no gap needs no words", () => {
  assert.deepEqual(gapWords(null), []);
});

test("each kind of gap is a sentence with its count", () => {
  assert.deepEqual(gapWords({ ...none, missing_slots: 1_234 }), [
    "Slots of the tape that are missing: 1,234. Figures may lack trades in them.",
  ]);
  assert.match(gapWords({ ...none, lost_slots: 2 }).join(), /^Slots that were lost .*: 2\./);
  assert.match(gapWords({ ...none, rolled_back_slots: 3 }).join(), /rolled back .*: 3\./);
  assert.equal(gapWords({ missing_slots: 1, lost_slots: 1, rolled_back_slots: 1 }).length, 3);
});

test("what is left out is counted", () => {
  assert.match(gapWords({ ...none, quarantined: 2 }).join(), /^Wallets or tokens that are left out.*: 2\.$/);
});

test("what is not known is said to be so", () => {
  const unknown = { missing_slots: null, lost_slots: null, rolled_back_slots: null };
  assert.match(gapWords(unknown).join(), /^Whether slots of the tape are missing is not known/);
  assert.match(gapWords({ ...none, rolled_back_slots: null }).join(), /^Whether slots .* were rolled back is not known/);
});
