import assert from "node:assert/strict";
import test from "node:test";

import {
  CandleBook,
  INTERVALS_MS,
  priceBase,
  summary,
} from "../../../api/dashboard/page/lib/candles.js";

const MINUTE = INTERVALS_MS["1m"];

function row(startMs, slot, { open = 1, high = 3, low = 0.5, close = 2, volume = 10 } = {}) {
  const prices = {};
  for (const [currency, factor] of [["sol", 1], ["usd", 200]]) {
    prices[`open_${currency}`] = open * factor;
    prices[`high_${currency}`] = high * factor;
    prices[`low_${currency}`] = low * factor;
    prices[`close_${currency}`] = close * factor;
  }
  const volumes = { volume_sol: volume, volume_usd: volume * 200, amount: 5 };
  return { start_ms: startMs, is_closed: true, ...prices, ...volumes, buys: 1, sells: 1, slot };
}

function answer(candles, asOfSlot, asOfMs, { fromMs = 0, toMs = asOfMs + 1 } = {}) {
  return { candles, from_ms: fromMs, to_ms: toMs, as_of_slot: asOfSlot, as_of_ms: asOfMs };
}

function price(slot, timestamp, sol) {
  return { slot, timestamp, price_sol: sol, price_usd: sol * 200 };
}

function swap(slot, timeMs, { side = "buy", sol = 1 } = {}) {
  const value = { sol_value: sol, usd_value: sol * 200, amount: 7 };
  return { slot, block_time_ms: timeMs, side, ...value };
}

test("live events extend the candle that runs", () => {
  const book = new CandleBook(MINUTE);
  book.settle(answer([row(0, 10)], 10, 30_000));
  assert.equal(book.price(price(11, 31_000, 4)), 0);
  assert.equal(book.swap(swap(11, 31_000)), 0);
  const [candle] = book.rows();
  assert.deepEqual(
    [candle.open_sol, candle.high_sol, candle.low_sol, candle.close_sol, candle.close_usd],
    [1, 4, 0.5, 4, 800],
  );
  assert.deepEqual([candle.volume_sol, candle.volume_usd], [11, 2200]);
  assert.deepEqual([candle.buys, candle.sells, candle.amount], [2, 1, 12]);
});

test("a candle begins with the first live price in it, and there is none between", () => {
  const book = new CandleBook(MINUTE);
  book.settle(answer([row(0, 10)], 10, 30_000));
  for (const value of [5, 7, 4, 6]) book.price(price(12, 3 * MINUTE + 5, value));
  const rows = book.rows();
  assert.deepEqual(rows.map((candle) => candle.start_ms), [0, 3 * MINUTE]);
  const { open_sol: open, high_sol: high, low_sol: low, close_sol: close } = rows[1];
  assert.deepEqual([open, high, low, close], [5, 7, 4, 6]);
});

test("a settled answer replaces the slots it covers and no other", () => {
  const book = new CandleBook(MINUTE);
  book.settle(answer([row(0, 10)], 10, 30_000));
  book.swap(swap(11, 31_000, { sol: 100 }));
  book.swap(swap(12, 32_000, { sol: 1000 }));
  book.settle(answer([row(0, 11, { volume: 110 })], 11, 31_000));
  assert.equal(book.rows()[0].volume_sol, 1110);
  assert.equal(book.swap(swap(11, 31_000)), null, "an event that comes late is in the answer");
  assert.equal(book.rows()[0].volume_sol, 1110);
});

test("a candle that runs ahead of the answer's slot counts nothing twice", () => {
  const book = new CandleBook(MINUTE);
  book.swap(swap(12, 32_000, { sol: 50 }));
  book.settle(answer([row(0, 12, { volume: 60 })], 11, 31_000));
  assert.equal(book.rows()[0].volume_sol, 60);
  assert.equal(book.swap(swap(12, 32_000, { sol: 50 })), null);
  assert.equal(book.swap(swap(13, 33_000, { sol: 1 })), 0);
  assert.equal(book.rows()[0].volume_sol, 61);
});

test("a page of the past settles nothing that is newer", () => {
  const book = new CandleBook(MINUTE);
  book.settle(answer([row(10 * MINUTE, 10)], 10, 10 * MINUTE + 5));
  book.swap(swap(11, 10 * MINUTE + 6));
  const past = { fromMs: 0, toMs: 10 * MINUTE };
  book.settle(answer([row(0, 2), row(MINUTE, 3)], 99, 11 * MINUTE, past));
  assert.deepEqual(book.rows().map((candle) => candle.volume_sol), [10, 10, 11]);
  assert.equal(book.oldestMs, 0);
  assert.equal(book.newestMs, 10 * MINUTE);
  assert.equal(book.size, 3);
});

test("a slot that died is taken back", () => {
  const book = new CandleBook(MINUTE);
  book.settle(answer([row(0, 10)], 10, 30_000));
  book.price(price(11, 31_000, 400));
  book.swap(swap(11, 31_000, { side: "sell" }));
  assert.equal(book.orphan(11), true);
  assert.equal(book.orphan(11), false);
  assert.deepEqual(book.rows(), [row(0, 10)]);
});

test("slots are put in order, whichever is heard of first", () => {
  const book = new CandleBook(MINUTE);
  book.price(price(21, 2_000, 9));
  book.price(price(20, 1_000, 3));
  const [candle] = book.rows();
  assert.deepEqual([candle.open_sol, candle.close_sol], [3, 9]);
});

test("what is not known stays unknown", () => {
  const book = new CandleBook(MINUTE);
  book.swap({ slot: 1, block_time_ms: 0, side: "sell", amount: 1, sol_value: null, usd_value: null });
  book.price({ slot: 1, timestamp: 0, price_sol: 2, price_usd: null });
  const [candle] = book.rows();
  assert.equal(candle.close_sol, 2);
  assert.equal(candle.close_usd, null);
  assert.equal(candle.volume_usd, 0);
  const unknown = new CandleBook(MINUTE);
  unknown.settle(answer([{ ...row(0, 10), amount: null }], 10, 30_000));
  unknown.swap(swap(11, 31_000));
  assert.equal(unknown.rows()[0].amount, null);
});

test("live slots are bounded: the oldest go", () => {
  const book = new CandleBook(1_000);
  for (let slot = 1; slot <= 4_500; slot += 1) book.price(price(slot, slot * 1_000, 1));
  const rows = book.rows();
  assert.equal(rows.length, 4_000);
  assert.equal(rows[0].slot, 501);
});

test("rows can be asked for from a time on", () => {
  const book = new CandleBook(MINUTE);
  book.settle(answer([row(0, 1), row(MINUTE, 2)], 2, 90_000));
  book.price(price(3, 2 * MINUTE, 1));
  assert.deepEqual(book.rows(MINUTE).map((candle) => candle.start_ms), [MINUTE, 2 * MINUTE]);
});

test("a summary has first, last, extremes and volume", () => {
  const rows = [row(0, 1, { open: 1, close: 2 }), row(MINUTE, 2, { high: 8, close: 3, low: 0.1 })];
  const shown = summary(rows, "sol");
  assert.deepEqual([shown.count, shown.first, shown.last, shown.changePct], [2, 1, 3, 200]);
  assert.deepEqual([shown.highest, shown.lowest, shown.volume], [8, 0.1, 20]);
  assert.deepEqual([shown.fromMs, shown.toMs], [0, MINUTE]);
  assert.equal(summary(rows, "usd").highest, 1600);
});

test("without a price there is nothing to sum up", () => {
  const nothing = { ...row(0, 1), close_usd: null, open_usd: null };
  assert.equal(summary([nothing], "usd"), null);
  assert.equal(summary([], "sol"), null);
});

test("prices differ by five digits, and a unit has whole steps", () => {
  assert.equal(priceBase(1.5), 1e4);
  assert.equal(priceBase(187.2), 100);
  assert.equal(priceBase(2.5e-8), 1e12);
  assert.equal(priceBase(123_456), 1);
  assert.equal(priceBase(0), 100);
  assert.equal(priceBase(null), 100);
});

test("candles of a reference price have no volume, settled or live", () => {
  const book = new CandleBook(MINUTE);
  const none = { volume_sol: null, volume_usd: null, amount: null, buys: null, sells: null };
  book.settle(answer([{ ...row(0, 10), ...none }], 10, 30_000));
  book.price(price(11, 31_000, 4));
  book.price(price(12, MINUTE + 5, 5));
  const rows = book.rows();
  assert.deepEqual(rows.map((candle) => candle.close_sol), [4, 5]);
  for (const candle of rows) {
    for (const name of Object.keys(none)) assert.equal(candle[name], null);
  }
  assert.equal(summary(rows, "usd").volume, null);
});
