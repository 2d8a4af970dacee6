// Swaps of a list, newest first: live ones and pages of the API, each once, and what became of them.

import { isSurer, keyOf, onOneBranch, SlotStates } from "./branches.js";

/** Keeps up to `most` swaps; what is too much goes at the old end. */
export class SwapList {
  #most;
  #rows = new Map(); // key -> swap with `key` and `state`, or a notice
  #notices = 0;
  #slots = new SlotStates();

  constructor(most) {
    this.#most = most;
  }

  /** Takes swaps; one that is there already is replaced if the other is settled, and surer. */
  add(swaps) {
    for (const swap of swaps) {
      const key = keyOf(swap);
      const before = this.#rows.get(key);
      const isSettled = (swap.commitment ?? "processed") !== "processed";
      if (before && !(isSettled && isSurer(swap.commitment, before.state))) continue;
      this.#rows.set(key, { ...swap, key, state: this.#slots.of(swap) });
    }
    this.#choose();
  }

  /** What a slot has become: "confirmed", "finalized" or "orphaned"; returns whether it matters. */
  become(slot, state) {
    this.#slots.take(slot, state);
    let isKnown = false;
    for (const row of this.#rows.values()) {
      if (row.slot !== slot || row.notice || !isSurer(state, row.state)) continue;
      row.state = state;
      isKnown = true;
    }
    if (isKnown) this.#choose();
    return isKnown;
  }

  /** Puts words above the newest swap: that some may be missing, say. */
  note(words) {
    this.#notices += 1;
    const newest = this.rows()[0];
    const place = { slot: newest?.slot ?? 0, tx_index: Infinity, event_index: this.#notices };
    this.#rows.set(`notice-${this.#notices}`, { key: `notice-${this.#notices}`, notice: words, ...place });
  }

  /**
   * Drops the oldest where there are too many; returns the time in ms of the oldest that is left,
   * or null where nothing was dropped.
   */
  trim() {
    if (this.#rows.size <= this.#most) return null;
    const rows = this.rows();
    for (const row of rows.slice(this.#most)) this.#rows.delete(row.key);
    return rows.slice(0, this.#most).findLast((row) => !row.notice)?.block_time_ms ?? null;
  }

  /** Lets the list grow: older ones were asked for by hand. */
  allow(most) {
    this.#most = Math.max(this.#most, most);
  }

  get size() {
    return this.#rows.size;
  }

  /** Returns the swaps and notices, newest first. */
  rows() {
    return [...this.#rows.values()].sort(
      (one, other) =>
        other.slot - one.slot ||
        difference(other.tx_index, one.tx_index) ||
        other.event_index - one.event_index,
    );
  }

  /** Drops the rows of swaps that another branch of the chain has. */
  #choose() {
    const remaining = onOneBranch([...this.#rows.values()]);
    if (remaining.length < this.#rows.size) this.#rows = new Map(remaining.map((row) => [row.key, row]));
  }
}

function difference(one, other) {
  return one === other ? 0 : one - other;
}
