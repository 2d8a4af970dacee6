// Branches of the chain: what became of slots, and which copy of a swap remains that was seen in several.

const SLOTS_KEPT = 512;
const ORDER = { processed: 0, confirmed: 1, finalized: 2 };
const RANKS = { orphaned: 0, processed: 1, confirmed: 2, finalized: 2 };

/** What slots have become, of the last few hundred: a status may come before the swaps of its slot. */
export class SlotStates {
  #states = new Map();

  /** Takes a status of a slot; returns whether it is news. */
  take(slot, state) {
    if (!isSurer(state, this.#states.get(slot))) return false;
    this.#states.set(slot, state);
    if (this.#states.size > SLOTS_KEPT) this.#states.delete(this.#states.keys().next().value);
    return true;
  }

  /** Returns the state of a swap. */
  of({ slot, commitment = "processed" }) {
    const state = this.#states.get(slot);
    if (state === undefined || (state === "orphaned" && commitment !== "processed")) return commitment;
    return isSurer(state, commitment) ? state : commitment;
  }
}

/** Whether a state says more than the one before, undefined: none. A slot that died may have another block. */
export function isSurer(state, before) {
  if (before === undefined) return true;
  if (state === before || state === "processed") return false;
  return state === "orphaned" || before === "orphaned" || ORDER[state] > ORDER[before];
}

/** Names a swap in one slot: on another branch of the chain it may be in another. */
export function keyOf(swap) {
  return `${swap.slot}-${idOf(swap)}`;
}

/**
 * Returns rows without what another branch has replaced. Of a swap in several slots a settled row remains,
 * else those that were not dropped, else the first. Rows with a `notice` remain.
 */
export function onOneBranch(rows) {
  const best = new Map(); // swap -> rank
  for (const row of rows) {
    if (row.notice === undefined) best.set(idOf(row), Math.max(RANKS[row.state], best.get(idOf(row)) ?? 0));
  }
  const dropped = new Set(); // swaps whose dropped row is there
  return rows.filter((row) => {
    if (row.notice !== undefined) return true;
    const id = idOf(row);
    if (RANKS[row.state] < best.get(id) || dropped.has(id)) return false;
    if (row.state === "orphaned") dropped.add(id);
    return true;
  });
}

function idOf({ signature, event_index: index }) {
  return `${signature}-${index}`;
}
