// Symbols of tokens, which settled swaps do not carry: asked for in batches, each once, sparing credits.

import { Failure } from "./api.js";
import { keep, recall } from "./storage.js";

const PAUSE_MS = 5_000; // between batches
const MOST_A_BATCH = 25; // one credit together
const MOST_CREDITS = 100; // of one visit: a page left open must not empty a plan
const MOST_KEPT = 2_000;
const MOST_WAITING = 200; // rows that have gone need no name
const FIRST_MS = 300;
const UNKNOWN_FOR_MS = 60_000; // then twice as long, and so on: some tokens never have one
const AFTER_FAILURE_MS = 60_000;

/** Look-ups of one page; what is found stays for the tab. */
export class Symbols {
  /** `onFound()` is called when there is more to show. `isWanted()` says whether credits may be spent. */
  constructor(api, { onFound, isWanted = () => true }) {
    this._api = api;
    this._onFound = onFound;
    this._isWanted = isWanted;
    this._known = restored(); // mint -> symbol, "" for none
    this._unknown = new Map(); // mint -> {untilMs, forMs}
    this._waiting = new Set();
    this._timer = null;
    this._ended = new AbortController();
    this.version = 0;
    this.creditsSpent = 0;
    this.problem = null; // words
  }

  /** Return the symbol of a token as its maker wrote it, or null; asks for it if it is not known. */
  of(mint) {
    const symbol = this._known.get(mint);
    if (symbol !== undefined) return symbol || null;
    if (this._mayAsk() && !(this._unknown.get(mint)?.untilMs > Date.now())) {
      this._waiting.delete(mint); // those looked at last are asked for first
      this._waiting.add(mint);
      if (this._waiting.size > MOST_WAITING) this._waiting.delete(this._waiting.values().next().value);
      this._timer ??= setTimeout(() => this._ask(), FIRST_MS);
    }
    return null;
  }

  /** Take the symbol of an event. */
  learn(mint, symbol) {
    this._known.delete(mint);
    this._known.set(mint, typeof symbol === "string" ? symbol.slice(0, 64) : "");
    while (this._known.size > MOST_KEPT) this._known.delete(this._known.keys().next().value);
    this.version += 1;
  }

  /** End look-ups, and keep what is known. */
  stop() {
    clearTimeout(this._timer);
    this._ended.abort();
    keep("symbols", JSON.stringify([...this._known]), { forGood: false });
  }

  async _ask() {
    const mints = [...this._waiting].slice(-MOST_A_BATCH);
    let pause = PAUSE_MS;
    try {
      if (mints.length > 0 && this._mayAsk()) {
        const { signal } = this._ended;
        const { tokens, unknown } = await this._api.post("/api/tokens/batch", { mints }, { signal });
        this._take(mints, tokens, unknown);
      }
    } catch (error) {
      if (this._ended.signal.aborted) return;
      if (!(error instanceof Failure)) throw error;
      this.problem = error.message;
      pause = Math.max(AFTER_FAILURE_MS, error.retryAfterMs ?? 0);
      this._onFound();
    }
    this._timer = setTimeout(() => {
      this._timer = null;
      if (this._waiting.size > 0) this._timer = setTimeout(() => this._ask(), 0);
    }, pause);
  }

  _lacks(mint) {
    const forMs = 2 * (this._unknown.get(mint)?.forMs ?? UNKNOWN_FOR_MS / 2);
    this._unknown.delete(mint);
    this._unknown.set(mint, { untilMs: Date.now() + forMs, forMs });
    if (this._unknown.size > MOST_KEPT) this._unknown.delete(this._unknown.keys().next().value);
  }

  _mayAsk() {
    return this._isWanted() && this.creditsSpent < MOST_CREDITS;
  }

  _take(mints, tokens, unknown) {
    this.creditsSpent += 1;
    this.problem = this._mayAsk() ? null : "No more on this visit: a page left open is not to spend a plan";
    for (const { mint, symbol } of tokens) {
      // One without a symbol may get it soon: its metadata is being asked for.
      if (symbol === null) this._lacks(mint);
      else this.learn(mint, symbol);
    }
    for (const mint of unknown) this._lacks(mint);
    for (const mint of mints) this._waiting.delete(mint);
    this._onFound();
  }
}

function restored() {
  try {
    return new Map(JSON.parse(recall("symbols", { forGood: false }) ?? "[]"));
  } catch {
    return new Map();
  }
}
