import assert from "node:assert/strict";
import { test } from "node:test";

import { amountWords, completenessWords, healthWords, lockWords, rangeWords } from "../../../api/dashboard/page/lib/protocol_words.js";

const health = (factor, atRisk) => ({ health_factor: factor, at_risk: atRisk, ltv: 0.5, liquidation_ltv: 0.7, prices: "protocol" });

test("health is coloured by how near liquidation is", () => {
  assert.equal(healthWords(null), null);
  assert.deepEqual(healthWords(health(2.004, false)), { text: "health 2.00", tone: "good" });
  assert.equal(healthWords(health(1.1, false)).tone, "warn");
  assert.deepEqual(healthWords(health(0.99, true)), { text: "health 0.99, may be liquidated", tone: "bad" });
});

test("no debt and what is not known are no good health", () => {
  assert.deepEqual(healthWords({ ...health(null, null), ltv: 0 }), { text: "no debt", tone: "" });
  assert.equal(healthWords({ ...health(null, null), ltv: null }).text, "health not known");
});

const range = { lower_index: -10, upper_index: 30, current_index: 0, lower: 1, upper: 3, current: 2.5, is_in_range: true };

test("a range has a bar by its ticks, else by its prices", () => {
  assert.equal(rangeWords(null), null);
  assert.deepEqual(rangeWords(range), { text: "in range", tone: "good", share: 0.25, prices: "1.000 to 3.000, now 2.500" });
  assert.equal(rangeWords({ ...range, current_index: null }).share, 0.75);
  assert.equal(rangeWords({ ...range, current_index: 99, is_in_range: false }).share, 1);
  assert.equal(rangeWords({ ...range, is_in_range: false }).tone, "warn");
});

test("a range over all prices has no bar", () => {
  const open = { ...range, lower_index: null, upper_index: null, current_index: null, lower: null, upper: null };
  assert.equal(rangeWords(open).share, null);
  assert.match(rangeWords(open).prices, /^any to any/);
  assert.equal(rangeWords({ ...open, current: null, is_in_range: null }).text, "range not known");
});

test("locks say until when", () => {
  assert.equal(lockWords({ kind: "permanent", ends_ms: null, ends_slot: null }), "locked for ever");
  assert.match(lockWords({ kind: "vesting", ends_ms: 1_790_000_000_000, ends_slot: null }), /^vesting until .+/);
  assert.equal(lockWords({ kind: "cooldown", ends_ms: null, ends_slot: 5000 }), "cooldown until slot 5,000");
  assert.equal(lockWords({ kind: "term", ends_ms: null, ends_slot: null }), "term");
});

test("an amount that is not known is not 0", () => {
  assert.equal(amountWords({ amount: null, amount_raw: null }), "?");
  assert.equal(amountWords({ amount: null, amount_raw: "7" }), "7 raw");
});

const answer = { as_of_slot: 5000, is_complete: true, errors: [], pending: [], unpriced: 0, coverage: { known_accounts: 3, read_accounts: 3 } };

test("what is missing is said", () => {
  assert.deepEqual(completenessWords(answer), { text: "complete", tone: "good", words: "As of slot 5,000." });
  const failed = completenessWords({ ...answer, is_complete: false, errors: [{ protocol: "p01", detail: "the account is not known" }] });
  assert.deepEqual([failed.text, failed.tone], ["not complete", "warn"]);
  assert.match(failed.words, /p01: the account is not known\./);
  const members = [{ protocol: "p11" }, { protocol: "p11" }, { protocol: "p08" }];
  const partly = completenessWords({ ...answer, is_complete: false, pending: members });
  assert.deepEqual([partly.text, partly.tone], ["of what is read", "good"]);
  assert.match(partly.words, /Not read here: p11, p08\./);
  const many = completenessWords({ ...answer, is_complete: false, coverage: { known_accounts: 2000, read_accounts: 1000 } });
  assert.match(many.words, /1,000 of 2,000 accounts were read/);
});
