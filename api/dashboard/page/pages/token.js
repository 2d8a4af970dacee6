// A token: what it costs and is, its candles, its swaps, who holds it and who gained with it.

import { addressFault } from "../lib/address.js";
import { isAbort } from "../lib/api.js";
import { element, fill, link } from "../lib/dom.js";
import { harmless } from "../lib/format.js";
import { failureWords, noAddress } from "../lib/panel.js";
import { refresh } from "../lib/refresh.js";
import { createCandles } from "./token/candles.js";
import { createFacts } from "./token/facts.js";
import { createHolders, createTraders } from "./token/people.js";
import { createTokenSwaps } from "./token/swaps.js";

export const title = "Token";

const LIVE_MS = 20_000; // between two questions, while live prices come
const ALONE_MS = 10_000;
const SETTLED_WITHIN_MS = 10_000; // what was traded before the first live event is in the API then

/** Show a token; returns what leaves it. `params.mint` is its address, null: none was given. */
export function mount(root, { api, socket, params, announce }) {
  const { mint } = params;
  if (mint === null) {
    fill(root, nothingAsked());
    return () => {};
  }
  const fault = addressFault(mint);
  if (fault !== null) {
    fill(root, noAddress("token", fault));
    return () => {};
  }
  const leaving = new AbortController();
  const { signal } = leaving;
  const parts = []; // parts to stop
  const states = { prices: "away", swaps: "away" };
  const isLive = () => states.prices === "live" && states.swaps === "live";
  const problem = element("div", {}, element("p", { class: "empty" }, "Loading …"));
  const content = element("div", { class: "page", hidden: true });
  const heading = element("h1", { class: "unseen" }, "Token");
  fill(root, heading, problem, content);
  let facts = null; // once the token is known

  const asking = refresh(
    async () => {
      try {
        const answer = await api.get(`/api/tokens/${encodeURIComponent(mint)}`, { signal });
        fill(problem);
        if (facts === null) begin();
        facts.show(answer);
        const name = harmless(answer.symbol, 20) ?? harmless(answer.name, 20) ?? "Token";
        document.title = `${name} – Soltape`;
      } catch (error) {
        if (isAbort(error) || signal.aborted) return;
        fill(problem, failureWords(error, { isStale: facts !== null, again: () => asking.now() }));
        if (facts === null && error.code === "unknown_token") fill(problem, unknown(error));
        throw error;
      }
    },
    () => (isLive() ? LIVE_MS : ALONE_MS),
  );
  parts.push(asking);

  function unknown(error) {
    const again = element("button", { type: "button", on: { click: () => asking.now() } }, "Look again");
    return element(
      "section",
      { class: "card narrow" },
      element("h2", {}, "Nothing is known of this token"),
      element("p", { class: "address" }, mint),
      element(
        "p",
        {},
        "No trade and no creation of it was seen since the tape began. If the address is that of a wallet: ",
        link(`#/wallet/${encodeURIComponent(mint)}`, "see it as a wallet"),
        ".",
      ),
      element("p", { class: "hint" }, error.detail),
      element("div", { class: "row" }, again),
    );
  }

  function begin() {
    heading.remove();
    const given = { api, mint, announce, isLive };
    facts = createFacts(given);
    const candles = createCandles(given);
    const swaps = createTokenSwaps(given);
    const holders = createHolders(given);
    const traders = createTraders(given);
    parts.push(facts, candles, swaps, holders, traders);
    content.hidden = false;
    fill(
      content,
      facts.element,
      candles.element,
      swaps.element,
      element("div", { class: "people" }, holders.element, traders.element),
    );
    follow(candles, swaps);
  }

  /** Live prices and swaps of the token, and what becomes of their slots. */
  function follow(candles, swaps) {
    let joining = null;
    const catchUp = () => {
      candles.catchUp();
      swaps.catchUp();
    };
    const heard = (channel) => ({ state }) => {
      const wasLive = isLive();
      states[channel] = state;
      if (wasLive === isLive()) return;
      clearTimeout(joining);
      joining = setTimeout(catchUp, isLive() ? SETTLED_WITHIN_MS : 0);
    };
    const subscriptions = [
      socket.subscribe(
        "prices",
        { mints: [mint] },
        {
          onEvent(event) {
            facts.price(event);
            candles.price(event);
          },
          onGap: () => candles.catchUp(),
          onState: heard("prices"),
        },
      ),
      socket.subscribe(
        "swaps",
        { token: mint },
        {
          onEvent(event) {
            if (event.mint === mint) candles.swap(event); // else the token is the quote side
            swaps.swap(event);
          },
          onGap(gap) {
            swaps.gap(`Live swaps may be missing here. ${gap.message ?? ""} Settled ones are asked for.`);
            candles.catchUp();
          },
          onState: heard("swaps"),
        },
      ),
      socket.subscribe(
        "status",
        {},
        {
          onEvent({ slot, status }) {
            swaps.become(slot, status);
            if (status === "orphaned") candles.orphan(slot);
          },
        },
      ),
    ];
    parts.push(...subscriptions, { stop: () => clearTimeout(joining) });
  }

  return () => {
    leaving.abort();
    for (const part of parts) part.stop();
  };
}

function nothingAsked() {
  return element(
    "section",
    { class: "card narrow" },
    element("h1", {}, "Token"),
    element("p", {}, "Put the address of a token into the box above, or choose one of those that ", link("#/trending", "trend"), "."),
  );
}
