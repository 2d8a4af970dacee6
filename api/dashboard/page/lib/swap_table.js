// Swaps as a table, on the pages of a token and of a wallet.

import { dateTime } from "./format.js";
import { marked, swapColumns } from "./swap_columns.js";
import { createTable } from "./table.js";

/**
 * Make a table of the rows of a `SwapList`. `columns` are ids of `swapColumns`;
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
  const known = new Map(swapColumns({ of: symbolOf }).map((column) => [column.id, column]));
  if (withDates) {
    known.set("time", {
      id: "time",
      label: "Time",
      content: (swap) => marked(dateTime(swap.block_time_ms), swap.state),
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
  });
}
