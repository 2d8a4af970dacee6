import assert from "node:assert/strict";
import { test } from "node:test";

import {
  amountWords,
  completenessWords,
  healthWords,
  lockWords,
  marginWords,
  perpWords,
  pointsWords,
  protocolWords,
  rangeWords,
  roleWords,
  together,
  togetherWords,
  unknownWords,
  unverifiedWords,
  votingWords,
} from "../../../api/dashboard/page/lib/protocol_words.js";

const health = (factor, atRisk) => ({ health_factor: factor, at_risk: atRisk, ltv: 0.5, liquidation_ltv: 0.7, prices: "protocol" });

test("health is coloured by how near liquidation is", () => {
  assert.equal(healthWords(null), null);
  assert.deepEqual(healthWords(health(2.004, false)), { text: "health 2.00", tone: "good", isKnown: true });
  assert.equal(healthWords(health(1.1, false)).tone, "warn");
  assert.deepEqual(healthWords(health(0.99, true)), { text: "health 0.99, may be liquidated", tone: "bad", isKnown: true });
});

test("no debt and what is not known are no good health", () => {
  assert.deepEqual(healthWords({ ...health(null, null), ltv: 0 }), { text: "no debt", tone: "", isKnown: true });
  assert.equal(healthWords({ ...health(null, null), ltv: null }).text, "health not known");
  assert.equal(healthWords({ ...health(null, null), ltv: null }).isKnown, false);
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
  assert.equal(amountWords({ amount: null, amount_raw: null }), "an unknown amount of");
  assert.equal(amountWords({ amount: null, amount_raw: "7" }), "7 raw");
});

const answer = { as_of_slot: 5000, is_complete: true, errors: [], pending: [], unpriced: 0, coverage: { known_accounts: 3, read_accounts: 3 } };

test("what is missing is said", () => {
  assert.deepEqual(completenessWords(answer), { text: "complete", tone: "good", words: "As of slot 5,000." });
  const failed = completenessWords({ ...answer, is_complete: false, errors: [{ protocol: "p01", detail: "the account is not known" }] });
  assert.deepEqual([failed.text, failed.tone], ["not complete", "warn"]);
  assert.match(failed.words, /p01: the account is not known\./);
  const ofNobody = { protocol: null, account: "9xQe", detail: "not to be read" };
  const ofSeveral = { protocol: null, account: null, detail: "not all tokens were looked up" };
  const alike = completenessWords({ ...answer, is_complete: false, errors: [ofNobody, ofSeveral] });
  assert.match(alike.words, /An account: not to be read\. Several protocols: not all tokens were looked up\./);
  const members = [{ protocol: "p11" }, { protocol: "p11" }, { protocol: "p08" }];
  const partly = completenessWords({ ...answer, is_complete: false, pending: members });
  assert.deepEqual([partly.text, partly.tone], ["of what is read", "good"]);
  assert.match(partly.words, /Not read here: p11, p08\./);
  const many = completenessWords({ ...answer, is_complete: false, coverage: { known_accounts: 2000, read_accounts: 1000 } });
  assert.match(many.words, /1,000 of 2,000 accounts were read/);
});

test("protocols and roles have words, a stranger's too", () => {
  assert.equal(protocolWords("jupiter_lend"), "Jupiter Lend");
  assert.equal(protocolWords("a_new_one"), "a new one");
  assert.equal(protocolWords("constructor"), "constructor");
  assert.equal(protocolWords("\u202e"), "?");
  assert.deepEqual(["supply", "borrow", "reward", "locked"].map(roleWords), [null, "owes", "to claim", "locked"]);
});

test("what is not known of a position is said once, without reasons", () => {
  const of = (unsupported_fields, is_verified_market = true) => unknownWords({ unsupported_fields, is_verified_market });
  assert.equal(of([]), null);
  assert.equal(of(["health: a", "health: b", "interest"]), "Not known: health; interest.");
  assert.equal(of(["sums: an account is not known"]), "Not known: sums.");
  assert.equal(of(["sums: its market is not verified"], false), null);
  assert.equal(of(["health: a", "sums: its market is not verified"], false), "Not known: health.");
});

test("several answers are one, and a part of a sum does not pass for all", () => {
  const of = (protocol, worths, value) => ({
    ...answer,
    protocol,
    name: `${protocol} name`,
    positions: worths.map((each) => ({ protocol, value_usd: each, assets: [{}], is_verified_market: true })),
    value_usd: value,
  });
  const [one, two, none] = [of("p01", [1, 5], 6), of("p03", [3], 3), of("p07", [], null)];
  const all = together([one, { ...two, as_of_slot: 4000 }, none]);
  assert.deepEqual(all.positions.map((each) => [each.name, each.value_usd]), [["p01 name", 5], ["p03 name", 3], ["p01 name", 1]]);
  assert.deepEqual([all.value_usd, all.as_of_slot, all.coverage.known_accounts], [9, 4000, 9]);
  assert.equal(togetherWords(all), "$9.00 together.");
  const unknown = together([one, of("p03", [null], null)]);
  assert.equal(unknown.value_usd, null);
  assert.equal(unknown.positions.at(-1).value_usd, null);
  assert.match(togetherWords(unknown), /not known/);
  assert.equal(togetherWords(together([none])), "");
  const error = { protocol: "p01", account: null, detail: "not read" };
  const failed = together([{ ...none, errors: [error], is_complete: false }, { ...none, errors: [error] }]);
  assert.deepEqual([failed.errors.length, failed.is_complete], [1, false]);
  assert.equal(together([{ ...none, protocols: [{ protocol: "p02", name: "two" }], positions: [{ protocol: "p02", value_usd: 1, assets: [{}] }] }]).positions[0].name, "two");
});

test("what is missing is said once, of all protocols by their names", () => {
  const lost = (protocol, account) => ({ protocol, account, detail: "slots before 7 were lost" });
  const all = together([
    {
      ...answer,
      protocols: [{ protocol: "p01", name: "kamino" }, { protocol: "p02", name: "marginfi" }],
      positions: [],
      value_usd: null,
      is_complete: false,
      errors: [lost("p01", "A"), lost("p02", "B"), lost("p02", "C"), { protocol: null, account: "D", detail: "not read" }],
      pending: [{ protocol: "p01" }, { protocol: "p06" }],
    },
  ]);
  const said = "As of slot 5,000. Kamino, marginfi: slots before 7 were lost. An account: not read. Not read here: Kamino, p06.";
  assert.equal(completenessWords(all).words, said);
});

test("positions in markets that are not verified make no sum unknown, and are counted", () => {
  const of = (value, ...verified) => ({
    ...answer,
    protocol: "p01",
    name: "one",
    positions: verified.map((each) => ({ protocol: "p01", value_usd: each ? value : null, assets: [{}], is_verified_market: each })),
    value_usd: value,
  });
  const given = of(null, false, false);
  const all = together([of(1000, true), given]);
  assert.equal(all.value_usd, 1000);
  assert.equal(togetherWords(all), "$1,000.00 together. Positions in markets that are not verified, in no sum: 2.");
  assert.equal(together([of(1000, true, false)]).value_usd, 1000);
  assert.equal(togetherWords(together([given])), "Positions in markets that are not verified, in no sum: 2.");
  assert.equal(unverifiedWords(of(1, true).positions), "");
  // What could not be read, and what has no price, may count.
  const error = { protocol: "p01", account: null, detail: "not read" };
  const short = { known_accounts: 2000, read_accounts: 1000 };
  for (const lacking of [{ ...given, errors: [error] }, { ...given, coverage: short }, of(null, true, false)]) {
    const partly = together([of(1000, true), lacking]);
    assert.equal(partly.value_usd, null);
    assert.match(togetherWords(together([lacking])), /^What they are worth together is not known\. Positions in markets/);
  }
});

const perp = {
  symbol: "SOL-PERP",
  side: "long",
  size: 12.5,
  notional_usd: 1875,
  entry_price_usd: 142,
  mark_price_usd: 150,
  liquidation_price_usd: null,
  leverage: 3.24,
  unrealized_usd: 100,
  funding_usd: null,
};

test("a bet says its side, its prices and what it gained, and nothing that is not known", () => {
  assert.equal(perpWords(null), null);
  const { text, tone, hint } = perpWords(perp);
  assert.equal(text, "long 12.5 SOL-PERP 3.2x");
  assert.equal(tone, "good");
  assert.match(hint, /^entered at \$142.*, now \$150.*, \+\$100/);
  assert.ok(!hint.includes("liquidated"));
  const unknown = perpWords({ ...perp, size: null, leverage: null, entry_price_usd: null, mark_price_usd: null, unrealized_usd: null });
  assert.deepEqual(unknown, { text: "long SOL-PERP", tone: "", hint: "" });
  assert.equal(perpWords({ ...perp, unrealized_usd: -1 }).tone, "warn");
});

test("votes are counted, and what keeps a deposit is said", () => {
  assert.equal(votingWords(null), null);
  assert.equal(votingWords({ power_raw: "750000", open_votes: 0, delegate: null }), "votes 750,000");
  assert.equal(votingWords({ power_raw: null, open_votes: 2, delegate: "x" }), "votes not known, 2 not relinquished, delegated");
});

const margin = { collateral_usd: 5400, maintenance_usd: 950, initial_usd: 1800, free_usd: 3600, leverage: 1.72, health_pct: 82.4 };

test("a margin account says its health, and what backs it", () => {
  assert.equal(marginWords(null), null);
  const { text, tone, hint } = marginWords(margin);
  assert.equal(text, "health 82%, 1.7x");
  assert.equal(tone, "good");
  assert.match(hint, /^\$5,400.* backs, \$950.* is required, \$3,600.* is free$/);
  assert.equal(marginWords({ ...margin, health_pct: 7 }).tone, "warn");
  assert.deepEqual([marginWords({ ...margin, health_pct: 0, leverage: null })].map(({ text, tone }) => [text, tone]), [["health 0%, may be liquidated", "bad"]]);
  assert.deepEqual(marginWords({ ...margin, health_pct: null }), { text: "margin not known", tone: "", hint: "" });
});

test("points are counted, and are no token", () => {
  assert.deepEqual(pointsWords([]), []);
  assert.deepEqual(pointsWords([{ name: "fuel_taker", amount: "1840" }]), ["1,840 fuel taker"]);
});

test("what has no assets leaves a sum of several answers known", () => {
  const whole = { as_of_slot: 5, protocol: "p08", name: "drift", is_complete: true, errors: [], unpriced: 0, coverage: { known_accounts: 1, read_accounts: 1 } };
  const worth = { ...whole, value_usd: 5, positions: [{ protocol: "p08", value_usd: 5, assets: [{}], is_verified_market: true }] };
  const health = { ...whole, value_usd: null, positions: [{ protocol: "p08", value_usd: null, assets: [], is_verified_market: true }] };
  assert.equal(together([worth, health]).value_usd, 5);
});
