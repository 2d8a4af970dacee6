/** The last hour of a price, as it was seen: for a line so small that a point each minute will do. */

import { HOUR_MS } from "./times.js";

const STEP_MS = 20_000; // of two prices closer than that the later one stays

export class Trail {
  #points = []; // [time_ms, price], ascending
  #first = Infinity; // time of the first price seen live
  /** Changes whenever the line does. */
  version = 0;

  /** Takes a price seen now; null is none. */
  add(timeMs, price) {
    if (!(price > 0)) return;
    const last = this.#points.at(-1);
    if (last && timeMs < last[0]) return;
    this.#first = Math.min(this.#first, timeMs);
    const before = this.#points.at(-2);
    if (before && timeMs - before[0] < STEP_MS) this.#points.pop();
    this.#points.push([timeMs, price]);
    this.#forget(timeMs);
    this.version += 1;
  }

  /** Takes prices from before the first that was seen, `[time_ms, price]`, ascending. */
  seed(points) {
    const earlier = points.filter(([timeMs, price]) => price > 0 && timeMs < this.#first);
    if (earlier.length === 0) return;
    this.#points = [...earlier, ...this.#points.filter(([timeMs]) => timeMs >= this.#first)];
    this.#forget(this.#points.at(-1)[0]);
    this.version += 1;
  }

  get points() {
    return this.#points;
  }

  /** Change from the first price to the last, in per cent; null of fewer than two. */
  get changePct() {
    if (this.#points.length < 2) return null;
    const [first, last] = [this.#points[0][1], this.#points.at(-1)[1]];
    return ((last - first) / first) * 100;
  }

  #forget(nowMs) {
    while (this.#points.length > 2 && this.#points[0][0] < nowMs - HOUR_MS) this.#points.shift();
  }
}

/** Closing prices of an answer of `/candles` in dollars, at times of this clock. */
export function closes({ candles, interval_s: intervalS, as_of_ms: asOfMs }, nowMs) {
  return candles
    .filter(({ close_usd: close }) => close !== null)
    .map((row) => {
      const endMs = Math.min(row.start_ms + intervalS * 1000, asOfMs);
      return [nowMs - (asOfMs - endMs), row.close_usd];
    });
}

/** Points as places in a box, x to the right and y down; a constant price is in the middle. */
export function fit(points, width, height, edge = 1) {
  const [[firstMs]] = points;
  const lengthMs = Math.max(1, points.at(-1)[0] - firstMs);
  const prices = points.map(([, price]) => price);
  const [least, most] = [Math.min(...prices), Math.max(...prices)];
  const room = height - 2 * edge;
  return points.map(([timeMs, price]) => [
    ((timeMs - firstMs) / lengthMs) * width,
    most === least ? height / 2 : edge + room * (1 - (price - least) / (most - least)),
  ]);
}
