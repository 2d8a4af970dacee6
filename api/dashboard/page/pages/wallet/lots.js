// Why a position's gain is what it is: open lots, what each sale took of which lot, and the check
// that all of it adds up to the last unit.

import { isAbort } from "../../lib/api.js";
import { audit } from "../../lib/audit.js";
import { element, fill, setText } from "../../lib/dom.js";
import { amount, count, dateTime, exact, money, price, short } from "../../lib/format.js";
import { failureWords } from "../../lib/panel.js";
import { transaction } from "../../lib/swap_columns.js";
import { createTable } from "../../lib/table.js";
import { named } from "./positions.js";
import { fact, gained } from "./totals.js";

const PAGE = 100;
const MOST = 2_000; // matches on the page
const KINDS = {
  sale: "Sale",
  transfer: "Sent away: no gain",
  burn: "Burned by the wallet: sold for nothing",
};

/** Make the card of a position's lots: `{element, choose(mint), stop()}`; hidden until chosen. */
export function createLots({ api, path, onClose }) {
  let leaving = new AbortController();
  let mint = null;
  let cursor = null;
  let position = null;
  let openLots = new Map(); // number -> lot
  let matches = new Map();
  let opener = null; // the button that was pressed: the focus goes back to it

  const heading = element("h2", { tabindex: "-1" }, "Lots");
  const close = element("button", { type: "button", on: { click: shut } }, "Close");
  const facts = element("dl", { class: "facts inset" });
  const problem = element("div", {});
  const verdict = element("div", { class: "inset" });
  const openTable = createTable({
    caption: "Open lots, oldest first: what is held, and what it has cost",
    key: (row) => row.number,
    empty: "No open lots: nothing that was bought or received is held still.",
    columns: openColumns(),
  });
  const matchTable = createTable({
    caption: "Matches, newest first: what each sale, transfer or burn took of a lot",
    key: (row) => row.key,
    empty: "No matches: nothing was sold, sent away or burned.",
    columns: matchColumns(),
  });
  const moreButton = element("button", { type: "button", hidden: true, on: { click: () => next() } }, "More lots and matches");
  const content = element(
    "div",
    { hidden: true },
    facts,
    openTable.element,
    matchTable.element,
    element("div", { class: "row inset" }, moreButton),
    verdict,
  );
  const empty = element("p", { class: "empty" }, "Loading …");
  const whole = element(
    "section",
    { class: "card flush tall", "aria-label": "Lots", hidden: true },
    element("header", { class: "row apart" }, heading, close),
    problem,
    empty,
    content,
  );

  async function next() {
    const { signal } = leaving;
    moreButton.disabled = true;
    try {
      const query = { limit: PAGE, cursor };
      const answer = await api.get(`${path}/${encodeURIComponent(mint)}/lots`, { query, signal });
      if (position !== null && answer.position.changed_slot !== position.changed_slot) {
        // Pages of two states do not add up: the newer one is read from its beginning.
        forget();
        return void next();
      }
      take(answer);
      fill(problem);
      draw();
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      empty.hidden = true;
      const again = ["no_position", "invalid_address"].includes(error.code) ? null : next;
      fill(problem, failureWords(error, { isStale: position !== null, again }));
    } finally {
      if (!signal.aborted) moreButton.disabled = false;
    }
  }

  function take(answer) {
    position = answer.position;
    cursor = answer.page.next_cursor;
    for (const lot of answer.open_lots) openLots.set(lot.number, lot);
    for (const match of answer.matches) {
      const key = [match.slot, match.tx_index, match.event_index, match.kind, match.lot_number].join("-");
      matches.set(key, { ...match, key });
    }
  }

  function draw() {
    empty.hidden = true;
    content.hidden = false;
    setText(heading, `Lots of ${named(position)}`);
    fill(
      facts,
      fact("Holds", amount(position.held), exact(position.held)),
      fact("Cost of that", money(position.held_cost_usd)),
      fact("Of unknown cost", amount(position.unknown_cost), "Received, or bought at an unknown value"),
      fact("Worth", money(position.value_usd), priceTitle(position)),
      fact("Unrealized", gained(position.unrealized_usd, position.unrealized_pct)),
      fact("Realized", gained(position.realized_usd, position.realized_pct)),
      fact("Unmatched", amount(position.unmatched), "Disposed of without a known cost or value: no gain, no loss"),
    );
    openTable.update([...openLots.values()]);
    matchTable.update([...matches.values()]);
    moreButton.hidden = cursor === null || matches.size >= MOST;
    drawVerdict();
  }

  function drawVerdict() {
    if (cursor !== null) {
      const progress = `${count(openLots.size)} open lots and ${count(matches.size)} matches are read so far; all of them together add up to the position.`;
      return fill(verdict, element("p", { class: "hint" }, progress));
    }
    const lines = audit(position, [...openLots.values()], [...matches.values()]);
    const isRight = lines.every((line) => line.isEqual);
    return fill(
      verdict,
      element(
        "p",
        { class: isRight ? "hint" : "problem" },
        isRight
          ? "Checked here, to the last unit: the lots and matches above add up to what is held, what it has cost, and what was realized."
          : "These lots and matches do not add up to the position: it may have changed while they were read.",
      ),
      element(
        "details",
        {},
        element("summary", {}, "The sums"),
        element(
          "ul",
          {},
          lines.map(({ what, stated, found }) => element("li", {}, `${what}: stated ${stated}, found ${found}`)),
        ),
      ),
    );
  }

  function forget() {
    position = null;
    cursor = null;
    openLots = new Map();
    matches = new Map();
  }

  function shut() {
    leaving.abort();
    whole.hidden = true;
    onClose(mint);
    if (opener?.isConnected) opener.focus();
  }

  return {
    element: whole,
    /** Show the lots of a token, and go there. */
    choose(wanted, { isQuiet = false } = {}) {
      leaving.abort();
      leaving = new AbortController();
      mint = wanted;
      forget();
      setText(heading, `Lots of ${short(mint)}`);
      fill(problem);
      empty.hidden = false;
      content.hidden = true;
      whole.hidden = false;
      next();
      if (isQuiet) return;
      opener = document.activeElement;
      heading.focus({ preventScroll: true });
      whole.scrollIntoView({ block: "start" });
    },
    stop: () => leaving.abort(),
  };
}

function openColumns() {
  return [
    { id: "number", label: "Lot", numeric: true, content: (row) => String(row.number) },
    { id: "time", label: "Opened", content: (row) => dateTime(row.time_ms), cellTitle: (row) => `Slot ${row.slot}, transaction ${row.tx_index}` },
    { id: "opened", label: "Opened with", numeric: true, content: (row) => amount(row.opened), cellTitle: (row) => exact(row.opened) },
    { id: "quantity", label: "Held still", numeric: true, content: (row) => amount(row.quantity), cellTitle: (row) => exact(row.quantity) },
    { id: "usd", label: "Cost, USD", numeric: true, content: (row) => cost(row.cost_usd, money) },
    { id: "sol", label: "Cost, SOL", numeric: true, content: (row) => cost(row.cost_sol, amount) },
    {
      id: "each",
      label: "A token, USD",
      numeric: true,
      content: (row) => price(row.quantity > 0 && row.cost_usd !== null ? row.cost_usd / row.quantity : null),
    },
  ];
}

function matchColumns() {
  return [
    { id: "kind", label: "What", content: (row) => KINDS[row.kind] ?? row.kind },
    { id: "time", label: "Time", content: (row) => dateTime(row.time_ms), cellTitle: (row) => `Slot ${row.slot}, transaction ${row.tx_index}` },
    {
      id: "lot",
      label: "Lot",
      content: (row) =>
        row.lot_number === null ? "none: more than all lots held" : `${row.lot_number} of ${dateTime(row.lot_time_ms)}`,
    },
    { id: "quantity", label: "Quantity", numeric: true, content: (row) => amount(row.quantity), cellTitle: (row) => exact(row.quantity) },
    { id: "cost", label: "Cost", numeric: true, content: (row) => cost(row.cost_usd, money), cellTitle: (row) => `${amount(row.cost_sol)} SOL` },
    {
      id: "proceeds",
      label: "Proceeds",
      numeric: true,
      content: (row) => money(row.proceeds_usd),
      cellTitle: (row) => `${amount(row.proceeds_sol)} SOL`,
    },
    {
      id: "realized",
      label: "Realized",
      numeric: true,
      content: (row) => gained(row.realized_usd, null),
      cellTitle: (row) => `${amount(row.realized_sol, { sign: true })} SOL`,
    },
    {
      id: "transaction",
      label: "Transaction",
      content: (row) => transaction(row.signature),
    },
  ];
}

function cost(value, format) {
  return value === null ? "unknown" : format(value);
}

function priceTitle({ price_usd: usd, price_time_ms: timeMs, is_price_stale: isStale }) {
  if (usd === null) return "No price is known";
  return `At ${exact(usd)} dollars, of ${dateTime(timeMs)}${isStale ? ": more than an hour old" : ""}`;
}
