// What a wallet holds, and how completely that is known. Asking for it has the wallet followed.

import { coverageWords } from "../../lib/coverage.js";
import { element, fill, link } from "../../lib/dom.js";
import { amount, count, exact, harmless, money, price, short } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { createTable } from "../../lib/table.js";

const PERIOD_MS = 30_000;

/** Make the card of holdings. */
export function createHoldings({ api, path }) {
  const badge = element("span", { class: "badge" });
  const words = element("p", { class: "hint inset" });
  const hidden = element("p", { class: "hint inset", hidden: true });
  const table = createTable({
    caption: "Holdings, most valuable first",
    captionHidden: true,
    key: (row) => row.mint,
    cards: true,
    empty: "No SOL, and no verified token.",
    columns: columns(),
  });
  const content = element("div", {}, words, table.element, hidden);
  const panel = createPanel({
    title: "Holdings",
    flush: true,
    tall: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(`${path}/holdings`, { signal }),
    show(answer) {
      const coverage = coverageWords(answer);
      badge.className = coverage.isComplete ? "badge good" : "badge warn";
      fill(badge, coverage.short);
      fill(words, `${money(answer.value_usd)} together. ${coverage.words}`);
      table.update(rows(answer));
      hidden.hidden = answer.hidden_unverified === 0;
      hidden.textContent = `Tokens that are not verified and not shown: ${count(answer.hidden_unverified)}.`;
      return content;
    },
  });
  panel.head.append(badge);
  return panel;
}

function rows({ native, tokens }) {
  const sol = native && native.lamports !== "0" && { ...native, mint: "", name: "Solana", symbol: "SOL", amount: native.sol, accounts: [] };
  return sol ? [sol, ...tokens] : tokens;
}

function columns() {
  return [
    { id: "token", label: "Token", content: (row) => [name(row), ...states(row)] },
    { id: "amount", label: "Amount", numeric: true, content: (row) => held(row), cellTitle: (row) => (row.amount === null ? "Raw units: how many make a whole token is not known" : exact(row.amount)) },
    { id: "price", label: "Price", numeric: true, content: (row) => [row.price_usd === null ? "–" : `$${price(row.price_usd)}`, row.price_source === "pool" && " by pool"], cellTitle: priceTitle },
    { id: "value", label: "Value", numeric: true, content: (row) => money(row.value_usd) },
  ];
}

function priceTitle(row) {
  if (row.price_source === "pool") return `No market prices it: its pool's own rate, as of slot ${count(row.price_slot)}`;
  return row.is_price_stale ? "Its last trade is more than an hour old" : "";
}

function name(row) {
  const words = harmless(row.symbol, 20) ?? harmless(row.name, 30) ?? short(row.mint);
  if (row.mint === "") return element("bdi", {}, words);
  return link(`#/token/${row.mint}`, element("bdi", {}, words), { title: row.mint });
}

function held(row) {
  if (row.amount === null) return row.amount_raw;
  const shown = row.shown_amount ?? null;
  // Interest or a scale of Token-2022 changes what wallets show, never what is held.
  return shown === null || shown === row.amount ? amount(row.amount) : `${amount(row.amount)} (shown as ${amount(shown)})`;
}

function states({ accounts }) {
  const frozen = accounts.filter((each) => each.is_frozen).length;
  const delegated = accounts.filter((each) => each.delegate).length;
  return [
    frozen > 0 && element("span", { class: "badge warn", title: `Accounts that are frozen: ${count(frozen)}` }, "frozen"),
    delegated > 0 && element("span", { class: "badge", title: `Accounts of which somebody else may move a part: ${count(delegated)}` }, "delegated"),
  ].filter(Boolean);
}
