// What a position of a protocol says, in words: health, range, locks, and how complete an answer is.

import { amount, count, dateTime, price } from "./format.js";

const SAFE_FROM = 1.25; // a health factor below it is shown as a warning

/** A loan's health: `{text, tone}`, tone "good", "warn" or "bad"; null where there is none. */
export function healthWords(health) {
  if (health === null) return null;
  const { health_factor: factor, at_risk: atRisk, ltv } = health;
  if (factor === null) return { text: ltv === 0 ? "no debt" : "health not known", tone: "" };
  const text = `health ${factor.toFixed(2)}`;
  if (atRisk) return { text: `${text}, may be liquidated`, tone: "bad" };
  return { text, tone: factor < SAFE_FROM ? "warn" : "good" };
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
  const told = (value) => (value === null ? "any" : price(value));
  return `${told(lower)} to ${told(upper)}${current === null ? "" : `, now ${price(current)}`}`;
}

/** A lock in words. */
export function lockWords({ kind, ends_ms: endsMs, ends_slot: endsSlot }) {
  if (kind === "permanent") return "locked for ever";
  if (endsMs !== null) return `${kind} until ${dateTime(endsMs)}`;
  if (endsSlot !== null) return `${kind} until slot ${count(endsSlot)}`;
  return kind;
}

/** An asset in words, with its amount; its symbol is a stranger's text and not in it. */
export function amountWords({ amount: quantity, amount_raw: raw }) {
  if (quantity !== null) return amount(quantity);
  return raw === null ? "?" : `${raw} raw`;
}

/** How complete an aggregate is: `{text, tone, words}`. */
export function completenessWords({ as_of_slot: slot, is_complete: isComplete, errors, pending, unpriced, coverage }) {
  const notes = errors.map((error) => `${error.protocol ?? "An account"}: ${error.detail}.`);
  if (coverage.read_accounts < coverage.known_accounts) {
    notes.push(`${count(coverage.read_accounts)} of ${count(coverage.known_accounts)} accounts were read.`);
  }
  if (pending.length > 0) {
    const names = [...new Set(pending.map((each) => each.protocol))].join(", ");
    notes.push(`Not read here: ${names}.`);
  }
  if (unpriced > 0) notes.push(`Assets without a worth: ${count(unpriced)}.`);
  const failed = errors.length > 0 || coverage.read_accounts < coverage.known_accounts;
  const text = isComplete ? "complete" : failed ? "not complete" : "of what is read";
  return { text, tone: failed ? "warn" : "good", words: [`As of slot ${count(slot)}.`, ...notes].join(" ") };
}
