// The days of a wallet: what was realized, or how much was traded, as bars and as a table.

import { createBars } from "../../lib/bars.js";
import { dayMs, dayOf, everyDay, firstKnown } from "../../lib/days.js";
import { element, setText } from "../../lib/dom.js";
import { amount, count, money, roundMoney } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { createTable, gain } from "../../lib/table.js";
import { DAY_MS } from "../../lib/times.js";
import { OF_KNOWN_VALUE } from "../../lib/volume_words.js";
import { gained } from "./totals.js";

const RANGES = [30, 90, 365];
const KINDS = {
  pnl: { words: "Realized", path: "pnl/daily" },
  trades: { words: "Volume", path: "trades/daily" },
};

/** Make the card of a wallet's days. */
export function createDaily({ api, path }) {
  let kind = "pnl";
  let length = RANGES[0];
  const bars = createBars({ tick: roundMoney });
  const summary = element("p", { class: "hint" });
  const tables = { pnl: pnlTable(), trades: tradesTable() };
  const nothing = element("p", { class: "empty" });
  const drawn = element(
    "div",
    {},
    bars.element,
    summary,
    element("details", {}, element("summary", {}, "As a table"), tables.pnl.element, tables.trades.element),
  );
  const content = element("div", {}, nothing, drawn);

  const kindSelect = select("What", Object.entries(KINDS).map(([id, { words }]) => [id, words]), (value) => {
    kind = value;
    panel.reload();
  });
  const rangeSelect = select("Days", RANGES.map((days) => [days, `${days} days`]), (value) => {
    length = Number(value);
    panel.reload();
  });

  const panel = createPanel({
    title: "By day",
    async load(signal) {
      // The chain's today is what the API answers without `to`; `from` counts back from ours.
      const query = length === RANGES[0] ? {} : { from: dayOf(Date.now() - (length - 1) * DAY_MS) };
      return { kind, answer: await api.get(`${path}/${KINDS[kind].path}`, { query, signal }) };
    },
    show({ kind: shown, answer }) {
      const { from_day: asked, to_day: last, total } = answer;
      const first = firstKnown(answer);
      const before = first === asked ? "" : " Days before that are not recorded.";
      const days = everyDay(answer.days, first, last);
      const isIdle = answer.days.length === 0;
      nothing.hidden = !isIdle;
      setText(nothing, `No trade from ${first} to ${last}.${before}`);
      drawn.hidden = isIdle;
      const words =
        shown === "pnl"
          ? `${money(total.realized_usd, { sign: true })} realized from ${first} to ${last}, ${count(total.wins)} sales with a gain, ${count(total.losses)} with a loss`
          : `${money(total.volume_usd)} traded from ${first} to ${last} in ${count(total.trades)} trades`;
      setText(summary, `${words}.${before} Days are UTC.`);
      for (const [name, table] of Object.entries(tables)) table.element.hidden = name !== shown;
      tables[shown].update(answer.days.toReversed());
      bars.show(words, days.map((day) => bar(day, shown)));
      return content;
    },
  });
  panel.head.append(element("div", { class: "row" }, kindSelect, rangeSelect));
  return {
    ...panel,
    stop() {
      panel.stop();
      bars.stop();
    },
  };
}

function bar(row, kind) {
  const name = row.day.slice(5);
  if (row.isIdle) return { name, title: `${row.day}: no trade`, value: null };
  if (kind === "pnl") {
    return { name, title: `${row.day}: ${money(row.realized_usd, { sign: true })}`, value: row.realized_usd };
  }
  const title = `${row.day}: ${money(row.volume_usd)} in ${count(row.trades)} trades`;
  return { name, title, value: row.volume_usd, plain: true };
}

function pnlTable() {
  return createTable({
    caption: "Realized by day, newest first; days without a trade are left out",
    key: (row) => row.day,
    cards: true,
    order: { column: "day", descending: true },
    columns: [
      { id: "day", label: "Day", value: (row) => dayMs(row.day), content: (row) => row.day },
      {
        id: "realized",
        label: "Realized",
        numeric: true,
        value: (row) => row.realized_usd,
        content: (row) => gained(row.realized_usd, row.realized_pct),
      },
      { id: "sol", label: "Realized, SOL", numeric: true, content: (row) => gain(row.realized_sol, amount(row.realized_sol, { sign: true })) },
      { id: "bought", label: "Bought", numeric: true, value: (row) => row.bought_usd, content: (row) => money(row.bought_usd) },
      { id: "sold", label: "Sold", numeric: true, value: (row) => row.sold_usd, content: (row) => money(row.sold_usd) },
      { id: "wins", label: "Gains / losses", numeric: true, content: (row) => `${count(row.wins)} / ${count(row.losses)}` },
      { id: "unmatched", label: "Unmatched sales", numeric: true, content: (row) => count(row.unmatched_sales) },
      { id: "fees", label: "Fees and tips, SOL", numeric: true, content: (row) => amount(row.fee_sol + row.tip_sol) },
    ],
  });
}

function tradesTable() {
  return createTable({
    caption: "Volume by day, newest first; days without a trade are left out",
    key: (row) => row.day,
    cards: true,
    order: { column: "day", descending: true },
    columns: [
      { id: "day", label: "Day", value: (row) => dayMs(row.day), content: (row) => row.day },
      { id: "volume", label: "Volume", numeric: true, title: OF_KNOWN_VALUE, value: (row) => row.volume_usd, content: (row) => money(row.volume_usd) },
      { id: "bought", label: "Bought", numeric: true, content: (row) => money(row.bought_usd) },
      { id: "sold", label: "Sold", numeric: true, content: (row) => money(row.sold_usd) },
      { id: "trades", label: "Buys / sells", numeric: true, content: (row) => `${count(row.buys)} / ${count(row.sells)}` },
      { id: "fees", label: "Fees and tips, SOL", numeric: true, content: (row) => amount(row.fee_sol + row.tip_sol) },
    ],
  });
}

function select(label, choices, onChoose) {
  return element(
    "select",
    { "aria-label": label, on: { change: (event) => onChoose(event.target.value) } },
    choices.map(([value, words]) => element("option", { value: String(value) }, words)),
  );
}
