import assert from "node:assert/strict";
import test from "node:test";

import { createHolders } from "../../../api/dashboard/page/pages/token/people.js";
import "./page.mjs";

/** The head of the holders' card, for what the largest have of the supply. */
async function head(...shares) {
  const holders = shares.map((supply_pct, place) => ({ rank: place + 1, address: `W${place}`, balance: 5, supply_pct }));
  const answer = { creator: null, holders, holder_count: 5_000, coverage: { note: "" } };
  const panel = createHolders({ api: { get: async () => answer }, mint: "M" });
  await new Promise(setImmediate);
  panel.stop();
  return panel.head.textContent;
}

test("the head says how much the largest holders have together", async () => {
  assert.equal(await head(40, 2.5), "Holders5,000 in all; these 2 hold 42.5%");
  assert.equal(await head(0, 0), "Holders5,000 in all; these 2 hold 0%");
  assert.equal(await head(), "Holders");
});

test("a share of a supply that is not known is in no sum", async () => {
  assert.equal(await head(null, null), "Holders5,000 in all");
  assert.equal(await head(40, null), "Holders5,000 in all");
});
