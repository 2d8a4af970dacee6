// Every swap of a wallet, or those in one token, newest first, by the page.

import { isAbort } from "../../lib/api.js";
import { element, fill, setText } from "../../lib/dom.js";
import { count } from "../../lib/format.js";
import { failureWords } from "../../lib/panel.js";
import { SwapList } from "../../lib/swap_list.js";
import { SwapPages } from "../../lib/swap_pages.js";
import { createSwapTable } from "../../lib/swap_table.js";

const MOST = 1_000;
const DRAW_EVERY_MS = 500;
const COLUMNS = [
  ...["time", "type", "token", "amount", "price", "usd", "sol"],
  ...["dex", "platform", "fee", "tip", "transaction"],
];

/** Make the card of a wallet's swaps: `{element, choose, swap, become, gap, still, learn, stop}`. */
export function createTrades({ api, path, announce }) {
  let chosen = null; // mint
  let shown = fromNewest(); // a list, and its pages
  let coming = null; // what takes its place once the newest page is here
  let leaving = null;
  const heading = element("h2", { tabindex: "-1" }, "Swaps");
  const allButton = element("button", { type: "button", hidden: true, on: { click: () => choose(null) } }, "Of all tokens");
  const newestButton = element("button", { type: "button", on: { click: () => begin() } }, "Look for newer ones");
  const symbols = new Map(); // of the positions that were shown
  const table = createSwapTable({
    caption: "Swaps of the wallet, newest first",
    columns: COLUMNS,
    symbolOf: (mint) => symbols.get(mint) ?? null,
    withDates: true,
    version: () => symbols.size,
  });
  const problem = element("div", {});
  const stillness = element("p", { class: "hint inset", hidden: true });
  const olderButton = element("button", { type: "button", hidden: true, on: { click: () => next(shown, true) } }, "Older swaps");
  const ending = element("p", { class: "hint" });
  let drawn = null; // timer of the next drawing

  const whole = element(
    "section",
    { class: "card flush tall", "aria-label": "Swaps of the wallet" },
    element("header", { class: "row apart" }, heading, element("div", { class: "row" }, allButton, newestButton)),
    stillness,
    problem,
    table.element,
    element("div", { class: "row inset" }, olderButton, ending),
  );

  function fromNewest() {
    const pages = new SwapPages(api, chosen === null ? `${path}/swaps` : `${path}/trades/${chosen}`);
    return { list: new SwapList(MOST), pages };
  }

  /** Read from the newest swap on; what is shown remains until that has come. */
  function begin() {
    leaving?.abort();
    leaving = new AbortController();
    coming = fromNewest();
    next(coming, false);
  }

  async function next(source, byHand) {
    const { signal } = leaving;
    olderButton.disabled = true;
    try {
      const swaps = await source.pages.next(signal);
      if (signal.aborted) return;
      source.list.add(swaps);
      shown = source;
      coming = null;
      fill(problem);
      draw();
      if (byHand) announce(shown.pages.ending ?? `${count(swaps.length)} older swaps`);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      coming = null;
      table.setEmpty("");
      const again = source === shown ? () => next(source, byHand) : begin;
      fill(problem, failureWords(error, { isStale: shown.list.size > 0, again }));
    } finally {
      if (!signal.aborted) olderButton.disabled = false;
    }
  }

  function draw() {
    clearTimeout(drawn);
    drawn = null;
    const { list, pages } = shown;
    list.trim();
    table.setEmpty("No swaps within the last 30 days; there may be older ones.");
    table.update(list.rows());
    const isFull = list.size >= MOST;
    olderButton.hidden = isFull || pages.ending !== null;
    setText(ending, isFull ? `The ${count(MOST)} newest are shown.` : (pages.ending ?? ""));
  }

  function lists() {
    return coming === null ? [shown] : [shown, coming];
  }

  function choose(mint, name = "") {
    chosen = mint;
    setText(heading, mint === null ? "Swaps" : `Swaps of ${name}`);
    allButton.hidden = mint === null;
    table.setEmpty("Loading …"); // what was there is of other tokens
    table.update([]);
    clearTimeout(drawn);
    drawn = null;
    shown = fromNewest();
    begin();
  }

  begin();
  return {
    element: whole,
    /** Show those in one token, and go there. */
    choose(mint, name) {
      choose(mint, name);
      heading.focus({ preventScroll: true });
      whole.scrollIntoView({ block: "start" });
    },
    /** A live swap of the wallet. */
    swap(event) {
      if (chosen !== null && chosen !== event.mint) return;
      for (const { list } of lists()) list.add([event]);
      drawn ??= setTimeout(draw, DRAW_EVERY_MS);
    },
    /** What became of a slot. */
    become(slot, state) {
      const isKnown = lists().map(({ list }) => list.become(slot, state)).includes(true);
      if (isKnown) drawn ??= setTimeout(draw, DRAW_EVERY_MS);
    },
    /** Live swaps may be missing. */
    gap(message) {
      for (const { list } of lists()) list.note(`Live swaps may be missing here. ${message} Look for newer ones in a moment.`);
      drawn ??= setTimeout(draw, DRAW_EVERY_MS);
    },
    /** No live swaps come, and why. */
    still(reason) {
      setText(stillness, `New swaps do not come by themselves: ${reason}.`);
      stillness.hidden = false;
    },
    /** What tokens are called, by the positions. */
    learn(positions) {
      const before = symbols.size;
      for (const { mint, symbol } of positions) if (symbol) symbols.set(mint, symbol);
      if (symbols.size > before && shown.list.size > 0) draw();
    },
    stop() {
      leaving.abort();
      clearTimeout(drawn);
    },
  };
}
