// What a wallet was worth, over time, as bars and as a table; an hour without a snapshot is empty.

import { createBars } from "../../lib/bars.js";
import { element, setText } from "../../lib/dom.js";
import { count, dateTime, money, roundMoney } from "../../lib/format.js";
import { barName, everyInterval, overTimeWords, pointWords } from "../../lib/networth.js";
import { createPanel } from "../../lib/panel.js";
import { createTable } from "../../lib/table.js";
import { DAY_MS } from "../../lib/times.js";

const PERIOD_MS = 60_000;
const RANGES = [
  { words: "2 days, by the hour", interval: "1h", lengthMs: 2 * DAY_MS },
  { words: "2 weeks, by four hours", interval: "4h", lengthMs: 14 * DAY_MS },
  { words: "90 days", interval: "1d", lengthMs: 90 * DAY_MS },
  { words: "300 days", interval: "1d", lengthMs: 300 * DAY_MS },
];

/** Make the card of a wallet's net worth over time. */
export function createOverTime({ api, path }) {
  let range = RANGES[0];
  const bars = createBars({ tick: roundMoney });
  const hint = element("p", { class: "hint" });
  const table = snapshotTable();
  const drawn = element(
    "div",
    {},
    bars.element,
    element("details", {}, element("summary", {}, "As a table"), table.element),
  );
  const nothing = element("p", { class: "empty" }, "No snapshot yet: one is taken an hour while the wallet is tracked.");
  const content = element("div", {}, nothing, drawn, hint);

  const panel = createPanel({
    title: "Worth over time",
    periodMs: () => PERIOD_MS,
    async load(signal) {
      const asked = range;
      const query = { interval: asked.interval };
      return { asked, answer: await api.get(`${path}/networth`, { query, signal }) };
    },
    show({ asked, answer }) {
      const rows = everyInterval(answer, asked.lengthMs);
      const words = overTimeWords(answer, rows);
      nothing.hidden = rows.length > 0;
      drawn.hidden = rows.length === 0;
      setText(hint, asked.interval === "1d" ? `${words} Days are UTC.` : words);
      table.update(rows.filter((row) => !row.isGap).toReversed());
      bars.show(`Worth over time. ${words}`, rows.map((row) => bar(row, answer.interval_ms)));
      return content;
    },
  });
  panel.head.append(
    element(
      "select",
      {
        "aria-label": "Time",
        on: {
          change(event) {
            range = RANGES[Number(event.target.value)];
            panel.reload();
          },
        },
      },
      RANGES.map(({ words }, place) => element("option", { value: String(place) }, words)),
    ),
  );
  return {
    ...panel,
    stop() {
      panel.stop();
      bars.stop();
    },
  };
}

function bar(row, stepMs) {
  const value = row.isGap ? null : row.net_worth_usd;
  return { name: barName(row.start_ms, stepMs), title: pointWords(row), value, plain: value > 0 };
}

function snapshotTable() {
  return createTable({
    caption: "Worth by snapshot, newest first; times without one are left out",
    key: (row) => row.start_ms,
    cards: true,
    order: { column: "time", descending: true },
    columns: [
      { id: "time", label: "As of", value: (row) => row.time_ms, content: (row) => dateTime(row.time_ms) },
      { id: "worth", label: "Net worth", numeric: true, value: (row) => row.net_worth_usd, content: (row) => money(row.net_worth_usd) },
      { id: "assets", label: "Assets", numeric: true, content: (row) => money(row.assets_usd) },
      { id: "debts", label: "Debts", numeric: true, content: (row) => money(row.debts_usd) },
      { id: "slot", label: "Slot", numeric: true, content: (row) => count(row.slot) },
    ],
  });
}
