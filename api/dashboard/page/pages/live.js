// Swaps as they happen, new launches, and how late both are.

import { element, setText } from "../lib/dom.js";
import { timeOf } from "../lib/event_id.js";
import { amount, count, duration, time } from "../lib/format.js";
import { keep, recall } from "../lib/storage.js";
import { swapColumns } from "../lib/swap_columns.js";
import { Symbols } from "../lib/symbols.js";
import { createTable } from "../lib/table.js";
import { Feed } from "./live/feed.js";
import { createFilters, filterOf, queryOf } from "./live/filters.js";
import { createLaunches } from "./live/launches.js";
import { Latencies, Rate } from "./live/meters.js";

export const title = "Live";

const MOST_ROWS = 100;
const MOST_ROWS_NARROW = 40;
const DRAW_EVERY_MS = 125;
const DRAW_EVERY_CALM_MS = 1_000; // where less motion is wanted
const MOST_A_SECOND = 200; // rows drawn: more nobody reads, and the page would stutter
const FIGURES_EVERY_MS = 1_000;
const HOLD_MS = 2_000; // after the pointer moved over the rows: they stay to be clicked at
const REASONS = {
  trimmed: "The gateway no longer had them.",
  epoch: "The stream began anew.",
  dropped: "The gateway dropped them.",
  lagging: "This page was too slow for them, or its plan's bytes were used up.",
};

/** Show the page; returns what ends it. */
export function mount(root, { api, socket, announce, query }) {
  const isNarrow = matchMedia("(max-width: 40rem)").matches;
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const drawEveryMs = isCalm ? DRAW_EVERY_CALM_MS : DRAW_EVERY_MS;
  const feed = new Feed(isNarrow ? MOST_ROWS_NARROW : MOST_ROWS);
  let rate = null; // while no swaps come, how many there are is not known
  const latencies = new Latencies();
  const rendered = { at: 0, advancedAt: 0, isDirty: false, frame: 0 };
  const gaps = { count: 0, lastMs: null };
  let isPaused = false;
  let heldUntilMs = 0;
  let liveSinceMs = Infinity; // what is older was missed, and is replayed
  let filter = filterOf(query);

  const wantsSymbols = choice("symbols", "Look up symbols of tokens, a credit each");
  const wantsKey = choice("pause-key", "Key p pauses");
  const symbols = new Symbols(api, {
    isWanted: () => wantsSymbols.input.checked,
    onFound: () => (rendered.isDirty = true),
  });
  const figures = createFigures();
  const toggle = { click: () => setPaused(!isPaused) };
  const pause = element("button", { type: "button", "aria-pressed": "false", on: toggle }, "Pause");
  const waiting = element("p", { class: "hint waiting" });
  const credits = element("p", { class: "hint" });
  const filters = createFilters({ filter, onApply: apply });
  const launches = createLaunches({ socket, symbols });
  const table = createTable({
    caption: "Swaps, newest first",
    captionHidden: true,
    columns: swapColumns(symbols),
    key: (row) => row.key,
    notice: (row) => row.notice ?? null,
    rowVersion: (row) => `${row.state} ${row.notice ? "" : row.symbol ?? symbols.of(row.mint) ?? ""}`,
    decorate: (tr, row) => tr.classList.toggle("dropped", row.state === "orphaned"),
    empty: "Connecting …",
    cards: true,
  });
  root.append(
    element("h1", {}, "Live"),
    figures.element,
    element("section", { class: "card controls", "aria-label": "What is shown" },
      element("details", { open: !isNarrow },
        element("summary", {}, "Filters and options: ", filters.inForce),
        filters.element,
        element("div", { class: "row options" }, wantsKey.element, wantsSymbols.element, credits))),
    element("div", { class: "streams" },
      element("section", { class: "card flush swaps", "aria-labelledby": "swaps-title" },
        element("header", { class: "row apart" },
          element("h2", { id: "swaps-title" }, "Swaps"),
          element("div", { class: "row" }, waiting, pause)),
        table.element),
      launches.element),
  );

  // What comes.

  const subscription = socket.subscribe("swaps", filter, {
    onEvent(swap, id) {
      feed.add(swap);
      filters.seen(swap.dex);
      const nowMs = Date.now();
      const { clockOffsetMs } = socket.status;
      if (timeOf(id) - (clockOffsetMs ?? 0) < liveSinceMs) return;
      rate?.add(nowMs);
      if (clockOffsetMs !== null) latencies.add(nowMs, nowMs + clockOffsetMs - swap.block_time_ms);
    },
    onGap({ reason, after, before, message }) {
      gaps.count += 1;
      gaps.lastMs = Date.now();
      feed.note(`Gap: swaps${between(after, before)} may be missing. ${REASONS[reason] ?? message ?? ""}`);
      announce("Gap: some swaps may be missing");
    },
    onState({ state, filter: confirmed, error, isRetried }) {
      if (error !== null) {
        filters.setProblem(error, { isRetried });
        if (!isRetried) announce(`The gateway refused this filter: ${error.message}`);
      } else if (state === "live") {
        liveSinceMs = Date.now();
        filters.setProblem(null);
        table.setEmpty("Waiting for a swap …");
      }
      const isLive = state === "live" || (state === "refused" && confirmed !== null);
      rate = isLive ? new Rate() : null;
      if (state !== "away" && state !== "asking") filters.setInForce(confirmed);
    },
  });
  const status = socket.subscribe("status", {}, {
    onEvent: ({ slot, status: state }) => (rendered.isDirty = feed.settle(slot, state) || rendered.isDirty),
  });
  const stopStates = socket.onState(({ state, words }) => {
    if (state === "connecting") table.setEmpty("Connecting …");
    if (state === "waiting" || state === "refused") {
      table.setEmpty(`Not connected: ${words}. Swaps come as soon as it is.`);
    }
  });
  const stopNotices = socket.onNotice(({ code, message }) => {
    if (message && code !== "lagging") feed.note(message); // which is shown as a gap
  });

  // What is shown.

  function draw(at) {
    rendered.frame = requestAnimationFrame(draw);
    if (at - rendered.at < drawEveryMs) return;
    const budget = Math.ceil((MOST_A_SECOND * (at - rendered.advancedAt)) / 1000);
    const isNew = !isPaused && !isLookedAt() && feed.advance(budget);
    if (isNew) rendered.advancedAt = at;
    if (!isNew && !rendered.isDirty) return;
    rendered.at = at;
    rendered.isDirty = false;
    table.update(feed.rows);
  }

  /** Whether somebody is about to click a row, or has gone to one by keyboard. */
  function isLookedAt() {
    return Date.now() < heldUntilMs || table.element.querySelector("tbody :focus-visible") !== null;
  }

  function hold(event) {
    if (event.pointerType === "mouse" && event.target.closest("tbody")) heldUntilMs = Date.now() + HOLD_MS;
  }

  function setPaused(wanted) {
    isPaused = wanted;
    pause.setAttribute("aria-pressed", String(isPaused));
    announce(isPaused ? "Paused" : "Running");
    showFigures();
  }

  function onKey(event) {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
    if (!wantsKey.input.checked || event.repeat) return;
    event.preventDefault();
    setPaused(!isPaused);
  }

  function apply(wanted) {
    filter = wanted;
    feed.clear();
    table.setEmpty("Waiting for a swap …");
    table.update(feed.rows);
    history.replaceState(null, "", `#/live${queryOf(filter)}`);
    subscription.change(filter);
  }

  function showFigures() {
    const now = Date.now();
    const swapsASecond = rate?.at(now) ?? null;
    const latency = latencies.at(now);
    figures.set({
      rate: swapsASecond === null ? "–" : amount(swapsASecond),
      latency: latency === null ? "–" : `${duration(latency.median)} · ${duration(latency.p99)}`,
      trip: duration(socket.status.rttMs),
      passed: count(feed.passed),
      gaps: gaps.count === 0 ? "none" : `${count(gaps.count)}, last at ${time(gaps.lastMs)}`,
    });
    setText(credits, symbols.problem ?? `${count(symbols.creditsSpent)} spent`);
    const held = `${count(feed.arrived)} ${feed.arrived === 1 ? "waits" : "wait"}`;
    setText(pause, isPaused ? "Go on" : "Pause");
    setText(waiting, isPaused ? `Paused: ${held}` : isLookedAt() ? `Held while you look: ${held}` : "");
  }

  // From here to the end.

  rendered.frame = requestAnimationFrame(draw);
  const timer = setInterval(showFigures, FIGURES_EVERY_MS);
  document.addEventListener("keydown", onKey);
  table.element.addEventListener("pointermove", hold);
  return () => {
    cancelAnimationFrame(rendered.frame);
    clearInterval(timer);
    document.removeEventListener("keydown", onKey);
    for (const each of [subscription, status, launches]) each.stop();
    stopStates();
    stopNotices();
    symbols.stop();
  };
}

/** When events of these ids were published: " between 13:06:12 and 13:06:20"; "" where it is not known. */
function between(after, before) {
  const [from, until] = [after, before].map((id) => timeOf(id) && time(timeOf(id)));
  if (!from || !until) return from ? ` after ${from}` : until ? ` before ${until}` : "";
  return from === until ? ` at ${from}` : ` between ${from} and ${until}`;
}

/** A box to tick that is remembered. */
function choice(name, label) {
  const input = element("input", {
    type: "checkbox",
    checked: recall(name) !== "no",
    on: { change: () => keep(name, input.checked ? null : "no") },
  });
  return { input, element: element("label", { class: "choice" }, input, label) };
}

const FIGURES = [
  ["rate", "Swaps a second", "Of those that the filter lets through, over five seconds"],
  [
    "latency",
    "Chain to page, median · p99",
    "Since the node sent a swap, by the gateway's clock, over ten seconds",
  ],
  ["trip", "Gateway round trip", "A ping, there and back"],
  ["passed", "Passed unseen", "More came than can be read: at most 200 rows a second are drawn, the newest"],
  ["gaps", "Gaps", "Where swaps may be missing; a row says where"],
];

function createFigures() {
  const places = new Map();
  const entries = FIGURES.map(([name, label, about]) => {
    const place = element("dd", {}, "–");
    places.set(name, place);
    return element("div", { title: about }, element("dt", {}, label), place);
  });
  return {
    element: element("dl", { class: "facts card" }, entries),
    set(texts) {
      for (const [name, text] of Object.entries(texts)) setText(places.get(name), text);
    },
  };
}
