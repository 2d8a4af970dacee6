import assert from "node:assert/strict";
import { test } from "node:test";

import { coverageWords } from "../../../api/dashboard/page/lib/coverage.js";

test("a complete answer names its slot and since when", () => {
  const report = coverageWords({ as_of_slot: 5003, coverage: { is_complete: true, reason: null, since_slot: 4000 } });
  assert.equal(report.isComplete, true);
  assert.match(report.words, /as of slot 5,003\. Followed since slot 4,000\.$/);
});

test("an incomplete one says why", () => {
  const report = coverageWords({ as_of_slot: 7, coverage: { is_complete: false, reason: "not_ingested", since_slot: null } });
  assert.equal(report.isComplete, false);
  assert.match(report.words, /slot 7: .* No accounts are taken in here\.$/);
});

test("a reason that this page does not know leaves the rest", () => {
  const report = coverageWords({ as_of_slot: 7, coverage: { is_complete: false, reason: "new", since_slot: null } });
  assert.match(report.words, /is not here\.$/);
});
