// New tokens, as launch platforms make them.

import { element, fill, foreign, link, setText } from "../../lib/dom.js";
import { ago, dateTime, short, slug } from "../../lib/format.js";
import { createTable } from "../../lib/table.js";

const MOST = 30;
const EVERY_MS = 1_000; // ages grow

/** Make the panel, which follows `creations`. Returns `{element, stop()}`. */
export function createLaunches({ socket, symbols }) {
  let rows = [];
  let notices = 0;
  const platforms = new Set();

  const problem = element("p", { class: "problem", role: "alert", hidden: true });
  const anyPlatform = () => element("option", { value: "" }, "All platforms");
  const select = element("select", { id: "launch-platform", on: { change } }, anyPlatform());
  const table = createTable({
    caption: "New launches, newest first",
    captionHidden: true,
    columns: COLUMNS,
    key: (row) => row.key,
    notice: (row) => row.notice ?? null,
    empty: "Waiting for a launch …",
  });
  const panel = element(
    "section",
    { class: "card flush launches", "aria-labelledby": "launches-title" },
    element(
      "header",
      { class: "row apart" },
      element("h2", { id: "launches-title" }, "New launches"),
      element("label", { class: "unseen", for: "launch-platform" }, "Launch platform"),
      element("div", {}, select),
    ),
    problem,
    table.element,
  );

  const subscription = socket.subscribe("creations", {}, {
    onEvent: (creation) => {
      symbols.learn(creation.mint, creation.symbol);
      offer(creation.platform);
      const key = `${creation.signature}-${creation.event_index}`;
      put({ ...creation, key }); // once: one that left the chain may come again
    },
    onGap: ({ message }) => {
      notices += 1;
      const notice = `Launches may be missing here. ${message ?? ""}`;
      put({ key: `notice-${notices}`, notice });
    },
    onState: ({ error, isRetried }) => {
      problem.hidden = error === null;
      const about = isRetried ? "Launches do not come now" : "The gateway refused this";
      setText(problem, error === null ? "" : `${about}: ${error.message}`);
    },
  });
  const timer = setInterval(() => table.update(rows), EVERY_MS);

  function put(row) {
    rows = [row, ...rows.filter(({ key }) => key !== row.key)].slice(0, MOST);
  }

  function offer(platform) {
    if (!platform || platforms.has(platform) || platforms.size > 50) return;
    platforms.add(platform);
    const options = [...platforms].sort().map((name) => element("option", { value: name }, slug(name)));
    const { value } = select;
    fill(select, anyPlatform(), options);
    select.value = value;
  }

  function change() {
    rows = [];
    table.setEmpty("Waiting for a launch …");
    table.update(rows);
    subscription.change(select.value ? { platforms: [select.value] } : {});
  }

  return {
    element: panel,
    stop() {
      clearInterval(timer);
      subscription.stop();
    },
  };
}

const COLUMNS = [
  {
    id: "token",
    label: "Token and platform",
    content: ({ mint, name, symbol, platform, dex }) => [
      element(
        "a",
        { href: `#/token/${encodeURIComponent(mint)}`, title: mint },
        foreign(symbol, { longest: 12, otherwise: short(mint), class: "symbol" }),
        " ",
        foreign(name, { longest: 24, otherwise: "", class: "muted" }),
      ),
      element("div", { class: "hint" }, slug(platform || dex)),
    ],
  },
  {
    id: "creator",
    label: "Creator",
    content: ({ creator }) =>
      link(`#/wallet/${encodeURIComponent(creator)}`, short(creator), { class: "mono", title: creator }),
  },
  {
    id: "age",
    label: "Age",
    content: ({ block_time_ms: at }) => ago(at),
    cellTitle: ({ block_time_ms: at }) => dateTime(at),
  },
];
