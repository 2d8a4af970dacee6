import assert from "node:assert/strict";
import test from "node:test";

import { CandleBook } from "../../../api/dashboard/page/lib/candles.js";
import { CandleHistory } from "../../../api/dashboard/page/pages/token/history.js";

const MINUTE = 60_000;
const PAGE_MS = 500 * MINUTE;

/** A token that traded at these minutes, answered for as the API does; the chain is at `nowMs`. */
class Market {
  asked = [];

  constructor(minutes, nowMs) {
    this.minutes = minutes;
    this.nowMs = nowMs;
  }

  async get(path, { query }) {
    this.asked.push([path.split("/").at(-1), query]);
    return path.endsWith("/swaps") ? this.swaps(query) : this.candles(query);
  }

  candles({ from, to }) {
    const toMs = to ?? this.nowMs + 1;
    const fromMs = from ?? Math.max(0, toMs - 300 * MINUTE);
    if ((toMs - fromMs) / MINUTE > 1_500) {
      throw Object.assign(new Error("too many"), { code: "invalid_parameter" });
    }
    const starts = this.minutes.map((minute) => minute * MINUTE);
    const candles = starts
      .filter((start) => start >= fromMs && start < toMs)
      .map((start) => ({ start_ms: start, slot: start / MINUTE }));
    const slot = Math.floor(this.nowMs / MINUTE);
    return { candles, from_ms: fromMs, to_ms: toMs, as_of_slot: slot, as_of_ms: this.nowMs };
  }

  swaps({ from: fromMs, to: toMs }) {
    assert.ok(toMs - fromMs <= 90 * 86_400_000 && fromMs < toMs);
    const times = this.minutes.map((minute) => minute * MINUTE + 30_000);
    const last = times.filter((time) => time >= fromMs && time < toMs).at(-1);
    return { swaps: last === undefined ? [] : [{ block_time_ms: last }] };
  }
}

function historyOf(market) {
  const book = new CandleBook(MINUTE);
  const given = { api: market, mint: "mint", interval: "1m", lengthMs: MINUTE, book };
  return { book, history: new CandleHistory(given) };
}

const minutesOf = (book) => book.rows().map((row) => row.start_ms / MINUTE);

test("the newest candles come first, then those before, to the beginning", async () => {
  const market = new Market([700, 1_500, 1_900, 2_000], 2_000 * MINUTE + 5);
  const { book, history } = historyOf(market);
  await history.begin();
  assert.deepEqual(minutesOf(book), [1_900, 2_000]);
  await history.older();
  assert.deepEqual(minutesOf(book), [1_500, 1_900, 2_000]);
  await history.older();
  assert.deepEqual(minutesOf(book), [700, 1_500, 1_900, 2_000]);
  assert.equal(history.ending, null);
  await history.older();
  assert.match(history.ending, /no trade/);
  const before = market.asked.length;
  await history.older();
  assert.equal(market.asked.length, before, "what has ended is not asked for again");
});

test("a long rest is leapt over, from the trade before it", async () => {
  const market = new Market([100, 40_000], 80_000 * MINUTE);
  const { book, history } = historyOf(market);
  await history.begin();
  assert.deepEqual(minutesOf(book), [40_000]);
  await history.older();
  assert.deepEqual(minutesOf(book), [100, 40_000]);
  const leaps = market.asked.filter(([what]) => what === "swaps");
  assert.equal(leaps.length, 2);
});

test("the page says that candles are no longer kept", async () => {
  const market = new Market([100, 79_999], 80_000 * MINUTE);
  const { history } = historyOf(market);
  await history.begin();
  market.candles = ({ from, to }) => ({ candles: [], from_ms: from, to_ms: to, as_of_slot: 1, as_of_ms: 80_000 * MINUTE });
  await history.older();
  assert.match(history.ending, /not kept/);
});

test("what may have changed is asked for from the last settled candle on", async () => {
  const market = new Market([10, 11], 11 * MINUTE + 40_000);
  const { book, history } = historyOf(market);
  await history.begin();
  market.minutes.push(12);
  market.nowMs = 12 * MINUTE + 3;
  assert.equal(await history.newer(), 11 * MINUTE);
  assert.deepEqual(market.asked.at(-1), ["candles", { interval: "1m", from: 11 * MINUTE }]);
  assert.deepEqual(minutesOf(book), [10, 11, 12]);
});

test("after too long a time all begins anew", async () => {
  const market = new Market([10], 11 * MINUTE);
  const { history } = historyOf(market);
  await history.begin();
  market.nowMs += 1_600 * MINUTE;
  assert.equal(await history.newer(), null);
});

test("a page is bounded, and time does not begin before zero", async () => {
  const market = new Market([1, 300], 301 * MINUTE);
  const { history } = historyOf(market);
  await history.begin();
  await history.older();
  const pages = market.asked.filter(([what, { to }]) => what === "candles" && to !== undefined);
  assert.ok(pages.every(([, { from, to }]) => from >= 0 && to - from <= PAGE_MS));
});
