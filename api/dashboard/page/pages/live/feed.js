// The swaps of the Live page: what is shown, what waits. No DOM: tested with Node.

import { isSurer, keyOf, onOneBranch, SlotStates } from "../../lib/branches.js";

/**
 * Takes events at any rate and keeps `most` of them. Shown are rows, newest first: swaps with `key`
 * and `state` (processed, confirmed, finalized, orphaned), or notices `{key, notice}`.
 */
export class Feed {
  constructor(most) {
    this.rows = [];
    this.passed = 0; // swaps that were never shown: more came than can be read
    this.arrived = 0; // swaps that wait, those that were dropped meanwhile counted
    this._most = most;
    this._waiting = []; // oldest first
    this._slots = new SlotStates();
    this._notices = 0;
  }

  /** Take a swap. */
  add(swap) {
    this.arrived += 1;
    this._wait({ ...swap, key: keyOf(swap), state: this._slots.of(swap) });
  }

  /** Put words between the swaps: that some may be missing, say. They count as a row. */
  note(words) {
    this._notices += 1;
    this._wait({ key: `notice-${this._notices}`, notice: words, state: "notice" });
  }

  /** Take what became of a slot; returns whether a row that is shown has changed. */
  settle(slot, state) {
    if (!this._slots.take(slot, state)) return false;
    let hasChanged = false;
    for (const rows of [this._waiting, this.rows]) {
      for (const row of rows) {
        if (row.slot !== slot || !isSurer(state, row.state)) continue;
        row.state = state;
        hasChanged ||= rows === this.rows;
      }
    }
    const remaining = new Set(onOneBranch([...this.rows, ...this._waiting]));
    const rows = this.rows.filter((row) => remaining.has(row));
    hasChanged ||= rows.length < this.rows.length;
    this.rows = rows;
    this._waiting = this._waiting.filter((row) => remaining.has(row));
    return hasChanged;
  }

  /** Show what waits, at most `budget` new swaps: the newest. Returns whether there is anything new. */
  advance(budget) {
    if (this._waiting.length === 0) return false;
    let swaps = 0;
    const fresh = new Map(); // by key: a swap may be delivered again
    for (const row of this._waiting.reverse()) {
      if (fresh.has(row.key)) continue;
      if (row.notice === undefined && ++swaps > budget) continue;
      fresh.set(row.key, row);
    }
    this.passed += Math.max(0, this.arrived - budget);
    const before = this.rows.filter(({ key }) => !fresh.has(key));
    this.rows = onOneBranch([...fresh.values(), ...before]).slice(0, this._most);
    this._waiting = [];
    this.arrived = 0;
    return true;
  }

  /** Another filter: what was there is not of it. */
  clear() {
    this.rows = [];
    this._waiting = [];
    this.arrived = 0;
  }

  _wait(row) {
    this._waiting.push(row);
    if (this._waiting.length <= 2 * this._most) return;
    // Notices outlive swaps, as long as there are few.
    const kept = this._waiting.splice(0, this._most).filter((each) => each.notice !== undefined);
    this._waiting.unshift(...kept.slice(-this._most / 2));
  }
}
