import assert from "node:assert/strict";
import test from "node:test";

import { createLag } from "../../../api/dashboard/page/pages/system/pipeline.js";
import { elements } from "./page.mjs";

test("of every group of agents the page says what it keeps", () => {
  const lag = createLag();
  const group = { slot: 5, lag_slots: 2 };
  lag.show({ pipeline: { head_slot: 7, head_age_ms: 1, groups: { pnl: group, market: group, store: group, accounts: group } } });
  const rows = elements(lag.element).filter((node) => node.tag === "tbody").flatMap((body) => elements(body).filter((node) => node.tag === "tr"));
  assert.equal(rows.length, 4);
  for (const row of rows) assert.doesNotMatch(row.textContent, /–/);
});
