// Where the candles of the past are: by the page, over times in which nobody traded.

import { DAY_MS } from "../../lib/times.js";

const PAGE = 500; // intervals asked for at once
const LONGEST_LOOK_MS = 90 * DAY_MS; // of the API, for swaps
const MOST_CANDLES = 20_000; // in memory: some weeks of minutes

/** Asks the API for candles and puts them into a `CandleBook`. */
export class CandleHistory {
  #api;
  #path;
  #interval;
  #lengthMs;
  #book;
  #reachedMs = null; // what begins before has not been asked for
  #settledMs = 0; // the chain's time up to which the newest answer goes

  constructor({ api, mint, interval, lengthMs, book }) {
    this.#api = api;
    this.#path = `/api/tokens/${mint}`;
    this.#interval = interval;
    this.#lengthMs = lengthMs;
    this.#book = book;
  }

  /** Null while there may be older candles, else why there are none, in words. */
  ending = null;

  /** Asks for the newest candles, or, where there are none, for the last ones there were. */
  async begin(signal) {
    const answer = await this.#ask({}, signal);
    this.#reachedMs = Math.ceil(answer.from_ms / this.#lengthMs) * this.#lengthMs;
    if (answer.candles.length === 0) await this.older(signal);
  }

  /**
   * Asks for what may have changed since the last answer. Returns from when on (ms), or null where
   * so much time has passed that the API does not answer it at once: all begins anew.
   */
  async newer(signal) {
    const from = Math.floor(this.#settledMs / this.#lengthMs) * this.#lengthMs;
    try {
      await this.#ask({ from }, signal);
      return from;
    } catch (error) {
      if (error.code === "invalid_parameter") return null;
      throw error;
    }
  }

  /** Asks for the candles before those that are there; looks for the trade before a time of rest. */
  async older(signal) {
    if (this.ending !== null) return;
    if (this.#book.size >= MOST_CANDLES) {
      this.ending = "There may be more: choose a longer interval to see further back.";
      return;
    }
    if ((await this.#page(signal)) > 0) return;
    const lastMs = await this.#tradeBefore(this.#reachedMs, signal);
    if (lastMs === null) {
      this.ending = "These are all: no trade was seen in the 90 days before.";
      return;
    }
    this.#reachedMs = Math.floor(lastMs / this.#lengthMs + 1) * this.#lengthMs;
    if ((await this.#page(signal)) === 0) {
      this.ending = "There were trades before, but candles this short are not kept for so long.";
    }
  }

  async #page(signal) {
    const to = this.#reachedMs;
    const from = Math.max(0, to - PAGE * this.#lengthMs);
    if (from >= to) return 0;
    const answer = await this.#ask({ from, to }, signal);
    this.#reachedMs = from;
    return answer.candles.length;
  }

  async #tradeBefore(timeMs, signal) {
    const query = { limit: 1, from: Math.max(0, timeMs - LONGEST_LOOK_MS), to: timeMs };
    if (query.from >= timeMs) return null;
    const { swaps } = await this.#api.get(`${this.#path}/swaps`, { query, signal });
    return swaps[0]?.block_time_ms ?? null;
  }

  async #ask(range, signal) {
    const query = { interval: this.#interval, ...range };
    const answer = await this.#api.get(`${this.#path}/candles`, { query, signal });
    this.#book.settle(answer);
    if (answer.to_ms > answer.as_of_ms) this.#settledMs = answer.as_of_ms;
    return answer;
  }
}
