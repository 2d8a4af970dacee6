// What a position of a protocol says, in words: health, range, locks, and how complete an answer is.

import { amount, count, dateTime, harmless, money, price } from "./format.js";

const NAMES = {
  adrena: "Adrena",
  carrot: "Carrot",
  defituna: "DefiTuna",
  drift: "Drift",
  exponent: "Exponent",
  flash: "Flash Trade",
  helium: "Helium",
  huma_onre: "Huma and OnRe",
  hylo: "Hylo",
  jupiter_dao: "Jupiter DAO",
  jupiter_lend: "Jupiter Lend",
  jupiter_lock: "Jupiter Lock",
  jupiter_perps: "Jupiter Perps",
  kamino: "Kamino",
  loopscale: "Loopscale",
  meteora_damm_v2: "Meteora DAMM v2",
  meteora_dlmm: "Meteora DLMM",
  meteora_s2e: "Meteora Stake2Earn",
  native_stake: "Native stake",
  offerbook: "Jupiter Offerbook",
  parcl: "Parcl",
  perena: "Perena",
  pyth: "Pyth",
  raydium_amm_v4: "Raydium AMM v4",
  raydium_clmm: "Raydium CLMM",
  raydium_cpmm: "Raydium CPMM",
  realms: "Realms",
  solana_mobile: "Solana Mobile",
  solstice: "Solstice",
  star_atlas: "Star Atlas",
  streamflow: "Streamflow",
  tribeca: "Tribeca",
  voltr: "Voltr",
  whirlpools: "Orca Whirlpools",
  wormhole: "Wormhole",
};
const ROLES = { supply: null, borrow: "owes", reward: "to claim" };
const SAFE_FROM = 1.25; // a health factor below it is shown as a warning
const SAFE_FROM_PCT = 20; // likewise, health of a margin account

/** A loan's health: `{text, tone, isKnown}`, tone "good", "warn" or "bad"; null where there is none. */
export function healthWords(health) {
  if (health === null) return null;
  const { health_factor: factor, at_risk: atRisk, ltv } = health;
  if (factor === null) return { text: ltv === 0 ? "no debt" : "health not known", tone: "", isKnown: ltv === 0 };
  const text = `health ${factor.toFixed(2)}`;
  if (atRisk) return { text: `${text}, may be liquidated`, tone: "bad", isKnown: true };
  return { text, isKnown: true, tone: factor < SAFE_FROM ? "warn" : "good" };
}

/** Where the price is within a range: `{text, tone, share}`; share 0 to 1, null: not known. */
export function rangeWords(range) {
  if (range === null) return null;
  const { lower, upper, current, is_in_range: isIn } = range;
  const text = isIn === null ? "range not known" : isIn ? "in range" : "out of range";
  const tone = isIn === null ? "" : isIn ? "good" : "warn";
  return { text, tone, share: share(range), prices: prices(lower, upper, current) };
}

function share({ lower, upper, current, lower_index: low, upper_index: high, current_index: now }) {
  const within = (from, to, at) => (from === null || to === null || at === null || to <= from ? null : Math.min(1, Math.max(0, (at - from) / (to - from))));
  // Ticks and bins are even in what a price is multiplied by; prices alone are not.
  return within(low, high, now) ?? within(lower, upper, current);
}

function prices(lower, upper, current) {
  if (lower === null && upper === null && current === null) return "";
  const side = (value) => (value === null ? "any" : price(value));
  return `${side(lower)} to ${side(upper)}${current === null ? "" : `, now ${price(current)}`}`;
}

/** An open bet in words: `{text, tone, hint}`; null where there is none. */
export function perpWords(perp) {
  if (perp === null) return null;
  const { symbol, side, size, leverage, entry_price_usd: entry, mark_price_usd: mark, liquidation_price_usd: end, unrealized_usd: gained } = perp;
  const parts = [side, size !== null && amount(size), harmless(symbol, 20), leverage !== null && `${leverage.toFixed(1)}x`];
  const prices = [
    entry !== null && `entered at $${price(entry)}`,
    mark !== null && `now $${price(mark)}`,
    end !== null && `liquidated at $${price(end)}`,
    gained !== null && `${money(gained, { sign: true })} by the price`,
  ];
  return {
    text: parts.filter(Boolean).join(" "),
    tone: gained === null ? "" : gained < 0 ? "warn" : "good",
    hint: prices.filter(Boolean).join(", "),
  };
}

/** A margin account in words: `{text, tone, hint}`; null where there is none. */
export function marginWords(margin) {
  if (margin === null) return null;
  const { health_pct: health, leverage, collateral_usd: collateral, maintenance_usd: required, free_usd: free } = margin;
  if (health === null) return { text: "margin not known", tone: "", hint: "" };
  const text = [`health ${health.toFixed(0)}%`, leverage !== null && `${leverage.toFixed(1)}x`, health <= 0 && "may be liquidated"];
  const hint = [
    collateral !== null && `${money(collateral)} backs`,
    required !== null && `${money(required)} is required`,
    free !== null && `${money(free)} is free`,
  ];
  return {
    text: text.filter(Boolean).join(", "),
    tone: health <= 0 ? "bad" : health < SAFE_FROM_PCT ? "warn" : "good",
    hint: hint.filter(Boolean).join(", "),
  };
}

/** What a protocol counts without a token, in words, one a count. */
export function pointsWords(points) {
  return points.map(({ name, amount: counted }) => `${count(Number(counted))} ${harmless(name, 40)?.replaceAll("_", " ") ?? "points"}`);
}

/** What a deposit counts for in votes, in words; null where it has none. */
export function votingWords(voting) {
  if (voting === null) return null;
  const { power_raw: power, open_votes: open, delegate } = voting;
  return [
    power === null ? "votes not known" : `votes ${count(Number(power))}`,
    open > 0 && `${count(open)} not relinquished`,
    delegate !== null && "delegated",
  ]
    .filter(Boolean)
    .join(", ");
}

/** A lock in words. */
export function lockWords({ kind, ends_ms: endsMs, ends_slot: endsSlot }) {
  if (kind === "permanent") return "locked for ever";
  if (endsMs !== null) return `${kind} until ${dateTime(endsMs)}`;
  if (endsSlot !== null) return `${kind} until slot ${count(endsSlot)}`;
  return kind;
}

/** A protocol's name for people: "jupiter_lend" is "Jupiter Lend"; one without is as it is. */
export function protocolWords(name) {
  return Object.hasOwn(NAMES, name) ? NAMES[name] : (harmless(name, 40)?.replaceAll("_", " ") ?? "?");
}

/** What an asset is to its wallet, before its amount; null for what it simply has. */
export function roleWords(role) {
  return Object.hasOwn(ROLES, role) ? ROLES[role] : role;
}

/** What is not known of a position, without the reasons; null where all is. */
export function unknownWords({ is_verified_market: isVerified, unsupported_fields: unsupported }) {
  const names = new Set(unsupported.map((each) => each.split(":")[0]));
  if (!isVerified) names.delete("sums"); // left out on purpose: the row has words of its own
  return names.size === 0 ? null : `Not known: ${[...names].join("; ")}.`;
}

/** How many positions are in markets that anybody can open and that are not verified; empty: none. */
export function unverifiedWords(positions) {
  const found = positions.filter((each) => !each.is_verified_market).length;
  return found === 0 ? "" : `Positions in markets that are not verified, in no sum: ${count(found)}.`;
}

/**
 * Several answers as one, positions most valuable first, all with their protocol's `name`. The sum
 * is null where a part is not known: a part would pass for all.
 */
export function together(answers) {
  const names = new Map(answers.flatMap(({ protocols, protocol, name }) => (protocols ?? [{ protocol, name }]).map((each) => [each.protocol, each.name])));
  const withName = (row) => ({ ...row, name: names.get(row.protocol) ?? row.protocol });
  const positions = answers.flatMap((each) => each.positions).map(withName);
  const add = (pick) => answers.reduce((sum, each) => sum + pick(each), 0);
  const worths = answers.filter((each) => isLacking(each) || each.positions.some(hasWorth)).map((each) => each.value_usd);
  return {
    as_of_slot: answers.length === 0 ? null : Math.min(...answers.map((each) => each.as_of_slot)),
    positions: positions.sort((a, b) => Number(a.value_usd === null) - Number(b.value_usd === null) || b.value_usd - a.value_usd),
    value_usd: worths.length === 0 || worths.includes(null) ? null : worths.reduce((sum, each) => sum + each, 0),
    is_complete: answers.every((each) => each.is_complete),
    // Routes of one protocol name its errors each.
    errors: [...new Map(answers.flatMap((each) => each.errors).map((each) => [`${each.protocol} ${each.account} ${each.detail}`, withName(each)])).values()],
    pending: answers.flatMap((each) => each.pending ?? []).map(withName),
    unpriced: add((each) => each.unpriced),
    coverage: { known_accounts: add((each) => each.coverage.known_accounts), read_accounts: add((each) => each.coverage.read_accounts) },
  };
}

/** Whether a position may count: one without assets, as the margin of an account, is worth nothing by itself. */
function hasWorth({ assets, is_verified_market: isVerified }) {
  return isVerified && assets.length > 0;
}

/** Whether an answer lacks something that should have been read. */
function isLacking({ errors, coverage }) {
  return errors.length > 0 || coverage.read_accounts < coverage.known_accounts;
}

/** What positions are worth together, in words, and how many do not count; empty where there is none. */
export function togetherWords(answer) {
  const { positions, value_usd: value } = answer;
  if (positions.length === 0) return "";
  const canCount = isLacking(answer) || positions.some((each) => each.is_verified_market);
  const worth = value === null ? canCount && "What they are worth together is not known." : `${money(value)} together.`;
  return [worth, unverifiedWords(positions)].filter(Boolean).join(" ");
}

/** An asset's amount in words; its symbol is a stranger's text and not in it. */
export function amountWords({ amount: quantity, amount_raw: raw }) {
  if (quantity !== null) return amount(quantity);
  return raw === null ? "an unknown amount of" : `${raw} raw`;
}

function affectedWords({ name, protocol, account }) {
  if (protocol !== null) return protocolWords(name ?? protocol);
  return account === null ? "Several protocols" : "An account";
}

/** How complete an aggregate is: `{text, tone, words}`. */
export function completenessWords(answer) {
  const { as_of_slot: slot, is_complete: isComplete, errors, pending, unpriced, coverage } = answer;
  const affected = new Map(); // detail -> who it is about
  for (const error of errors) affected.set(error.detail, (affected.get(error.detail) ?? new Set()).add(affectedWords(error)));
  const notes = [...affected].map(([detail, who]) => `${[...who].join(", ")}: ${detail}.`);
  if (coverage.read_accounts < coverage.known_accounts) {
    notes.push(`${count(coverage.read_accounts)} of ${count(coverage.known_accounts)} accounts were read.`);
  }
  if (pending.length > 0) {
    const names = [...new Set(pending.map(({ name, protocol }) => protocolWords(name ?? protocol)))].join(", ");
    notes.push(`Not read here: ${names}.`);
  }
  if (unpriced > 0) notes.push(`Assets without a worth: ${count(unpriced)}.`);
  const failed = isLacking(answer);
  const text = isComplete ? "complete" : failed ? "not complete" : "of what is read";
  return { text, tone: failed ? "warn" : "good", words: [`As of slot ${count(slot)}.`, ...notes].join(" ") };
}
