// What a wallet was worth, interval by interval, ready to be drawn: gaps stay gaps.

import { dayOf } from "./days.js";
import { count, dateTime, money, time } from "./format.js";
import { DAY_MS } from "./times.js";

const NOT_TRACKED = {
  pending: "it is asked for, and snapshots begin within the hour",
  not_ingested: "nothing follows accounts here",
  lane_stalled: "what follows accounts has stopped",
  key_limit: "too many new wallets were asked for in this minute",
  limit: "too many new wallets were asked for in this minute",
  not_asked: "the store took no request",
  too_many_accounts: "it has too many accounts",
};

/**
 * Return a row for every interval of the last `lengthMs` of an answer, from its first snapshot on:
 * the answer's point, or `{start_ms, isGap: true}` where there is no snapshot.
 */
export function everyInterval({ points, from_ms: fromMs, to_ms: toMs, interval_ms: stepMs, since_ms: sinceMs }, lengthMs) {
  if (sinceMs === null) return [];
  const known = new Map(points.map((point) => [point.start_ms, point]));
  const first = Math.floor(sinceMs / stepMs) * stepMs;
  const rows = [];
  for (let start = Math.max(fromMs, first, toMs - lengthMs); start < toMs; start += stepMs) {
    rows.push(known.get(start) ?? { start_ms: start, isGap: true });
  }
  return rows;
}

/** Return what a row says in words. */
export function pointWords(row) {
  if (row.isGap) return `${dateTime(row.start_ms)}: no snapshot`;
  const when = dateTime(row.time_ms);
  if (row.net_worth_usd === null) return `${when}: not known (${row.reasons.join(", ")})`;
  return `${when}: ${money(row.net_worth_usd)}`;
}

/** Return the name below a bar: the hour here, or the day (UTC) where an interval is one. */
export function barName(startMs, stepMs) {
  return stepMs < DAY_MS ? time(startMs).slice(0, 5) : dayOf(startMs).slice(5);
}

/** Return what the rows of an answer come to, and since when it is known, in words. */
export function overTimeWords(answer, rows) {
  const notes = [];
  const known = rows.filter((row) => !row.isGap && row.net_worth_usd !== null);
  if (known.length > 0) {
    const ends = known.length > 1 ? [known[0], known.at(-1)] : known;
    notes.push(`${ends.map((row) => `${money(row.net_worth_usd)} at ${dateTime(row.time_ms)}`).join(", ")}.`);
  }
  const gaps = rows.filter((row) => row.isGap).length;
  const unknown = rows.length - gaps - known.length;
  if (gaps > 0) notes.push(`Without a snapshot: ${count(gaps)} of ${count(rows.length)}, left empty.`);
  if (unknown > 0) notes.push(`Not known, as a part was not: ${count(unknown)}.`);
  if (known.at(-1)?.pending_routes > 0) notes.push("Kinds of positions that are not read yet are in no sum.");
  if (answer.since_ms !== null) notes.push(`Snapshots since ${dateTime(answer.since_ms)}, kept for ${count(answer.retention_days)} days.`);
  if (!answer.is_tracked) {
    const reason = answer.not_tracked_reason;
    notes.push(`The wallet is not tracked now: ${Object.hasOwn(NOT_TRACKED, reason) ? NOT_TRACKED[reason] : reason}.`);
  }
  return notes.join(" ");
}
