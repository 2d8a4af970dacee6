/** The trending list as the page keeps it: what a snapshot listed, and the changes since. */

import { Trail } from "../../lib/trail.js";

const MOST_TOKENS = 2_000; // a list without end would fill the page's memory

export class TrendingList {
  #rows = new Map(); // mint -> {mint, data, rank, trail, version}
  #trails = new Map(); // mint -> Trail: a token that comes back has its line still
  #clock;

  /** Platforms seen so far. */
  platforms = new Set();

  constructor(clock = Date.now) {
    this.#clock = clock;
  }

  get size() {
    return this.#rows.size;
  }

  /** Takes a snapshot, the best first: what it does not list has left. */
  replace(records) {
    const before = this.#rows;
    this.#rows = new Map();
    for (const [rank, data] of records.entries()) {
      if (typeof data?.mint !== "string") continue;
      this.#put(data, rank + 1, before.get(data.mint));
    }
    for (const mint of this.#trails.keys()) {
      if (this.#trails.size <= MOST_TOKENS) break;
      if (!this.#rows.has(mint)) this.#trails.delete(mint);
    }
  }

  /** Takes what is new of a token; returns whether it was not listed before. */
  update(data) {
    if (typeof data?.mint !== "string") return false;
    const row = this.#rows.get(data.mint);
    if (!row && this.#rows.size >= MOST_TOKENS) return false;
    this.#put(data, row?.rank ?? null, row);
    return !row;
  }

  /** Forgets a token that left the list. */
  remove(mint) {
    return this.#rows.delete(mint);
  }

  /** Takes prices from before; see `Trail.seed`. */
  seed(mint, points) {
    const row = this.#rows.get(mint);
    if (!row) return;
    row.trail.seed(points);
    row.version += 1;
  }

  rows() {
    return [...this.#rows.values()];
  }

  #put(data, rank, row) {
    let trail = this.#trails.get(data.mint);
    if (!trail) this.#trails.set(data.mint, (trail = new Trail()));
    trail.add(this.#clock(), data.price_usd);
    if (data.dex) this.platforms.add(data.dex);
    const version = (row?.version ?? 0) + 1;
    this.#rows.set(data.mint, { mint: data.mint, data, rank, trail, version });
  }
}

/** Whether a token is looked for: by a part of its name or symbol, or of an address. */
export function matches({ data }, words) {
  if (words === "") return true;
  const [name, symbol] = [data.name, data.symbol].map((text) => (text ?? "").toLowerCase());
  const wanted = words.toLowerCase();
  return (
    name.includes(wanted) ||
    symbol.includes(wanted) ||
    data.mint.includes(words) ||
    (data.creator ?? "").includes(words)
  );
}
