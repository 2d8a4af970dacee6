// Candles of a token: what the API has settled, and over it what was heard live since.
//
// The API's candles are settled up to a slot; live prices and swaps run ahead of them. What is live
// is kept by slot, one bar each, as the pipeline does it, so that a settled answer replaces exactly
// the slots that it covers, an orphaned slot can be taken back, and nothing counts twice.
//
// A row has the shape of the API's candles: `start_ms`, `open_sol`.. `close_usd` (null: no price was
// known), `volume_sol`, `volume_usd`, `amount` (whole tokens), `buys`, `sells`, `slot`. Volumes and
// counts are null where candles are of a reference price and not of trades, as SOL's are. A trade of
// unknown value is counted, and is in no volume of SOL or dollars, in the API's candles as here.

import { DAY_MS, HOUR_MS } from "./times.js";

/** Intervals that the API has, and their lengths in milliseconds. */
export const INTERVALS_MS = Object.freeze({
  "1s": 1_000,
  "1m": 60_000,
  "5m": 300_000,
  "15m": 900_000,
  "1h": HOUR_MS,
  "4h": 4 * HOUR_MS,
  "1d": DAY_MS,
});

/** Live slots kept without an answer of the API in between: some half an hour of them. */
const MOST_LIVE_SLOTS = 4_000;

const CURRENCIES = ["sol", "usd"];
const COUNTED = ["volume_sol", "volume_usd", "amount", "buys", "sells"];

export class CandleBook {
  #lengthMs;
  #settled = new Map(); // start_ms -> row of the API
  #live = new Map(); // slot -> bar
  #settledSlot = 0; // up to here live events are in an answer

  /** @param {number} lengthMs of a candle */
  constructor(lengthMs) {
    this.#lengthMs = lengthMs;
  }

  /** Number of settled candles. */
  get size() {
    return this.#settled.size;
  }

  /** Start of the oldest settled candle in ms, or null. */
  get oldestMs() {
    let oldest = null;
    for (const start of this.#settled.keys()) if (oldest === null || start < oldest) oldest = start;
    return oldest;
  }

  /** Start of the newest settled candle in ms, or null. */
  get newestMs() {
    let newest = null;
    for (const start of this.#settled.keys()) if (newest === null || start > newest) newest = start;
    return newest;
  }

  /** Takes an answer of `/candles`: any range of the past, or the newest. */
  settle(answer) {
    const { from_ms: fromMs, to_ms: toMs, as_of_slot: slot } = answer;
    for (const row of answer.candles) this.#settled.set(row.start_ms, row);
    // A page of the past says nothing of the slots that are newer than its end.
    const isNewest = toMs > answer.as_of_ms;
    if (isNewest) this.#settledSlot = Math.max(this.#settledSlot, slot);
    for (const bar of this.#live.values()) {
      const start = this.#startOf(bar.time_ms);
      const row = this.#settled.get(start);
      const isCovered = bar.slot <= slot && (isNewest || (start >= fromMs && start < toMs));
      if (isCovered || (row && bar.slot <= row.slot)) this.#live.delete(bar.slot);
    }
  }

  /** Takes a live price; returns the start of the candle it is in, or null if it is settled. */
  price(event) {
    const bar = this.#bar(event.slot, event.timestamp);
    if (bar === null) return null;
    for (const currency of CURRENCIES) extend(bar, currency, event[`price_${currency}`]);
    return this.#startOf(bar.time_ms);
  }

  /** Takes a live swap; returns the start of the candle it is in, or null if it is settled. */
  swap(event) {
    const bar = this.#bar(event.slot, event.block_time_ms);
    if (bar === null) return null;
    bar.volume_sol += event.sol_value ?? 0;
    bar.volume_usd += event.usd_value ?? 0;
    bar.amount += event.amount;
    if (event.side === "buy") bar.buys += 1;
    else bar.sells += 1;
    return this.#startOf(bar.time_ms);
  }

  /** Takes back what was heard of a slot that died; returns whether anything was. */
  orphan(slot) {
    return this.#live.delete(slot);
  }

  /** Returns the candles that begin at `fromMs` or later, oldest first. */
  rows(fromMs = 0) {
    const rows = new Map();
    for (const [start, row] of this.#settled) if (start >= fromMs) rows.set(start, row);
    const isReference = this.#settled.values().next().value?.volume_sol === null;
    const bars = [...this.#live.values()].sort((one, other) => one.slot - other.slot);
    for (const bar of bars) {
      const start = this.#startOf(bar.time_ms);
      if (start < fromMs) continue;
      const row = rows.get(start);
      if (row !== undefined) rows.set(start, joined(row, bar));
      else rows.set(start, isReference ? uncounted(asRow(bar, start)) : asRow(bar, start));
    }
    return [...rows.values()].sort((one, other) => one.start_ms - other.start_ms);
  }

  #startOf(timeMs) {
    return Math.floor(timeMs / this.#lengthMs) * this.#lengthMs;
  }

  #bar(slot, timeMs) {
    if (slot <= this.#settledSlot) return null;
    let bar = this.#live.get(slot);
    if (bar === undefined) {
      const row = this.#settled.get(this.#startOf(timeMs));
      if (row !== undefined && slot <= row.slot) return null;
      bar = emptyBar(slot, timeMs);
      this.#live.set(slot, bar);
      // The first is the one heard of first: an answer has failed to come for very long.
      if (this.#live.size > MOST_LIVE_SLOTS) this.#live.delete(this.#live.keys().next().value);
    }
    return bar;
  }
}

function emptyBar(slot, timeMs) {
  const prices = {};
  for (const currency of CURRENCIES) {
    for (const name of ["open", "high", "low", "close"]) prices[`${name}_${currency}`] = null;
  }
  return { slot, time_ms: timeMs, ...prices, volume_sol: 0, volume_usd: 0, amount: 0, buys: 0, sells: 0 };
}

function extend(bar, currency, price) {
  if (price === null || price === undefined) return;
  bar[`open_${currency}`] ??= price;
  bar[`high_${currency}`] = Math.max(bar[`high_${currency}`] ?? price, price);
  bar[`low_${currency}`] = Math.min(bar[`low_${currency}`] ?? price, price);
  bar[`close_${currency}`] = price;
}

function asRow({ time_ms: _, ...bar }, start) {
  return { start_ms: start, ...bar };
}

function joined(row, bar) {
  const both = { ...row, slot: bar.slot };
  for (const currency of CURRENCIES) {
    if (bar[`close_${currency}`] === null) continue;
    for (const name of ["open", "high", "low", "close"]) {
      extend(both, currency, bar[`${name}_${currency}`]);
    }
  }
  for (const name of COUNTED) both[name] = row[name] === null ? null : row[name] + bar[name];
  return both;
}

/** A live candle without a settled one: of a reference price nothing is counted either. */
function uncounted(row) {
  return { ...row, ...Object.fromEntries(COUNTED.map((name) => [name, null])) };
}

/** Returns what candles say in a currency ("usd" or "sol"): first, last, extremes, volume; or null. */
export function summary(rows, currency) {
  const priced = rows.filter((row) => row[`close_${currency}`] !== null);
  if (priced.length === 0) return null;
  const first = priced[0][`open_${currency}`];
  const last = priced.at(-1)[`close_${currency}`];
  return {
    count: rows.length,
    fromMs: rows[0].start_ms,
    toMs: rows.at(-1).start_ms,
    first,
    last,
    changePct: first > 0 ? ((last - first) / first) * 100 : null,
    highest: priced.reduce((most, row) => Math.max(most, row[`high_${currency}`]), 0),
    lowest: priced.reduce((least, row) => Math.min(least, row[`low_${currency}`]), Infinity),
    volume: rows.some((row) => row[`volume_${currency}`] === null)
      ? null
      : rows.reduce((sum, row) => sum + row[`volume_${currency}`], 0),
  };
}

/**
 * Returns how finely prices of this size are distinguished: `base` steps a unit, five digits of the
 * price. A power of ten, at least 1, as the chart asks for.
 */
export function priceBase(price) {
  if (!(price > 0)) return 100;
  return 10 ** Math.max(0, 4 - Math.floor(Math.log10(price)));
}
