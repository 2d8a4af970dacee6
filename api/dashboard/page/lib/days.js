// Days of a wallet, ready to be drawn: idle ones too, and what they come to.

import { DAY_MS } from "./times.js";

/** Returns the beginning of a UTC day ("2026-07-31") in ms. */
export function dayMs(day) {
  return Date.parse(`${day}T00:00:00Z`);
}

/** Returns the UTC day ("2026-07-31") of a time in ms. */
export function dayOf(timeMs) {
  return new Date(timeMs).toISOString().slice(0, 10);
}

/** Returns the first day that is known: that of a range, or a later one in which the tape began. */
export function firstKnown({ from_day: fromDay, known_from_ms: knownFromMs }) {
  return knownFromMs > dayMs(fromDay) ? dayOf(knownFromMs) : fromDay;
}

/**
 * Returns a row for every day from `fromDay` to `toDay`, both included: that of `days` with the
 * same `day`, else `{day, isIdle: true}`.
 */
export function everyDay(days, fromDay, toDay) {
  const known = new Map(days.map((row) => [row.day, row]));
  const rows = [];
  for (let timeMs = dayMs(fromDay); timeMs <= dayMs(toDay); timeMs += DAY_MS) {
    const day = dayOf(timeMs);
    rows.push(known.get(day) ?? { day, isIdle: true });
  }
  return rows;
}

/** Returns running sums of `values`; null counts as nothing added. */
export function runningSums(values) {
  let sum = 0;
  return values.map((value) => (sum += value ?? 0));
}

/**
 * Returns round ticks around `least`..`most` and 0, at least two: `{low, high, ticks}`, at most
 * five steps of 1, 2 or 5 times a power of ten.
 */
export function scale(least, most) {
  let low = Math.min(0, least);
  let high = Math.max(0, most);
  if (low === high) return { low: 0, high: 1, ticks: [0, 1] };
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power;
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  const ticks = [];
  for (let count = first; count <= last; count += 1) {
    ticks.push(Number((count * step).toPrecision(12)));
  }
  [low, high] = [ticks[0], ticks.at(-1)];
  return { low, high, ticks };
}
