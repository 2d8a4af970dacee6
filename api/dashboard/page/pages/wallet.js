// A wallet: what it holds and gained, day by day, every swap, and why each gain is what it is.

import { addressFault } from "../lib/address.js";
import { isAbort } from "../lib/api.js";
import { element, fill, link } from "../lib/dom.js";
import { short } from "../lib/format.js";
import { failureWords, noAddress } from "../lib/panel.js";
import { refresh } from "../lib/refresh.js";
import { createDaily } from "./wallet/daily.js";
import { createHoldings } from "./wallet/holdings.js";
import { createLots } from "./wallet/lots.js";
import { createOverTime } from "./wallet/over_time.js";
import { createPositions, named } from "./wallet/positions.js";
import { createProtocols } from "./wallet/protocols.js";
import { createStake } from "./wallet/stake.js";
import { createTotals, createWeek } from "./wallet/totals.js";
import { createTrades } from "./wallet/trades.js";
import { createWorth } from "./wallet/worth.js";

export const title = "Wallet";

const PERIOD_MS = 30_000;
const SETTLED_WITHIN_MS = 10_000; // a live swap is in the positions then

/**
 * Show a wallet; returns what leaves it. `params.address` is its address, null: none was given;
 * `query` may name a token whose lots are shown: `lots`.
 */
export function mount(root, { api, socket, params, query, announce }) {
  const { address } = params;
  if (address === null) {
    fill(root, nothingAsked());
    return () => {};
  }
  const fault = addressFault(address);
  if (fault !== null) {
    fill(root, noAddress("wallet", fault));
    return () => {};
  }
  const leaving = new AbortController();
  const { signal } = leaving;
  const path = `/api/wallets/${encodeURIComponent(address)}`;
  const parts = [];
  const problem = element("div", {}, element("p", { class: "empty" }, "Loading …"));
  const content = element("div", { class: "page", hidden: true });
  const heading = element("h1", { class: "unseen" }, `Wallet ${short(address)}`);
  fill(root, heading, problem, content);
  let shown = null; // once the address is known to be one

  const asking = refresh(
    async () => {
      try {
        const portfolio = await api.get(`${path}/portfolio`, { signal });
        fill(problem);
        shown ??= begin();
        for (const part of shown) part.show(portfolio);
      } catch (error) {
        if (isAbort(error) || signal.aborted) return;
        fill(problem, failureWords(error, { isStale: shown !== null, again: () => asking.now() }));
        throw error;
      }
    },
    () => PERIOD_MS,
  );
  parts.push(asking);

  function begin() {
    heading.remove();
    document.title = `Wallet ${short(address)} – Soltape`;
    const totals = createTotals({ address });
    const worth = createWorth({ api, path });
    const overTime = createOverTime({ api, path });
    const week = createWeek();
    const daily = createDaily({ api, path });
    const holdings = createHoldings({ api, path });
    const stake = createStake({ api, path });
    const protocols = createProtocols({ api, path });
    const trades = createTrades({ api, path, announce });
    const lots = createLots({ api, path, onClose: () => remember(null) });
    const positions = createPositions({
      api,
      path,
      onLots(mint) {
        remember(mint);
        lots.choose(mint);
      },
      onTrades: (row) => trades.choose(row.mint, named(row)),
      onRead: (read) => trades.learn(read),
    });
    parts.push(worth, overTime, week, daily, holdings, stake, protocols, trades, lots, positions);
    content.hidden = false;
    fill(
      content,
      totals.element,
      worth.element,
      overTime.element,
      element("div", { class: "columns" }, week.element, daily.element),
      holdings.element,
      stake.element,
      ...protocols.elements,
      positions.element,
      lots.element,
      trades.element,
    );
    follow(trades, holdings, positions);
    if (query.get("lots")) lots.choose(query.get("lots"), { isQuiet: true });
    return [totals, week];
  }

  /** Live swaps of the wallet, where the plan of the key has them; without, all is asked for. */
  function follow(trades, holdings, positions) {
    let settling = null;
    let status = null;
    const settle = () => {
      settling = null;
      asking.now();
      holdings.reload();
      positions.reload();
    };
    const becomes = ({ slot, status: state }) => trades.become(slot, state);
    const subscription = socket.subscribe(
      "swaps",
      { wallets: [address] },
      {
        onEvent(event) {
          trades.swap(event);
          settling ??= setTimeout(settle, SETTLED_WITHIN_MS);
        },
        onGap: (gap) => trades.gap(gap.message ?? ""),
        onState({ state, error, isRetried }) {
          if (state === "live") status ??= socket.subscribe("status", {}, { onEvent: becomes });
          if (state === "refused" && !isRetried) {
            subscription.stop();
            trades.still(error.message);
          }
        },
      },
    );
    parts.push(subscription, { stop: () => clearTimeout(settling) }, { stop: () => status?.stop() });
  }

  /** Keep in the address whose lots are shown, so that it can be sent to somebody. */
  function remember(mint) {
    const more = mint === null ? "" : `?lots=${mint}`;
    history.replaceState(null, "", `#/wallet/${encodeURIComponent(address)}${more}`);
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
    element("h1", {}, "Wallet"),
    element("p", {}, "Put the address of a wallet into the box above, or choose one that trades ", link("#/live", "now"), "."),
  );
}
