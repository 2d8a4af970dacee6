// The trending list, live: a snapshot, then every change. Changes have no places, so the list is read
// anew from time to time, which costs nothing.

import { element, fill, setText } from "../lib/dom.js";
import { count, slug, time } from "../lib/format.js";
import { createTable } from "../lib/table.js";
import { COLUMNS } from "./trending/columns.js";
import { createHistory } from "./trending/history.js";
import { matches, TrendingList } from "./trending/list.js";

export const title = "Trending";

const CHANNEL = "trending-pairs";
const DRAW_MS = 500;
const ANEW_MS = 20_000;
const WARNED_MS = 20_000; // how long a warning stays
const LINES = 20; // that begin before the page did: of so many rows
const SHOWN = [25, 50, 100, 500];

export function mount(root, { api, trending, announce }) {
  const list = new TrendingList();
  const chosen = new Set(); // platforms; none: all
  let words = "";
  let most = SHOWN[1];
  let isPaused = false;
  let heardMs = null;
  let known = ""; // platforms that there are boxes for
  let timer = null;
  let forgetting = null; // the warning
  let subscriptionState = "asking";

  const history = createHistory({
    api,
    found: (mint, points) => {
      list.seed(mint, points);
      draw();
    },
  });
  const table = createTable({
    caption: "Launch tokens that trend, the twenty fields of each",
    captionHidden: true,
    columns: COLUMNS,
    key: ({ mint }) => mint,
    rowVersion: ({ version, rank }) => `${version} ${rank}`,
    order: { column: "rank", descending: false },
    onOrder: drawNow,
    empty: "Waiting for the list …",
    cards: true,
  });

  const state = element("p", { class: "hint", role: "status" });
  const trouble = element("p", { class: "warning", role: "alert", hidden: true });
  const platforms = element("div", { class: "row choices" });
  const pause = element(
    "button",
    { type: "button", "aria-pressed": "false", on: { click: togglePause } },
    "Pause",
  );
  const search = element("input", {
    id: "trending-search",
    type: "search",
    maxlength: 64,
    spellcheck: "false",
    autocomplete: "off",
    placeholder: "Name, symbol or address",
    on: { input: () => changeWords() },
  });
  const shown = element(
    "select",
    { id: "trending-shown", on: { change: () => changeShown() } },
    SHOWN.map((rows) => element("option", { value: rows, selected: rows === most }, rows)),
  );

  fill(
    root,
    element("div", { class: "row apart" }, element("h1", {}, title), state),
    element(
      "section",
      { class: "card filters", "aria-label": "Filters" },
      element("fieldset", { class: "plain" }, element("legend", {}, "Platforms"), platforms),
      field("trending-search", "Find", search),
      field("trending-shown", "Rows", shown),
      pause,
    ),
    trouble,
    element("section", { class: "card flush", "aria-label": "Tokens" }, table.element),
  );

  const subscription = trending.subscribe(CHANNEL, filter(), {
    onSnapshot(records) {
      list.replace(records);
      if (list.size === 0) table.setEmpty("No token trends here now");
      heard();
    },
    onEvent(data, _, frame) {
      if (frame.type === "trending_removed") list.remove(data.mint);
      else list.update(data);
      heard();
    },
    onGap({ message }) {
      warn(`${message ?? "Some changes were missed"}. The list was read anew.`);
      readAnew();
    },
    onState({ state: now, error, isRetried }) {
      if (error) warn(error.message);
      if (now === "away" && list.size === 0) table.setEmpty("Connecting to the gateway …");
      if (now === "live" && list.size === 0) table.setEmpty("Waiting for the list …");
      subscriptionState = isRetried ? "asking" : now;
      say();
    },
  });
  const reading = setInterval(() => {
    if (subscriptionState === "live" && !isPaused && !document.hidden) readAnew();
  }, ANEW_MS);
  document.addEventListener("visibilitychange", draw);
  say();

  function filter() {
    return { dex: chosen.size ? [...chosen].sort() : "*" };
  }

  function readAnew() {
    subscription.change(filter());
  }

  function heard() {
    heardMs = Date.now();
    draw();
  }

  function draw() {
    if (timer === null && !isPaused && !document.hidden) timer = setTimeout(drawNow, DRAW_MS);
  }

  function drawNow() {
    clearTimeout(timer);
    timer = null;
    showPlatforms();
    const fitting = list.rows().filter((row) => matches(row, words));
    const rows = inOrder(fitting, table.order).slice(0, most);
    if (list.size > 0) table.setEmpty("No token of the list fits the filters");
    table.update(rows);
    history.want(rows.slice(0, LINES).map(({ mint }) => mint));
    say(fitting.length);
  }

  function say(fitting = null) {
    const summary = {
      live: isPaused ? "Paused" : "Live",
      asking: "Reading the list …",
      away: "Not connected: this is how it was",
      refused: "Refused",
    }[subscriptionState];
    const tokens = fitting === null ? "" : ` · ${count(fitting)} tokens`;
    // The time is for eyes alone: a status that changes all the time is read out all the time.
    if (fitting !== null || subscriptionState !== "live") setText(state, summary + tokens);
    state.title = heardMs === null ? "" : `Last change at ${time(heardMs)}`;
  }

  function showPlatforms() {
    const all = [...new Set([...list.platforms, ...chosen])].sort();
    if (all.join() === known) return;
    known = all.join();
    fill(
      platforms,
      all.map((platform) =>
        element(
          "label",
          { class: "choice" },
          element("input", {
            type: "checkbox",
            value: platform,
            checked: chosen.has(platform),
            on: { change: ({ target }) => choose(platform, target.checked) },
          }),
          slug(platform),
        ),
      ),
    );
  }

  function choose(platform, isChosen) {
    if (isChosen) chosen.add(platform);
    else chosen.delete(platform);
    readAnew();
    announce(chosen.size ? `Only ${[...chosen].map(slug).join(", ")}` : "All platforms");
  }

  function changeWords() {
    words = search.value.trim();
    drawNow();
  }

  function changeShown() {
    most = Number(shown.value);
    drawNow();
  }

  function togglePause() {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    setText(pause, isPaused ? "Go on" : "Pause");
    announce(isPaused ? "Paused" : "Live again");
    if (isPaused) {
      clearTimeout(timer);
      timer = null;
      say(list.rows().filter((row) => matches(row, words)).length);
    } else drawNow();
  }

  function warn(message) {
    trouble.hidden = false;
    setText(trouble, message);
    clearTimeout(forgetting);
    forgetting = setTimeout(() => (trouble.hidden = true), WARNED_MS);
  }

  return () => {
    subscription.stop();
    history.stop();
    clearInterval(reading);
    clearTimeout(timer);
    clearTimeout(forgetting);
    document.removeEventListener("visibilitychange", draw);
  };
}

function field(id, label, input) {
  return element("div", { class: "field" }, element("label", { for: id }, label), input);
}

/** Rows by a column, those without a value last: which ones are shown is decided by this order. */
function inOrder(rows, { column: id, descending }) {
  const { value } = COLUMNS.find((column) => column.id === id);
  const factor = descending ? -1 : 1;
  return rows.sort((one, other) => {
    const [a, b] = [value(one) ?? null, value(other) ?? null];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return factor * (typeof a === "string" ? a.localeCompare(b, "en") : a - b);
  });
}
