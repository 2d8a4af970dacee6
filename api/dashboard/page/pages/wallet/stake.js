// A wallet's native stake: its accounts, what is effective, and what the last epochs paid.

import { element } from "../../lib/dom.js";
import { amount, count, exact, money, short } from "../../lib/format.js";
import { createPanel } from "../../lib/panel.js";
import { createTable } from "../../lib/table.js";

const PERIOD_MS = 30_000;
const REASONS = {
  pending: "asked for",
  limit: "too many asks now",
  not_asked: "not asked",
  too_many: "not listed",
};

/** Make the card of stake accounts. */
export function createStake({ api, path }) {
  const words = element("p", { class: "hint inset" });
  const table = createTable({
    caption: "Stake accounts, most valuable first",
    captionHidden: true,
    key: (row) => row.position_id,
    cards: true,
    empty: "No stake account.",
    columns: [
      { id: "account", label: "Account", content: (row) => element("span", { class: "mono", title: row.position_id }, short(row.position_id)) },
      { id: "validator", label: "Validator", content: (row) => validator(row.stake) },
      { id: "status", label: "Status", content: (row) => row.stake.status },
      { id: "effective", label: "Effective", numeric: true, content: (row) => sols(row.stake.effective_sol), cellTitle: (row) => exact(row.stake.effective_sol) },
      { id: "rewards", label: "Last epochs paid", numeric: true, content: (row) => paid(row.stake), cellTitle: (row) => epochs(row.stake) },
      { id: "value", label: "Value", numeric: true, content: (row) => money(row.value_usd) },
    ],
  });
  const content = element("div", {}, words, table.element);
  return createPanel({
    title: "Native stake",
    flush: true,
    periodMs: () => PERIOD_MS,
    load: (signal) => api.get(`${path}/staking/native`, { signal }),
    show(answer) {
      table.update(answer.positions);
      words.textContent = answer.is_complete
        ? `All stake accounts, as of slot ${count(answer.as_of_slot)}.`
        : `Not complete: ${answer.errors.map((error) => error.detail).join("; ") || "not all accounts were read"}.`;
      return content;
    },
  });
}

function validator({ validator: vote }) {
  return vote === null ? "none" : element("span", { class: "mono", title: vote }, short(vote));
}

function sols(value) {
  return value === null ? "–" : `${amount(value)} SOL`;
}

function paid({ rewards, rewards_reason: reason }) {
  if (rewards === null) return REASONS[reason] ?? "–";
  if (rewards.some((each) => each.reason !== null && each.reason !== "not_paid")) return "not all known";
  return sols(rewards.reduce((sum, each) => sum + (each.sol ?? 0), 0));
}

function epochs({ rewards }) {
  return (rewards ?? []).map((each) => `${each.epoch}: ${each.reason ?? `${exact(each.sol)} SOL`}`).join("\n");
}
