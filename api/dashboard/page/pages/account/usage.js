// Requests of the account by day, and by path.

import { createBars } from "../../lib/bars.js";
import { element } from "../../lib/dom.js";
import { count } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { createTable } from "../../lib/table.js";
import { byPath, requestsOf } from "../../lib/usage.js";

const PERIOD_MS = 10_000;

export function createUsage(account) {
  const bars = createBars({ tick: count });
  const paths = createTable({
    caption: "Requests by path in 30 days",
    key: (row) => row.path,
    cards: true,
    order: { column: "requests", descending: true },
    empty: "No request in 30 days",
    columns: [
      { id: "path", label: "Path", value: (row) => row.path, content: (row) => row.path },
      { id: "today", label: "Today", numeric: true, value: (row) => row.today, content: (row) => count(row.today) },
      { id: "requests", label: "30 days", numeric: true, value: (row) => row.requests, content: (row) => count(row.requests) },
    ],
  });
  const content = element("div", {}, bars.element, paths.element);
  const panel = createPanel({
    title: "Requests by day",
    hint: "Requests that were let in, of all keys and of this page; days are UTC.",
    load: () => account.get("/account/usage.json"),
    show({ days }) {
      const drawn = days.map((row) => {
        const requests = requestsOf(row);
        return { name: row.day.slice(5), title: `${row.day}: ${count(requests)} requests`, value: requests, plain: true };
      });
      const all = drawn.reduce((sum, { value }) => sum + value, 0);
      bars.show(`${count(all)} requests from ${days[0].day} to ${days.at(-1).day}`, drawn);
      paths.update(byPath(days));
      return content.isConnected ? null : content;
    },
    periodMs: () => PERIOD_MS,
  });
  return {
    element: panel.element,
    show() {},
    stop() {
      panel.stop();
      bars.stop();
    },
  };
}
