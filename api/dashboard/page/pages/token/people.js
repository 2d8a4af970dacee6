// Who holds most of a token, and who gained most with it.

import { element, link } from "../../lib/dom.js";
import { ago, amount, count, dateTime, exact, money, percent, short } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { createTable, gain } from "../../lib/table.js";

const PERIOD_MS = 60_000;
const TOP = 20;

/** Make the card of the largest holders. */
export function createHolders({ api, mint }) {
  let creator = null;
  const table = createTable({
    caption: "Largest holders",
    captionHidden: true,
    key: (row) => row.address,
    empty: "Nobody was seen to hold it.",
    columns: [
      { id: "rank", label: "Rank", numeric: true, content: (row) => String(row.rank) },
      {
        id: "owner",
        label: "Owner",
        content: (row) => [wallet(row.address), row.address === creator && " creator"],
      },
      {
        id: "balance",
        label: "Balance",
        numeric: true,
        content: (row) => amount(row.balance),
        cellTitle: (row) => exact(row.balance),
      },
      {
        id: "share",
        label: "Of supply",
        numeric: true,
        content: (row) => [
          element("meter", { min: "0", max: "100", value: row.supply_pct ?? 0, "aria-hidden": "true" }),
          element("span", { class: "share" }, percent(row.supply_pct)),
        ],
      },
    ],
  });
  const coverage = element("p", { class: "hint inset" });
  const total = element("span", { class: "hint" });
  const content = element("div", {}, table.element, coverage);
  const panel = createPanel({
    title: "Holders",
    flush: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(`/api/tokens/${mint}/holders`, { query: { limit: TOP }, signal }),
    show(answer) {
      creator = answer.creator;
      table.update(answer.holders);
      coverage.textContent = answer.coverage.note;
      total.textContent = totalWords(answer);
      return content;
    },
  });
  panel.head.append(total);
  return panel;
}

/** Make the card of those who realized most. */
export function createTraders({ api, mint }) {
  const table = createTable({
    caption: "Top traders by realized gain",
    captionHidden: true,
    key: (row) => row.wallet,
    empty: "Nobody has realized a gain or a loss with it yet.",
    columns: [
      { id: "rank", label: "Rank", numeric: true, content: (row) => String(row.rank) },
      { id: "wallet", label: "Wallet", content: (row) => wallet(row.wallet, mint) },
      {
        id: "realized",
        label: "Realized",
        numeric: true,
        title: "Gain of what was sold, first in, first out, without fees",
        content: (row) => gain(row.realized_usd, money(row.realized_usd, { sign: true })),
        cellTitle: (row) => `${amount(row.realized_sol, { sign: true })} SOL`,
      },
      { id: "pct", label: "Of cost", numeric: true, content: (row) => percent(row.realized_pct, { sign: true }) },
      { id: "bought", label: "Bought", numeric: true, content: (row) => money(row.bought_usd) },
      { id: "sold", label: "Sold", numeric: true, content: (row) => money(row.sold_usd) },
      { id: "held", label: "Holds", numeric: true, content: (row) => amount(row.held) },
      {
        id: "unmatched",
        label: "Unmatched",
        numeric: true,
        title: "Sold or burned without a known cost: no gain and no loss",
        content: (row) => (row.unmatched_raw === "0" ? "none" : amount(row.unmatched)),
      },
      {
        id: "trades",
        label: "Buys / sells",
        numeric: true,
        content: (row) => `${count(row.buys)} / ${count(row.sells)}`,
        cellTitle: (row) => `${count(row.wins)} sales with a gain, ${count(row.losses)} with a loss`,
      },
      {
        id: "last",
        label: "Last trade",
        content: (row) => ago(row.last_trade_ms),
        cellTitle: (row) => dateTime(row.last_trade_ms),
      },
    ],
  });
  return createPanel({
    title: "Top traders",
    flush: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(`/api/tokens/${mint}/leaderboard`, { query: { limit: TOP }, signal }),
    show(answer) {
      table.update(answer.traders);
      return table.element;
    },
  });
}

/** How many hold it, and what share those that are listed have: not said where one's is unknown. */
function totalWords({ holder_count: all, holders }) {
  if (holders.length === 0) return "";
  const shares = holders.map((row) => row.supply_pct);
  if (shares.includes(null)) return `${count(all)} in all`;
  const share = shares.reduce((sum, each) => sum + each, 0);
  return `${count(all)} in all; these ${holders.length} hold ${percent(share)}`;
}

function wallet(address, mint = null) {
  const query = mint === null ? "" : `?lots=${mint}`;
  return link(`#/wallet/${address}${query}`, short(address), { class: "mono", title: address });
}
