import assert from "node:assert/strict";
import { test } from "node:test";

import { kindWords, kindWorthWords, worthWords } from "../../../api/dashboard/page/lib/worth_words.js";

const positions = [];
const worth = (reasons, unpriced = 0) => ({ reasons, unpriced });

test("net worth is complete only where nothing is missing", () => {
  assert.deepEqual(worthWords({ net_worth: worth([]), positions, pending: [] }), { short: "complete", tone: "good", words: "" });
  const part = worthWords({ net_worth: worth([], 3), positions, pending: [{}, {}] });
  assert.deepEqual([part.short, part.tone], ["in part", "warn"]);
  assert.match(part.words, /not read yet, and in no sum: 2\. Assets without a worth, in no sum: 3\./);
});

test("net worth that is not known says why, a reason it does not know by its name", () => {
  const found = worthWords({ net_worth: worth(["holdings_incomplete", "new_one"]), positions, pending: [] });
  assert.deepEqual([found.short, found.tone], ["not known", "warn"]);
  assert.equal(found.words, "Net worth is not known: not all balances of the wallet are known yet; new_one.");
  const old = worthWords({ net_worth: worth(["native_outdated"]), positions, pending: [] });
  assert.equal(old.words, "Net worth is not known: its SOL is not known as of its last change.");
});

test("positions that are not known whole are counted, and a kind says that its sum is a part", () => {
  const net_worth = { ...worth(["positions_unknown"]), unknown_positions: 2 };
  assert.match(worthWords({ net_worth, positions, pending: [] }).words, /Positions that are not known whole, in no sum: 2\.$/);
  assert.equal(kindWorthWords({ value_usd: null, known_usd: 20 }), "$20.00 known");
  assert.equal(kindWorthWords({ value_usd: 20, known_usd: 20 }), "$20.00");
  assert.equal(kindWorthWords({ value_usd: null, known_usd: null }), "–");
});

test("positions in markets that are not verified are counted", () => {
  const of = (...verified) => verified.map((is_verified_market) => ({ is_verified_market }));
  const found = worthWords({ net_worth: worth([]), positions: of(true, false, false), pending: [] });
  assert.deepEqual(found, { short: "complete", tone: "good", words: "Positions in markets that are not verified, in no sum: 2." });
});

test("a kind has a name", () => {
  assert.equal(kindWords("perps"), "Perpetuals");
  assert.equal(kindWords("constructor"), "constructor");
});
