import assert from "node:assert/strict";
import test from "node:test";

import { closes, fit, Trail } from "../../../api/dashboard/page/lib/trail.js";
import { mount } from "../../../api/dashboard/page/pages/trending.js";
import { matches, TrendingList } from "../../../api/dashboard/page/pages/trending/list.js";
import { root } from "./page.mjs";
import { World } from "./world.mjs";

const MINUTE_MS = 60_000;

test("prices close to each other are one point, the later one", () => {
  const trail = new Trail();
  trail.add(0, 1);
  for (const timeMs of [1_000, 2_000, 19_000]) trail.add(timeMs, timeMs);
  assert.deepEqual(trail.points, [[0, 1], [19_000, 19_000]]);
  trail.add(40_000, 2);
  trail.add(41_000, 3);
  assert.deepEqual(trail.points, [[0, 1], [19_000, 19_000], [40_000, 2], [41_000, 3]]);
  assert.equal(trail.changePct, 200);
});

test("what is no price, or from before, changes nothing", () => {
  const trail = new Trail();
  trail.add(5, 1);
  const { version } = trail;
  for (const price of [null, undefined, 0, -1, NaN]) trail.add(6, price);
  trail.add(4, 7);
  assert.deepEqual(trail.points, [[5, 1]]);
  assert.equal(trail.version, version);
  assert.equal(trail.changePct, null);
});

test("an hour is kept, however long it is looked at", () => {
  const trail = new Trail();
  for (let minute = 0; minute <= 200; minute += 1) trail.add(minute * MINUTE_MS, 1 + minute);
  assert.equal(trail.points.length, 61);
  assert.deepEqual(trail.points[0], [140 * MINUTE_MS, 141]);
});

test("candles come before what was seen live, and never instead of it", () => {
  const trail = new Trail();
  trail.add(10 * MINUTE_MS, 5);
  trail.seed([[8 * MINUTE_MS, 3], [9 * MINUTE_MS, 4], [10 * MINUTE_MS, 99], [11 * MINUTE_MS, 98]]);
  assert.deepEqual(trail.points.map(([, price]) => price), [3, 4, 5]);
  trail.seed([[7 * MINUTE_MS, 2]]); // asked for again: that is the past from then on
  assert.deepEqual(trail.points.map(([, price]) => price), [2, 5]);
});

test("candles are put to this clock, the running one ends now", () => {
  const answer = {
    interval_s: 60,
    as_of_ms: 1_000_090,
    candles: [
      { start_ms: 880_000, close_usd: 1 },
      { start_ms: 940_000, close_usd: null },
      { start_ms: 1_000_000, close_usd: 2 },
    ],
  };
  assert.deepEqual(closes(answer, 5_000_000), [[5_000_000 - 60_090, 1], [5_000_000, 2]]);
});

test("a line fills its box, and a flat one lies in the middle", () => {
  assert.deepEqual(fit([[0, 1], [5, 3], [10, 2]], 100, 22, 1), [[0, 21], [50, 1], [100, 11]]);
  assert.deepEqual(fit([[0, 7], [10, 7]], 100, 22, 1), [[0, 11], [100, 11]]);
});

function token(mint, more = {}) {
  return { mint, name: mint, symbol: mint, dex: "pump-fun", creator: null, price_usd: 1, ...more };
}

test("a snapshot gives places, and what it does not list has left", () => {
  const list = new TrendingList(() => 0);
  list.replace([token("A"), token("B"), token("C")]);
  list.replace([token("C"), token("A"), { nonsense: true }]);
  assert.deepEqual(list.rows().map(({ mint, rank }) => [mint, rank]), [["C", 1], ["A", 2]]);
});

test("an update keeps the place; a new token has none yet; one that left is gone", () => {
  const list = new TrendingList(() => 0);
  list.replace([token("A")]);
  assert.equal(list.update(token("A", { price_usd: 2 })), false);
  assert.equal(list.update(token("B", { dex: "moonit" })), true);
  assert.equal(list.update(null), false);
  assert.deepEqual(list.rows().map(({ rank, data }) => [rank, data.price_usd]), [[1, 2], [null, 1]]);
  assert.deepEqual([...list.platforms], ["pump-fun", "moonit"]);
  assert.equal(list.remove("A"), true);
  assert.equal(list.remove("A"), false);
  assert.equal(list.size, 1);
});

test("a token that comes back has its line still, and versions say what changed", () => {
  let now = 0;
  const list = new TrendingList(() => now);
  list.replace([token("A", { price_usd: 1 })]);
  now = MINUTE_MS;
  list.replace([]);
  list.replace([token("A", { price_usd: 3 })]);
  const [row] = list.rows();
  assert.equal(row.trail.changePct, 200);
  const { version } = row;
  list.seed("A", [[-MINUTE_MS, 0.5]]);
  assert.notEqual(list.rows()[0].version, version);
  assert.equal(list.rows()[0].trail.changePct, 500);
});

test("tokens are found by name and symbol in any case, by addresses as they are", () => {
  const row = { data: token("MintAddress", { name: "Sleepy Ghost", symbol: null, creator: "Who" }) };
  for (const words of ["", "ghost", "SLEEPY", "tAdd", "Who"]) assert.ok(matches(row, words), words);
  for (const words of ["otter", "mintaddress", "who"]) assert.ok(!matches(row, words), words);
});

test("that no token trends is said of a list that came, not of one that is acknowledged", (context) => {
  const world = new World();
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const whole = root();
  context.after(mount(whole, { api: {}, trending: world.connection, announce() {} }));
  const channel = "trending-pairs";
  world.open();
  world.acknowledge(channel);
  assert.match(whole.textContent, /Waiting for the list/);
  const { request_id } = world.asked("subscribe", channel).at(-1);
  world.say({ type: "error", code: "store_unavailable", message: "the store is away", channel, request_id });
  assert.match(whole.textContent, /Reading the list.*the store is away.*Waiting for the list/);
  world.pass(2_500);
  assert.deepEqual(world.asked("subscribe", channel).map(({ dex }) => dex), ["*", "*"]);
  world.acknowledge(channel);
  world.say({ type: "snapshot", channel, data: [], as_of_id: "1-0-0" });
  assert.match(whole.textContent, /No token trends here now/);
});
