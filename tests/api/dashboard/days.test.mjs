import assert from "node:assert/strict";
import test from "node:test";

import {
  dayMs,
  dayOf,
  everyDay,
  firstKnown,
  runningSums,
  scale,
} from "../../../api/dashboard/page/lib/days.js";

test("days are UTC and come back as they went", () => {
  assert.equal(dayMs("1970-01-02"), 86_400_000);
  assert.equal(dayOf(86_400_000 * 2 - 1), "1970-01-02");
});

test("idle days are filled in, over the end of a month", () => {
  const days = everyDay([{ day: "2026-03-01", wins: 2 }], "2026-02-27", "2026-03-02");
  assert.deepEqual(days, [
    { day: "2026-02-27", isIdle: true },
    { day: "2026-02-28", isIdle: true },
    { day: "2026-03-01", wins: 2 },
    { day: "2026-03-02", isIdle: true },
  ]);
});

test("running sums leave out what is not known", () => {
  assert.deepEqual(runningSums([1, null, -3, undefined, 5]), [1, 1, -2, -2, 3]);
});

test("a scale has round ticks, holds its ends and zero", () => {
  for (const [least, most] of [[-3, 17], [0, 0.0004], [-1e6, -5], [12, 13], [-0.5, 0.5]]) {
    const { low, high, ticks } = scale(least, most);
    assert.ok(low <= Math.min(0, least) && high >= Math.max(0, most), `${least}..${most}`);
    assert.ok(ticks.length >= 2 && ticks.length <= 7, `${ticks}`);
    assert.ok(ticks.some((tick) => Math.abs(tick) < 1e-12), "zero is one of them");
  }
  assert.deepEqual(scale(-3, 17).ticks, [-5, 0, 5, 10, 15, 20]);
  assert.deepEqual(scale(0, 0), { low: 0, high: 1, ticks: [0, 1] });
});

test("days before the tape began are not idle ones", () => {
  const began = dayMs("2026-07-30") + 1;
  for (const [fromDay, knownFromMs, first] of [
    ["2026-07-02", began, "2026-07-30"],
    ["2026-07-30", began, "2026-07-30"],
    ["2026-07-31", began, "2026-07-31"],
    ["2026-07-02", null, "2026-07-02"],
  ]) {
    assert.equal(firstKnown({ from_day: fromDay, known_from_ms: knownFromMs }), first);
  }
});
