// What became of each venue's instructions in the last hour.

import { count, percent, slug } from "../../lib/format.js";
import { createTable } from "../../lib/table.js";

/** Return `{element, show(answer)}` for what `/api/system` says. */
export function createVenues() {
  const table = createTable({
    caption: "Outcomes by venue, the last hour",
    captionHidden: true,
    columns: [
      {
        id: "dex",
        label: "Venue",
        value: ({ dex }) => dex,
        content: ({ dex }) => (dex === null ? "of no venue" : slug(dex)),
      },
      number("swaps", "Swaps", "Pool legs"),
      number("decoded", "Decoded", "Instructions that gave events"),
      number("unknown", "Unknown", "Instructions that the decoder has no name for"),
      number("malformed", "Malformed", "Instructions whose bytes do not fit"),
      {
        id: "understood",
        label: "Understood",
        title: "Decoded, of all",
        numeric: true,
        value: understoodPct,
        content: (venue) => percent(understoodPct(venue)),
      },
    ],
    key: ({ dex }) => dex ?? "",
    order: { column: "swaps", descending: true },
    decorate: (row, { unknown, malformed }) =>
      row.classList.toggle("suspect", unknown + malformed > 0),
    empty: "No venue had an instruction within the last hour",
  });
  return { element: table.element, show: ({ venues }) => table.update(venues) };
}

function number(id, label, title) {
  const value = (venue) => venue[id];
  return { id, label, title, numeric: true, value, content: (venue) => count(venue[id]) };
}

function understoodPct({ decoded, unknown, malformed }) {
  const all = decoded + unknown + malformed;
  return all === 0 ? null : (100 * decoded) / all;
}
