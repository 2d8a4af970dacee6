// A wallet at a glance: what it holds, gained and paid; and its last seven days as a chart.

import { createBars } from "../../lib/bars.js";
import { runningSums } from "../../lib/days.js";
import { element, fill } from "../../lib/dom.js";
import { amount, count, money, percent, roundMoney, short } from "../../lib/format.js";
import { gapWords } from "../../lib/gaps.js";
import { createTable, gain } from "../../lib/table.js";

/** Make the head of a wallet: `{element, show(portfolio)}`. */
export function createTotals({ address }) {
  const facts = element("dl", { class: "facts" });
  const notes = element("div", {});
  return {
    element: element(
      "section",
      { class: "card facts-card", "aria-label": "Wallet" },
      element("div", {}, element("h1", { class: "mono" }, short(address, 6)), element("p", { class: "address hint" }, address)),
      facts,
      notes,
    ),
    /** An answer of `/portfolio`. */
    show({ gaps, holdings, positions, pnl }) {
      const { all_time: all, days_7: week } = pnl;
      fill(
        facts,
        fact("Balances, verified", money(holdings.value_usd), "SOL and verified tokens, the sum of Holdings, below"),
        fact("SOL", amount(holdings.native?.sol)),
        fact("Positions hold", money(positions.value_usd), openWords(positions)),
        fact("Unrealized", gained(positions.unrealized_usd, positions.unrealized_pct)),
        fact("Realized, 7 days", gained(week.realized_usd, week.realized_pct)),
        fact("Realized, all time", gained(all.realized_usd, all.realized_pct), "Since the tape began, without fees"),
        fact("Sales with a gain", winRate(all)),
        fact("Bought", money(all.bought_usd)),
        fact("Sold", money(all.sold_usd)),
        fact("Buys / sells", `${count(all.buys)} / ${count(all.sells)}`),
        fact("Fees", `${amount(all.fee_sol)} SOL`, "Network fees, base and priority; in no gain"),
        fact("Tips", `${amount(all.tip_sol)} SOL`, "In no gain"),
      );
      const words = [...gapWords(gaps), ...noteWords(holdings.coverage, positions, all)];
      fill(notes, words.map((sentence) => element("p", { class: "hint" }, sentence)));
    },
  };
}

function openWords({ held_positions: held, priced_positions: priced, stale_positions: stale }) {
  return `${count(held)} positions hold something, ${count(priced)} of them with a price, ${count(stale)} of these with an old one`;
}

function noteWords(coverage, positions, all) {
  const notes = [];
  if (coverage.read_accounts < coverage.known_accounts) {
    notes.push(`Token accounts: ${count(coverage.known_accounts)}. That is more than are read at once, so what they are worth together is not known.`);
  }
  if (positions.position_count === 0) {
    notes.push("This wallet has no positions: since the tape began it has not traded, received or sent a token.");
  }
  if (all.unmatched_sales > 0) {
    notes.push(`Sales with a part without a known cost or value: ${count(all.unmatched_sales)}. That part is counted neither as a gain nor as a loss.`);
  }
  if (positions.unknown_cost_positions > 0) {
    notes.push(`Positions that hold something without a known cost: ${count(positions.unknown_cost_positions)}. It is left out of what is unrealized.`);
  }
  if (positions.stale_positions > 0) {
    notes.push(`Positions valued at a price that is more than an hour old: ${count(positions.stale_positions)}.`);
  }
  if (!positions.is_complete) {
    notes.push("Only the 1,000 positions with the newest trades are counted in what is held.");
  }
  return notes;
}

function winRate({ win_rate_pct: pct, wins, losses }) {
  return pct === null ? "–" : `${percent(pct)} of ${count(wins + losses)}`;
}

/** Make the card of the last seven days: `{element, show(portfolio), stop()}`. */
export function createWeek() {
  const bars = createBars({ tick: roundMoney });
  const summary = element("p", { class: "hint" });
  const nothing = element("p", { class: "empty" }, "Loading …");
  const table = createTable({
    caption: "The last seven days, UTC",
    key: (row) => row.day,
    cards: true,
    columns: [
      { id: "day", label: "Day", content: (row) => row.day },
      { id: "realized", label: "Realized", numeric: true, content: (row) => gained(row.realized_usd, row.realized_pct) },
      { id: "sum", label: "Sum so far", numeric: true, content: (row) => gain(row.sum, money(row.sum, { sign: true })) },
      { id: "trades", label: "Buys / sells", numeric: true, content: (row) => `${count(row.buys)} / ${count(row.sells)}` },
      { id: "unmatched", label: "Unmatched sales", numeric: true, content: (row) => count(row.unmatched_sales) },
      { id: "fees", label: "Fees and tips, SOL", numeric: true, content: (row) => amount(row.fee_sol + row.tip_sol) },
    ],
  });
  const chart = element(
    "div",
    { hidden: true },
    bars.element,
    summary,
    element("details", {}, element("summary", {}, "As a table"), table.element),
  );
  return {
    element: element(
      "section",
      { class: "card", "aria-label": "Seven days" },
      element("h2", {}, "Realized, the last seven days"),
      nothing,
      chart,
    ),
    show({ pnl: { days_7: week } }) {
      const sums = runningSums(week.days.map((day) => day.realized_usd));
      const days = week.days.map((day, place) => ({ ...day, sum: sums[place] }));
      const isIdle = days.every((day) => day.buys + day.sells === 0 && day.realized_usd === null);
      nothing.hidden = !isIdle;
      nothing.textContent = "No trade within the last seven days.";
      chart.hidden = isIdle;
      if (isIdle) return;
      const words = `${money(week.realized_usd, { sign: true })} realized in seven days, ${count(week.wins)} sales with a gain, ${count(week.losses)} with a loss`;
      summary.textContent = `${words}. Bars are days (UTC), hollow for gains, filled for losses; the line is their sum.`;
      bars.show(
        words,
        days.map((day) => ({
          name: day.day.slice(5),
          title: `${day.day}: ${money(day.realized_usd, { sign: true })}, sum ${money(day.sum, { sign: true })}`,
          value: day.realized_usd,
          line: day.sum,
        })),
      );
      table.update(days.toReversed());
    },
    stop: () => bars.stop(),
  };
}

/** A gain in dollars, with its share of the cost. */
export function gained(usd, pct) {
  if (usd === null || usd === undefined) return "–";
  const share = pct === null || pct === undefined ? "" : ` (${percent(pct, { sign: true })})`;
  return gain(usd, money(usd, { sign: true }) + share);
}

export function fact(word, value, title = null) {
  return element("div", { title }, element("dt", {}, word), element("dd", {}, value));
}
