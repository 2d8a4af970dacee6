// Pages of swaps, backward in time: within the API's range of time, then through the ranges before.

import { dateTime } from "./format.js";
import { DAY_MS } from "./times.js";

const LONGEST_RANGE_MS = 90 * DAY_MS; // of the API
const OVERLAP_MS = 5_000; // live swaps have the time they were sent, settled ones their block's

/** Asks `path` of the API for swaps, newest first. */
export class SwapPages {
  #api;
  #path;
  #limit;
  #query = {}; // of the next page
  #isFirst = true;

  constructor(api, path, { limit = 50 } = {}) {
    this.#api = api;
    this.#path = path;
    this.#limit = limit;
  }

  /** Null while there may be more, else why there is none, in words. */
  ending = null;

  /** Returns the next page's swaps: none where the range of time has none; see `ending`. */
  async next(signal) {
    const query = { limit: this.#limit, ...this.#query };
    const answer = await this.#api.get(this.#path, { query, signal });
    const { swaps, page } = answer;
    if (page.has_more) this.#query = { cursor: page.next_cursor };
    else this.#before(answer.from_ms);
    if (swaps.length === 0 && !this.#isFirst && this.#query.cursor === undefined) {
      this.ending = "These are all: there was no swap in the 90 days before.";
    }
    const { from_ms: fromMs, known_from_ms: knownFromMs } = answer;
    if (!page.has_more && fromMs <= (knownFromMs ?? Infinity)) {
      const since = knownFromMs === null ? "" : ` Swaps are kept since ${dateTime(knownFromMs)}.`;
      this.ending = `These are all.${since}`;
    }
    this.#isFirst = false;
    return swaps;
  }

  /** Go on at a time: what is older than that is no longer shown. */
  restart(timeMs) {
    this.ending = null;
    this.#before(timeMs + OVERLAP_MS);
  }

  #before(timeMs) {
    this.#query = { from: Math.max(0, timeMs - LONGEST_RANGE_MS), to: timeMs };
  }
}
