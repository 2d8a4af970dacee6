// The columns of the swaps table, as the specification lists them.

import { element, foreign, link, outward, unseen } from "./dom.js";
import { amount, dateTime, exact, money, price, short, slug, time } from "./format.js";

const STATES = {
  processed: ["○", "processed: the chain may still drop it"],
  confirmed: ["●", "confirmed: two thirds of the stake voted for it"],
  finalized: ["●", "finalized: it stays"],
  orphaned: ["✕", "dropped: its slot left the chain, it did not happen"],
};

/** A transaction, with where it can be looked up. */
export function transaction(signature) {
  const address = `https://explorer.solana.com/tx/${encodeURIComponent(signature)}`;
  const title = `${signature}: look it up in Solana's explorer, another site`;
  return outward(address, short(signature), { class: "mono", title });
}

/** A time, marked with what became of its slot so far. */
export function marked(text, state) {
  const [mark, words] = STATES[state] ?? STATES.processed;
  return [
    element("span", { class: `mark ${state}`, title: words, "aria-hidden": "true" }, mark),
    text,
    unseen(`, ${words}`),
  ];
}

/** Return the columns; `symbols` knows what tokens are called. */
export function swapColumns(symbols) {
  const named = ({ mint, symbol }) => symbol ?? symbols.of(mint); // live swaps carry theirs
  return [
    {
      id: "transaction",
      label: "Transaction",
      content: ({ signature }) => transaction(signature),
    },
    {
      id: "time",
      label: "Time",
      content: ({ block_time_ms: at, state }) => marked(time(at), state),
      cellTitle: ({ block_time_ms: at, slot }) => `${dateTime(at)}, slot ${slot}`,
    },
    {
      id: "dex",
      label: "DEX",
      content: ({ dex }) => slug(dex),
      cellTitle: ({ router }) => (router ? `by way of ${slug(router)}` : ""),
    },
    { id: "platform", label: "Platform", content: ({ platform }) => slug(platform) },
    {
      id: "token",
      label: "Token",
      content: (swap) =>
        element(
          "a",
          { href: `#/token/${encodeURIComponent(swap.mint)}`, title: swap.mint },
          named(swap) === null
            ? element("span", { class: "mono" }, short(swap.mint))
            : foreign(named(swap), { longest: 12, otherwise: short(swap.mint) }),
        ),
    },
    {
      id: "type",
      label: "Type",
      content: ({ side }) =>
        side === "buy" || side === "sell"
          ? element("span", { class: side === "buy" ? "gain" : "loss" }, side === "buy" ? "Buy" : "Sell")
          : "–",
    },
    {
      id: "amount",
      label: "Amount",
      numeric: true,
      content: (swap) => amount(swap.amount),
      cellTitle: (swap) => `${exact(swap.amount)} tokens`,
    },
    {
      id: "sol",
      label: "SOL value",
      numeric: true,
      content: (swap) => amount(swap.sol_value),
      cellTitle: (swap) => `${exact(swap.sol_value)} SOL`,
    },
    {
      id: "usd",
      label: "USD value",
      numeric: true,
      content: (swap) => money(swap.usd_value),
      cellTitle: (swap) => `${exact(swap.usd_value)} dollars`,
    },
    {
      id: "price",
      label: "Price, USD",
      numeric: true,
      content: (swap) => price(swap.price_usd),
      cellTitle: (swap) => `${exact(swap.price_usd)} dollars, ${exact(swap.price_sol)} SOL`,
    },
    {
      id: "fee",
      label: "Fee, SOL",
      title: "Network fee of the transaction: base and priority",
      numeric: true,
      content: (swap) => amount(swap.fee_sol),
      cellTitle: (swap) => `${exact(swap.priority_fee_sol)} SOL of it for priority`,
    },
    {
      id: "tip",
      label: "Tip, SOL",
      title: "Of the transaction, to those who pack blocks",
      numeric: true,
      content: (swap) => (swap.tip_sol > 0 ? amount(swap.tip_sol) : "–"),
    },
    {
      id: "wallet",
      label: "Wallet",
      content: ({ wallet }) =>
        link(`#/wallet/${encodeURIComponent(wallet)}`, short(wallet), { class: "mono", title: wallet }),
    },
  ];
}
