// What a wallet has of protocols: loans and their health, liquidity and its range, rewards.

import { element, fill } from "../../lib/dom.js";
import { harmless, money, short } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { amountWords, completenessWords, healthWords, lockWords, rangeWords } from "../../lib/protocol_words.js";
import { createTable } from "../../lib/table.js";

const PERIOD_MS = 30_000;
const KINDS = [
  { title: "Lending", name: "all-lending", empty: "No deposit, no loan." },
  { title: "Liquidity", name: "all-lp", empty: "No liquidity." },
  { title: "Rewards to claim", name: "all-rewards", empty: "No reward to claim." },
];

/** Make the cards of positions, one a kind. */
export function createProtocols({ api, path }) {
  const panels = KINDS.map((kind) => createCard({ api, path, ...kind }));
  return {
    elements: panels.map((panel) => panel.element),
    stop: () => panels.forEach((panel) => panel.stop()),
  };
}

function createCard({ api, path, title, name, empty }) {
  const badge = element("span", { class: "badge" });
  const words = element("p", { class: "hint inset" });
  const table = createTable({
    caption: `${title}, most valuable first`,
    captionHidden: true,
    key: (row) => `${row.protocol}/${row.route}/${row.position_id}`,
    cards: true,
    empty,
    columns: [
      { id: "protocol", label: "Protocol", content: (row) => [`${row.name} `, element("span", { class: "mono", title: row.position_id }, short(row.position_id))], cellTitle: (row) => `${row.protocol}/${row.route}` },
      { id: "assets", label: "Assets", content: (row) => lines(row.assets.filter((each) => each.role !== "reward")) },
      { id: "state", label: "State", content: (row) => states(row), cellTitle: (row) => row.unsupported_fields.join("\n") },
      { id: "earns", label: "To claim", content: (row) => lines(row.assets.filter((each) => each.role === "reward")) },
      { id: "value", label: "Value", numeric: true, content: (row) => money(row.value_usd) },
    ],
  });
  const content = element("div", {}, words, table.element);
  const panel = createPanel({
    title,
    flush: true,
    tall: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(`${path}/${name}`, { signal }),
    show(answer) {
      const told = completenessWords(answer);
      badge.className = `badge ${told.tone}`;
      fill(badge, told.text);
      fill(words, `${money(answer.value_usd)} together. ${told.words}`);
      const names = new Map(answer.protocols.map((each) => [each.protocol, each.name]));
      table.update(answer.positions.map((row) => ({ ...row, name: names.get(row.protocol) ?? row.protocol })));
      return content;
    },
  });
  panel.head.append(badge);
  return panel;
}

function lines(assets) {
  if (assets.length === 0) return "–";
  return assets.map((asset) =>
    element(
      "div",
      { title: asset.mint },
      asset.role === "supply" || asset.role === "reward" ? "" : `${asset.role} `,
      `${amountWords(asset)} `,
      element("bdi", {}, harmless(asset.symbol, 20) ?? short(asset.mint)),
      ` ${money(asset.value_usd)}`,
    ),
  );
}

function states({ health, range, locks }) {
  const found = [];
  const loan = healthWords(health);
  if (loan !== null) found.push(element("span", { class: `badge ${loan.tone}`, title: "By the protocol's own prices and weights" }, loan.text));
  const band = rangeWords(range);
  if (band !== null) {
    found.push(element("span", { class: `badge ${band.tone}`, title: band.prices }, band.text));
    if (band.share !== null) {
      found.push(element("meter", { min: "0", max: "1", value: String(band.share), "aria-label": `Price within the range: ${band.prices}` }));
    }
  }
  for (const lock of locks) found.push(element("span", { class: "badge" }, lockWords(lock)));
  return found.length === 0 ? "–" : found;
}
