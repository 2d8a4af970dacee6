import assert from "node:assert/strict";
import { test } from "node:test";

import { coverageWords } from "../../../api/dashboard/page/lib/coverage.js";

test("a complete answer names its slot and since when", () => {
  const told = coverageWords({ as_of_slot: 5003, coverage: { is_complete: true, reason: null, since_slot: 4000 } });
  assert.equal(told.isComplete, true);
  assert.match(told.words, /as of slot 5,003\. Followed since slot 4,000\.$/);
});

test("an incomplete one says why", () => {
  const told = coverageWords({ as_of_slot: 7, coverage: { is_complete: false, reason: "not_ingested", since_slot: null } });
  assert.equal(told.isComplete, false);
  assert.match(told.words, /slot 7: .* No accounts are taken in here\.$/);
});

test("a reason that this page does not know leaves the rest", () => {
  const told = coverageWords({ as_of_slot: 7, coverage: { is_complete: false, reason: "new", since_slot: null } });
  assert.match(told.words, /is not here\.$/);
});
