// How complete a wallet's holdings are, in words. No DOM: tested with Node.

import { count } from "./format.js";

const REASONS = {
  pending: "Its accounts were asked for and are not all here yet.",
  withdrawn: "Its accounts were known; a part of the chain was lost, and they are asked for again.",
  not_followed: "It is not followed.",
  key_limit: "This key has asked for too many new wallets within this minute.",
  limit: "Too many new wallets were asked for within this minute.",
  too_many_wait: "Its accounts were asked for; too many requests wait now.",
  not_asked: "Its accounts could not be asked for.",
  lane_stalled: "The accounts are behind the chain.",
  not_ingested: "No accounts are taken in here.",
  unreadable: "One of its accounts cannot be read.",
  too_many_accounts: "It has more accounts than are read at once.",
};

/** Return `{isComplete, short, words}` for an answer of `/holdings`. */
export function coverageWords({ coverage, as_of_slot: slot }) {
  if (coverage.is_complete) {
    return {
      isComplete: true,
      short: "complete",
      words: `All token accounts and the SOL of this wallet, as of slot ${count(slot)}. Followed since slot ${count(coverage.since_slot)}.`,
    };
  }
  const why = REASONS[coverage.reason] ?? "";
  return {
    isComplete: false,
    short: "not complete",
    words: `What the tape saw, as of slot ${count(slot)}: what has not moved since it began is not here. ${why}`.trim(),
  };
}
