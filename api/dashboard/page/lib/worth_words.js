// What a wallet's analysis says of its own completeness, in words.

import { count, money } from "./format.js";
import { unverifiedWords } from "./protocol_words.js";

const KINDS = {
  lending: "Lending",
  perps: "Perpetuals",
  yield: "Vaults and yield",
  liquidity: "Liquidity",
  staking: "Staking",
  governance: "Governance",
  rewards: "Rewards to claim",
};
const REASONS = {
  holdings_incomplete: "not all balances of the wallet are known yet",
  holdings_unpriced: "SOL has no price",
  positions_incomplete: "not all positions could be read",
  positions_unknown: "an amount, or the price of a debt, is not known",
  moved_while_read: "its tokens moved while they were read",
  native_outdated: "its SOL is not known as of its last change",
};

/** A kind of positions in words. */
export function kindWords(category) {
  return Object.hasOwn(KINDS, category) ? KINDS[category] : category;
}

/** What positions of a kind are worth, in words; of a part of them where not all are known. */
export function kindWorthWords({ value_usd: value, known_usd: known }) {
  return value === null && known !== null ? `${money(known)} known` : money(value);
}

/** How complete net worth is: `{short, tone, words}`. */
export function worthWords({ net_worth: worth, positions, pending }) {
  const notes = [];
  if (worth.reasons.length > 0) {
    const why = worth.reasons.map((each) => (Object.hasOwn(REASONS, each) ? REASONS[each] : each));
    notes.push(`Net worth is not known: ${why.join("; ")}.`);
  }
  if (worth.unknown_positions > 0) notes.push(`Positions that are not known whole, in no sum: ${count(worth.unknown_positions)}.`);
  const unverified = unverifiedWords(positions);
  if (unverified !== "") notes.push(unverified);
  if (pending.length > 0) notes.push(`Kinds of positions that are not read yet, and in no sum: ${count(pending.length)}.`);
  if (worth.unpriced > 0) notes.push(`Assets without a worth, in no sum: ${count(worth.unpriced)}.`);
  const isWhole = worth.reasons.length === 0 && pending.length === 0;
  return {
    short: worth.reasons.length > 0 ? "not known" : isWhole ? "complete" : "in part",
    tone: isWhole ? "good" : "warn",
    words: notes.join(" "),
  };
}
