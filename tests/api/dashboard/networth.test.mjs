import assert from "node:assert/strict";
import { test } from "node:test";

import { barName, everyInterval, overTimeWords, pointWords } from "../../../api/dashboard/page/lib/networth.js";

const HOUR = 3_600_000;
const NOON = Date.UTC(2026, 6, 31, 12);
const point = (hours, worth, more = {}) => ({
  start_ms: NOON + hours * HOUR,
  time_ms: NOON + hours * HOUR + 1_000,
  net_worth_usd: worth,
  reasons: worth === null ? ["holdings_incomplete"] : [],
  pending_routes: 0,
  ...more,
});
const answer = (points, more = {}) => ({
  points,
  from_ms: NOON - 300 * HOUR,
  to_ms: NOON + 4 * HOUR,
  interval_ms: HOUR,
  since_ms: points[0]?.time_ms ?? null,
  is_tracked: true,
  not_tracked_reason: null,
  retention_days: 400,
  ...more,
});

test("an interval without a snapshot is a gap, and nothing comes before the first one", () => {
  const rows = everyInterval(answer([point(0, 5), point(2, null), point(3, 7)]), 48 * HOUR);
  assert.deepEqual(rows.map((row) => [row.start_ms, row.isGap ?? false]), [
    [NOON, false],
    [NOON + HOUR, true],
    [NOON + 2 * HOUR, false],
    [NOON + 3 * HOUR, false],
  ]);
  assert.equal(everyInterval(answer([point(0, 5)]), 2 * HOUR).length, 2);
  assert.deepEqual(everyInterval(answer([]), HOUR), []);
});

test("a gap, a part and a figure are worded differently", () => {
  assert.match(pointWords({ start_ms: NOON, isGap: true }), /: no snapshot$/);
  assert.match(pointWords(point(0, null)), /not known \(holdings_incomplete\)$/);
  assert.match(pointWords(point(0, 5)), /: \$5/);
});

test("what is left empty is counted, and what is tracked since when is said", () => {
  const given = answer([point(0, 5), point(2, null), point(3, 7, { pending_routes: 2 })]);
  const words = overTimeWords(given, everyInterval(given, 48 * HOUR));
  assert.match(words, /Without a snapshot: 1 of 4, left empty\. Not known, as a part was not: 1\./);
  assert.match(words, /not read yet are in no sum\. Snapshots since .*, kept for 400 days\.$/);
});

test("a wallet that is not tracked says why, a reason it does not know by its name", () => {
  const why = (reason) => overTimeWords(answer([], { is_tracked: false, not_tracked_reason: reason }), []);
  assert.equal(why("not_ingested"), "The wallet is not tracked now: nothing follows accounts here.");
  assert.equal(why("new_one"), "The wallet is not tracked now: new_one.");
});

test("bars are named by the hour, or by the day", () => {
  assert.match(barName(NOON, HOUR), /^\d\d:\d\d$/);
  assert.equal(barName(NOON, 24 * HOUR), "07-31");
});
