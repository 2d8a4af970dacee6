// The positions of a wallet, by the page: what it holds, what that is worth, what it gained.

import { isAbort } from "../../lib/api.js";
import { element, fill, link } from "../../lib/dom.js";
import { ago, amount, count, dateTime, exact, harmless, money, price, short } from "../../lib/format.js";
import { createPanel, failureWords } from "../../lib/panel.js";
import { createTable } from "../../lib/table.js";
import { gained } from "./totals.js";

const PERIOD_MS = 30_000;
const PAGE = 50;
const MOST = 500;

/**
 * Make the card of positions. `onLots(mint)` and `onTrades(position)` get what to show,
 * `onRead(positions)` what was read.
 */
export function createPositions({ api, path, onLots, onTrades, onRead }) {
  const rows = new Map(); // mint -> position, pages in the order they came
  let cursor = null; // of the next page
  let hasPages = false; // beyond the first
  const table = createTable({
    caption: "Positions, newest trade first",
    captionHidden: true,
    key: (row) => row.mint,
    cards: true,
    empty: "No positions: since the tape began, this wallet has not traded, received or sent a token.",
    columns: columns({ onLots, onTrades }),
  });
  const problem = element("div", {});
  const moreButton = element("button", { type: "button", hidden: true, on: { click: more } }, "More positions");
  const counted = element("span", { class: "hint" });
  const content = element("div", {}, table.element, problem, element("div", { class: "row inset" }, moreButton, counted));
  const leaving = new AbortController();

  const panel = createPanel({
    title: "Positions",
    flush: true,
    tall: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(path, { query: { limit: PAGE }, signal }),
    show(answer) {
      // Positions that traded have moved to the front: those behind them stay as they were read.
      const older = [...rows.values()];
      rows.clear();
      take(answer.positions);
      for (const row of older) if (!rows.has(row.mint)) rows.set(row.mint, row);
      if (!hasPages) cursor = answer.page.next_cursor;
      draw(answer.totals.position_count);
      return content;
    },
  });

  function take(positions) {
    for (const row of positions) rows.set(row.mint, row);
    onRead(positions);
  }

  function draw(total) {
    table.update([...rows.values()]);
    moreButton.hidden = cursor === null || rows.size >= MOST;
    counted.textContent = total === 0 ? "" : `${count(rows.size)} of ${count(total)} positions`;
    counted.dataset.total = total;
  }

  async function more() {
    moreButton.disabled = true;
    try {
      const query = { limit: PAGE, cursor };
      const answer = await api.get(path, { query, signal: leaving.signal });
      hasPages = true;
      cursor = answer.page.next_cursor;
      fill(problem);
      take(answer.positions);
      draw(answer.totals.position_count);
    } catch (error) {
      if (!isAbort(error)) fill(problem, failureWords(error, { again: more }));
    } finally {
      moreButton.disabled = false;
    }
  }

  return {
    ...panel,
    stop() {
      leaving.abort();
      panel.stop();
    },
  };
}

function columns({ onLots, onTrades }) {
  return [
    { id: "token", label: "Token", value: (row) => named(row), content: token },
    {
      id: "held",
      label: "Holds",
      numeric: true,
      content: (row) => amount(row.held),
      cellTitle: (row) => `${exact(row.held)} in ${count(row.open_lots)} lots${unknownCost(row)}`,
    },
    {
      id: "entry",
      label: "Average entry",
      numeric: true,
      title: "Cost of a token held at a known cost, in dollars",
      content: (row) => price(row.average_entry_usd),
    },
    {
      id: "price",
      label: "Price",
      numeric: true,
      content: (row) => [
        price(row.price_usd),
        row.is_price_stale && [" ", element("span", { class: "badge warn" }, `${ago(row.price_time_ms)}`)],
      ],
      cellTitle: (row) => (row.price_time_ms ? `Last trade ${dateTime(row.price_time_ms)}` : "No price"),
    },
    { id: "value", label: "Value", numeric: true, value: (row) => row.value_usd, content: (row) => money(row.value_usd) },
    {
      id: "unrealized",
      label: "Unrealized",
      numeric: true,
      value: (row) => row.unrealized_usd,
      content: (row) => gained(row.unrealized_usd, row.unrealized_pct),
      cellTitle: (row) => (row.unknown_cost_raw === "0" ? null : `Without ${amount(row.unknown_cost)} of unknown cost`),
    },
    {
      id: "realized",
      label: "Realized",
      numeric: true,
      value: (row) => row.realized_usd,
      content: (row) => gained(row.realized_usd, row.realized_pct),
      cellTitle: (row) => `${amount(row.realized_sol, { sign: true })} SOL, without fees`,
    },
    {
      id: "unmatched",
      label: "Unmatched",
      numeric: true,
      title: "Sold or burned without a known cost or value: no gain and no loss",
      content: (row) => (row.unmatched_raw === "0" ? "none" : amount(row.unmatched)),
    },
    {
      id: "moved",
      label: "Bought / sold",
      numeric: true,
      content: (row) => `${money(row.bought_usd)} / ${money(row.sold_usd)}`,
      cellTitle: (row) => `${count(row.buys)} purchases, ${count(row.sells)} sales`,
    },
    {
      id: "last",
      label: "Last trade",
      value: (row) => row.last_trade_ms,
      content: (row) => ago(row.last_trade_ms),
      cellTitle: (row) => dateTime(row.last_trade_ms),
    },
    {
      id: "more",
      label: "Details",
      content: (row) => [
        button("Lots", `Lots of ${named(row)}`, () => onLots(row.mint)),
        " ",
        button("Trades", `Trades of ${named(row)}`, () => onTrades(row)),
      ],
    },
  ];
}

/** The symbol or name of a position's token, or its address cut short. */
export function named(row) {
  return harmless(row.symbol, 16) ?? harmless(row.name, 16) ?? short(row.mint);
}

function token(row) {
  return link(`#/token/${row.mint}`, element("bdi", {}, named(row)), { title: row.mint });
}

function unknownCost(row) {
  return row.unknown_cost_raw === "0" ? "" : `, ${amount(row.unknown_cost)} of it without a known cost`;
}

function button(text, label, click) {
  return element("button", { type: "button", class: "small", "aria-label": label, on: { click } }, text);
}
