import assert from "node:assert/strict";
import test from "node:test";

import { Failure } from "../../../api/dashboard/page/lib/api.js";
import { Symbols } from "../../../api/dashboard/page/lib/symbols.js";

/** Symbols over an API that knows `known`; `asked` are its batches. */
function world(t, known, { isWanted, failure = null } = {}) {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"] });
  const seen = { asked: [], found: 0, failure };
  const api = {
    async post(path, { mints }) {
      seen.asked.push(mints);
      if (seen.failure) throw seen.failure;
      return {
        tokens: mints.filter((mint) => mint in known).map((mint) => ({ mint, symbol: known[mint] })),
        unknown: mints.filter((mint) => !(mint in known)),
      };
    },
  };
  const symbols = new Symbols(api, { onFound: () => (seen.found += 1), isWanted });
  const pass = async (ms) => {
    for (let left = ms; left > 0; left -= 100) {
      t.mock.timers.tick(100);
      for (let turn = 0; turn < 8; turn++) await Promise.resolve();
    }
  };
  return { symbols, seen, pass };
}

test("what rows ask for is asked of the API at once, once", async (t) => {
  const { symbols, seen, pass } = world(t, { A: "AAA", B: "BBB" });
  for (let draw = 0; draw < 3; draw++) {
    assert.equal(symbols.of("A"), null);
    assert.equal(symbols.of("B"), null);
  }
  await pass(1_000);
  assert.deepEqual(seen.asked, [["A", "B"]]);
  assert.deepEqual([symbols.of("A"), symbols.of("B")], ["AAA", "BBB"]);
  assert.deepEqual([seen.found, symbols.creditsSpent], [1, 1]);
  await pass(60_000);
  assert.equal(seen.asked.length, 1);
});

test("a symbol from an event costs nothing", async (t) => {
  const { symbols, seen, pass } = world(t, {});
  symbols.learn("A", "AAA");
  symbols.learn("B", "");
  assert.deepEqual([symbols.of("A"), symbols.of("B")], ["AAA", null]);
  await pass(10_000);
  assert.deepEqual(seen.asked, []);
});

test("what is not known is asked for again, less and less often", async (t) => {
  const { symbols, seen, pass } = world(t, { A: null });
  const times = [];
  for (let second = 0; second < 500; second++) {
    symbols.of("A");
    symbols.of("gone");
    await pass(1_000);
    if (seen.asked.length > times.length) times.push(second);
  }
  assert.equal(times.length, 4);
  const waits = times.slice(1).map((second, place) => second - times[place]);
  assert.ok(waits.every((wait, place) => wait >= 60 * 2 ** place && wait < 60 * 2 ** place + 10), waits.join());
});

test("batches are small, apart from each other, of what was looked at last, and end", async (t) => {
  const { symbols, seen, pass } = world(t, {});
  for (let minute = 0; minute < 60; minute++) {
    for (let token = 0; token < 300; token++) symbols.of(`${minute}-${token}`);
    await pass(10_000);
  }
  assert.ok(seen.asked.every((mints) => mints.length <= 25));
  assert.equal(seen.asked[0].at(-1), "0-299");
  assert.equal(symbols.creditsSpent, 100);
  assert.match(symbols.problem, /No more/);
});

test("nothing is asked where it is not wanted", async (t) => {
  const { symbols, seen, pass } = world(t, { A: "AAA" }, { isWanted: () => false });
  symbols.of("A");
  await pass(10_000);
  assert.deepEqual(seen.asked, []);
});

test("after a failure it waits, in words", async (t) => {
  const failure = new Failure(429, "rate_exceeded", "wait", { retryAfterMs: 90_000 });
  const { symbols, seen, pass } = world(t, { A: "AAA" }, { failure });
  symbols.of("A");
  await pass(80_000);
  assert.equal(seen.asked.length, 1);
  assert.equal(symbols.problem, "wait");
  seen.failure = null;
  await pass(20_000);
  assert.equal(symbols.of("A"), "AAA");
  assert.equal(symbols.problem, null);
});

test("a page that has gone asks for nothing more", async (t) => {
  const { symbols, seen, pass } = world(t, {});
  symbols.of("A");
  symbols.stop();
  await pass(10_000);
  assert.deepEqual(seen.asked, []);
});
