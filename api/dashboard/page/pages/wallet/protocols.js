// What a wallet has of protocols: loans and their health, liquidity and its range, shares, rewards.

import { element, fill } from "../../lib/dom.js";
import { harmless, money, short } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import {
  amountWords,
  completenessWords,
  healthWords,
  lockWords,
  marginWords,
  perpWords,
  pointsWords,
  protocolWords,
  rangeWords,
  roleWords,
  together,
  togetherWords,
  unknownWords,
  votingWords,
} from "../../lib/protocol_words.js";
import { createTable } from "../../lib/table.js";

const PERIOD_MS = 30_000;
const KINDS = [
  { title: "Lending", paths: ["all-lending"], empty: "No deposit, no loan." },
  { title: "Perpetuals", paths: ["all-perps", "p08/health", "p08/lp"], empty: "No open bet." },
  { title: "Liquidity", paths: ["all-lp"], empty: "No liquidity." },
  { title: "Vaults and yield", paths: ["all-yield", "p01/liquidity"], empty: "No share of a vault." },
  { title: "Staking", paths: ["all-staking", "p10/staking"], empty: "Nothing is staked." },
  { title: "Governance", paths: ["all-governance"], empty: "No deposit, nothing vests." },
  { title: "Rewards to claim", paths: ["all-rewards"], empty: "No reward to claim.", areRewards: true },
];

/** Make the cards of positions, one a kind. */
export function createProtocols({ api, path }) {
  const panels = KINDS.map((kind) => createCard({ api, path, ...kind }));
  return {
    elements: panels.map((panel) => panel.element),
    stop: () => panels.forEach((panel) => panel.stop()),
  };
}

function createCard({ api, path, title, paths, empty, areRewards = false }) {
  const badge = element("span", { class: "badge" });
  const words = element("p", { class: "hint inset" });
  const state = { id: "state", label: "State", content: states, cellTitle: (row) => row.unsupported_fields.join("\n") };
  const table = createTable({
    caption: `${title}, most valuable first`,
    captionHidden: true,
    key: (row) => `${row.protocol}/${row.route}/${row.position_id}`,
    cards: true,
    empty,
    columns: [
      { id: "protocol", label: "Protocol", content: named, cellTitle: (row) => `${row.protocol}/${row.route}` },
      { id: "assets", label: areRewards ? "To claim" : "Assets", content: (row) => [...lines(row.assets, areRewards), ...counted(row)] },
      ...(areRewards ? [] : [state]),
      { id: "value", label: "Value", numeric: true, content: (row) => money(row.value_usd) },
    ],
  });
  const content = element("div", { class: "protocols" }, words, table.element);
  const panel = createPanel({
    title,
    flush: true,
    tall: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => Promise.all(paths.map((each) => answered(api, `${path}/${each}`, signal))),
    show(answers) {
      const answer = together(answers.filter((each) => each !== null));
      const completeness = completenessWords(answer);
      badge.className = `badge ${completeness.tone}`;
      fill(badge, completeness.text);
      fill(words, [togetherWords(answer), completeness.words].filter(Boolean).join(" "));
      table.update(answer.positions);
      return content;
    },
  });
  panel.head.append(badge);
  return panel;
}

/** An answer; null where an operator has switched the protocol off. */
async function answered(api, path, signal) {
  try {
    return await api.get(path, { signal });
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

function named(row) {
  return [
    element("div", {}, protocolWords(row.name)),
    element("div", { class: "hint" }, `${row.route.replaceAll("-", " ")} `, element("span", { class: "mono", title: row.position_id }, short(row.position_id))),
    // Here, as every card has this column: anybody can open such a market, and give a wallet a position in it.
    !row.is_verified_market && element("div", {}, element("span", { class: "badge warn" }, "market not verified"), element("span", { class: "hint" }, ": counts in no sum")),
  ];
}

function counted({ assets, points }) {
  if (assets.length + points.length === 0) return ["–"];
  return pointsWords(points).map((words) => element("div", { class: "hint" }, words));
}

function lines(assets, areRewards) {
  const isOwed = (asset) => Number(asset.role === "borrow");
  return assets.toSorted((a, b) => isOwed(a) - isOwed(b)).map((asset) => {
    const role = areRewards ? null : roleWords(asset.role);
    return element(
      "div",
      { class: "asset", title: asset.mint },
      role && element("span", { class: "hint" }, `${role} `),
      `${amountWords(asset)} `,
      element("bdi", {}, harmless(asset.symbol, 20) ?? short(asset.mint)),
      asset.value_usd !== null && element("span", { class: "hint" }, ` ${money(asset.value_usd)}`),
    );
  });
}

function states(row) {
  const { health, range, locks, perp, margin, voting } = row;
  const found = [];
  const unknown = unknownWords(row);
  const loan = healthWords(health);
  // What is not known is said once, by name.
  if (loan !== null && (loan.isKnown || unknown === null)) found.push(element("span", { class: `badge ${loan.tone}`, title: "By the protocol's own prices and weights" }, loan.text));
  const bet = perpWords(perp);
  if (bet !== null) {
    found.push(element("span", { class: `badge ${bet.tone}` }, bet.text));
    if (bet.hint !== "") found.push(element("span", { class: "hint" }, bet.hint));
  }
  const backing = marginWords(margin);
  if (backing !== null) {
    found.push(element("span", { class: `badge ${backing.tone}` }, backing.text));
    if (backing.hint !== "") found.push(element("span", { class: "hint" }, backing.hint));
  }
  const votes = votingWords(voting);
  if (votes !== null) found.push(element("span", { class: "badge" }, votes));
  const band = rangeWords(range);
  if (band !== null) {
    found.push(element("span", { class: `badge ${band.tone}` }, band.text));
    if (band.share !== null) {
      found.push(element("meter", { min: "0", max: "1", value: String(band.share), "aria-label": `Price within the range: ${band.prices}` }));
    }
    if (band.prices !== "") found.push(element("span", { class: "hint" }, band.prices));
  }
  for (const lock of locks) found.push(element("span", { class: "badge" }, lockWords(lock)));
  if (found.length === 0 && unknown === null) return "–";
  return [
    found.length > 0 && element("div", { class: "row states" }, ...found),
    unknown !== null && element("div", { class: "hint" }, unknown),
  ];
}
