// What a wallet is worth: assets without debts, by kind, and why it is not known where it is not.

import { element, fill } from "../../lib/dom.js";
import { count, money } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { kindWords, kindWorthWords, worthWords } from "../../lib/worth_words.js";
import { fact } from "./totals.js";

const PERIOD_MS = 30_000;

/** Make the card of a wallet's net worth. */
export function createWorth({ api, path }) {
  const badge = element("span", { class: "badge" });
  const facts = element("dl", { class: "facts" });
  const words = element("p", { class: "hint" });
  const content = element("div", {}, facts, words);
  const panel = createPanel({
    title: "Net worth",
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(`${path}/analyze`, { signal }),
    show(answer) {
      const { net_worth: worth, categories, holdings } = answer;
      const found = worthWords(answer);
      badge.className = `badge ${found.tone}`;
      fill(badge, found.short);
      fill(
        facts,
        fact("Net worth", money(worth.value_usd), "Holdings and positions, without debts; tokens that represent positions count once"),
        ...(worth.value_usd === null ? [fact("Known of it", money(worth.known_usd), "A part: without what is not known, neither assets nor debts")] : []),
        fact("Assets", money(worth.assets_usd)),
        fact("Debts", money(worth.debts_usd)),
        fact("Holdings, verified", money(holdings.total_value_usd), "Without the tokens that represent positions"),
        ...categories.map((each) => fact(kindWords(each.category), kindWorthWords(each), `Positions: ${count(each.position_count)}`)),
      );
      fill(words, found.words);
      return content;
    },
  });
  panel.head.append(badge);
  return panel;
}
