// Swaps as a table, on the pages of a token and of a wallet.

import { element } from "./dom.js";
import { dateTime } from "./format.js";
import { swapColumns } from "./swap_columns.js";
import { createTable } from "./table.js";

const STATES = {
  processed: ["badge", "processed", "The chain may still drop it"],
  confirmed: ["badge good", "confirmed", "Two thirds of the stake voted for it"],
  finalized: ["badge good", "finalized", "It stays"],
  orphaned: ["badge bad", "dropped", "Its slot left the chain: it did not happen"],
};

const STATE = {
  id: "state",
  label: "State",
  content({ state }) {
    const [look, words, title] = STATES[state] ?? STATES.processed;
    return element("span", { class: look, title }, words);
  },
};

/**
 * Make a table of the rows of a `SwapList`. `columns` are ids of `swapColumns`, or "state";
 * `symbolOf(mint)` gives what tokens are called, null where that is not known; with `withDates`
 * times have their day. `version()` changes when symbols have.
 */
export function createSwapTable({
  caption,
  columns,
  symbolOf = () => null,
  withDates = false,
  version = () => 0,
}) {
  const known = new Map([...swapColumns({ of: symbolOf }), STATE].map((column) => [column.id, column]));
  if (withDates) {
    known.set("time", {
      id: "time",
      label: "Time",
      content: (swap) => dateTime(swap.block_time_ms),
      cellTitle: (swap) => `Slot ${swap.slot}`,
    });
  }
  return createTable({
    caption,
    captionHidden: true,
    columns: columns.map((id) => known.get(id)),
    key: (row) => row.key,
    rowVersion: (row) => `${row.state} ${version()}`,
    notice: (row) => row.notice ?? null,
    decorate: (tr, row) => tr.classList.toggle("dropped", row.state === "orphaned"),
    empty: "Loading …",
    cards: true,
  });
}
