// The latest swaps of a token: live ones on top, older ones by the page.

import { isAbort } from "../../lib/api.js";
import { element, fill, setText } from "../../lib/dom.js";
import { count } from "../../lib/format.js";
import { failureWords } from "../../lib/panel.js";
import { refresh } from "../../lib/refresh.js";
import { SwapList } from "../../lib/swap_list.js";
import { SwapPages } from "../../lib/swap_pages.js";
import { createSwapTable } from "../../lib/swap_table.js";

const SHOWN = 100; // while nobody asks for older ones
const MOST = 1_000;
const PAGE = 50;
const DRAW_EVERY_MS = 500;
const ALONE_MS = 15_000; // between two questions while no live events come
const LIVE_MS = 60_000; // and while they do
const COLUMNS = [
  ...["time", "type", "token", "amount", "price", "usd", "sol", "wallet"],
  ...["dex", "fee", "tip", "transaction"],
];

/** Make the card of a token's swaps. `isLive()` says whether live events come. */
export function createTokenSwaps({ api, mint, announce, isLive }) {
  const path = `/api/tokens/${mint}/swaps`;
  const list = new SwapList(SHOWN);
  const pages = new SwapPages(api, path, { limit: PAGE });
  const leaving = new AbortController();
  const { signal } = leaving;
  let drawn = null;
  let isPaused = false; // what comes is kept, and not shown
  let waiting = 0; // swaps that came since
  let hasBegun = false;

  const table = createSwapTable({
    caption: "Latest swaps, newest first",
    columns: COLUMNS,
  });
  const problem = element("div", { hidden: true });
  const pauseButton = element(
    "button",
    { type: "button", "aria-pressed": "false", on: { click: pause } },
    "Pause",
  );
  const olderButton = element(
    "button",
    { type: "button", hidden: true, on: { click: older } },
    "Older swaps",
  );
  const ending = element("p", { class: "hint" });
  const whole = element(
    "section",
    { class: "card flush tall", "aria-label": "Swaps" },
    element(
      "header",
      { class: "row apart" },
      element("h2", {}, "Swaps"),
      element("span", { class: "hint" }, "○ processed, ● confirmed, ✕ dropped by the chain"),
      pauseButton,
    ),
    problem,
    table.element,
    element("div", { class: "row inset" }, olderButton, ending),
  );

  const asking = refresh(
    async () => {
      try {
        if (!hasBegun) {
          list.add(await pages.next(signal));
          hasBegun = true;
        } else {
          const { swaps } = await api.get(path, { query: { limit: SHOWN }, signal });
          list.add(swaps);
        }
        problem.hidden = true;
        draw();
      } catch (error) {
        if (isAbort(error) || signal.aborted) return;
        showFailure(error, () => asking.now());
        throw error;
      }
    },
    () => (isLive() ? LIVE_MS : ALONE_MS),
  );

  async function older() {
    goOn();
    list.allow(Math.min(MOST, list.size + 2 * PAGE)); // live ones come while we wait
    olderButton.disabled = true;
    try {
      const swaps = await pages.next(signal);
      list.add(swaps);
      draw();
      announce(pages.ending ?? `${count(swaps.length)} older swaps`);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      showFailure(error, older);
    } finally {
      olderButton.disabled = false;
    }
  }

  function showFailure(error, again) {
    problem.hidden = false;
    if (!hasBegun) table.setEmpty("");
    fill(problem, failureWords(error, { isStale: hasBegun, again }));
  }

  function draw() {
    clearTimeout(drawn);
    drawn = null;
    if (isPaused) return;
    const isFull = list.size >= MOST;
    trim();
    table.setEmpty(
      hasBegun ? "No swap within the last 24 hours; there may be older ones." : "Loading …",
    );
    table.update(list.rows());
    olderButton.hidden = !hasBegun || pages.ending !== null || isFull;
    setText(
      ending,
      isFull ? `The ${count(MOST)} newest that were asked for are shown.` : (pages.ending ?? ""),
    );
  }

  function drawSoon() {
    drawn ??= setTimeout(draw, DRAW_EVERY_MS);
  }

  function trim() {
    const oldestMs = list.trim();
    if (oldestMs !== null) pages.restart(oldestMs);
  }

  function pause() {
    if (isPaused) return goOn();
    isPaused = true;
    pauseButton.setAttribute("aria-pressed", "true");
    setText(pauseButton, "Go on");
  }

  function goOn() {
    isPaused = false;
    waiting = 0;
    pauseButton.setAttribute("aria-pressed", "false");
    setText(pauseButton, "Pause");
    draw();
  }

  return {
    element: whole,
    /** A live swap of the token. */
    swap(event) {
      list.add([event]);
      drawSoon();
      if (!isPaused) return;
      waiting += 1;
      if (list.size > MOST) trim();
      setText(pauseButton, `Go on: ${count(waiting)} new`);
    },
    /** What became of a slot. */
    become(slot, state) {
      if (list.become(slot, state)) drawSoon();
    },
    /** Events may be missing. */
    gap(message) {
      list.note(message);
      drawSoon();
      asking.now();
    },
    /** No live events come any more, or they do again. */
    catchUp: () => asking.now(),
    stop() {
      leaving.abort();
      asking.stop();
      clearTimeout(drawn);
    },
  };
}
