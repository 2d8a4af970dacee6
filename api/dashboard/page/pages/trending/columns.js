// Columns of the trending table: the twenty fields, each sortable, the rank in the list, the line.

import { element, foreign, link, unseen } from "../../lib/dom.js";
import { amount, count, exact, money, percent, price, short, slug } from "../../lib/format.js";
import { sparkline } from "../../lib/sparkline.js";
import { OF_KNOWN_VALUE } from "../../lib/volume_words.js";

export const COLUMNS = [
  {
    id: "rank",
    label: "#",
    title: "Rank in the trending list",
    value: ({ rank }) => rank,
    content: ({ rank }) => (rank === null ? "new" : count(rank)),
    version: ({ rank }) => rank,
  },
  field("symbol", "Symbol", {
    content: ({ data }) => [
      link(`#/token/${encodeURIComponent(data.mint)}`, foreign(data.symbol, { longest: 12, otherwise: "no symbol" })),
    ],
  }),
  field("name", "Name", { content: ({ data }) => [foreign(data.name, { longest: 24 })] }),
  field("dex", "Platform", { content: ({ data }) => slug(data.dex) }),
  {
    id: "trail",
    label: "Last hour",
    title: "Price in dollars, as far as it was seen",
    numeric: true,
    value: ({ trail }) => trail.changePct,
    content: ({ trail }) => sparkline(trail),
    version: ({ trail }) => trail.version,
  },
  number("bonding_curve_pct", "Curve", percent, { content: curve }),
  number("price_usd", "Price USD", price),
  number("market_cap", "Market cap", money),
  number("liquidity_usd", "Liquidity", money),
  number("total_volume_24h", "Volume 24h", money, { title: OF_KNOWN_VALUE }),
  number("buy_volume_24h", "Bought 24h", money, { title: OF_KNOWN_VALUE }),
  number("sell_volume_24h", "Sold 24h", money, { title: OF_KNOWN_VALUE }),
  number("buy_count", "Buys", count),
  number("sell_count", "Sells", count),
  number("holder_count", "Holders", count),
  number("top10_holders_pct", "Top 10 hold", percent),
  number("dev_holding_pct", "Creator holds", percent),
  field("is_migrated", "Migrated", {
    value: ({ data }) => (data.is_migrated === null ? null : Number(data.is_migrated)),
    content: ({ data }) => ({ true: "yes", false: "no" })[data.is_migrated] ?? "–",
  }),
  number("supply", "Supply", amount),
  number("decimals", "Decimals", count),
  field("mint", "Mint", { content: ({ data }) => [address("token", data.mint)] }),
  field("creator", "Creator", {
    content: ({ data }) => (data.creator ? [address("wallet", data.creator)] : "–"),
  }),
];

function field(id, label, more) {
  return {
    id,
    label,
    value: ({ data }) => data[id] || null,
    version: ({ data }) => data[id],
    ...more,
  };
}

function number(id, label, format, more = {}) {
  return field(id, label, {
    numeric: true,
    value: ({ data }) => data[id],
    content: ({ data }) => format(data[id]),
    cellTitle: ({ data }) => (data[id] === null ? "not known" : exact(data[id])),
    ...more,
  });
}

/** How much of the curve is sold: a bar and its number. */
function curve({ data }) {
  const sold = data.bonding_curve_pct;
  if (typeof sold !== "number") return "–";
  return [
    element("progress", { max: 100, value: sold, "aria-hidden": "true" }),
    " ",
    element("span", {}, percent(sold), unseen(" of the curve sold")),
  ];
}

function address(page, text) {
  return link(`#/${page}/${encodeURIComponent(text)}`, short(text), { class: "mono", title: text });
}
