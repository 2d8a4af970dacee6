// What an answer's `gaps` says, in words.

import { count } from "./format.js";

/** Sentences on the gaps that an answer rests on: `[]` where there are none. */
export function gapWords(gaps) {
  if (gaps === null) return [];
  const { missing_slots: missing, lost_slots: lost, rolled_back_slots: rolledBack } = gaps;
  if (missing === null) {
    return ["Whether slots of the tape are missing is not known right now: figures may lack trades in them."];
  }
  const words = [];
  if (missing > 0) {
    words.push(`Slots of the tape that are missing: ${count(missing)}. Figures may lack trades in them.`);
  }
  if (lost > 0) {
    words.push(`Slots that were lost on their way into these figures: ${count(lost)}. Figures may lack trades in them.`);
  }
  if (rolledBack === null) {
    words.push("Whether slots with trades of this wallet were rolled back is not known: figures may have trades that never happened.");
  } else if (rolledBack > 0) {
    words.push(`Slots that the chain rolled back after they were counted: ${count(rolledBack)}. Figures may have trades that never happened.`);
  }
  if (gaps.quarantined > 0) {
    words.push(`Wallets or tokens that are left out, as what is stored of them cannot be read: ${count(gaps.quarantined)}.`);
  }
  return words;
}
