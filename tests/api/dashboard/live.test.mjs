import assert from "node:assert/strict";
import test from "node:test";

import { Feed } from "../../../api/dashboard/page/pages/live/feed.js";
import { Latencies, Rate } from "../../../api/dashboard/page/pages/live/meters.js";

function swap(number, slot = 1) {
  return { signature: `s${number}`, event_index: 0, slot, commitment: "processed" };
}

function shown(feed) {
  return feed.rows.map((row) => row.notice ?? row.signature);
}

test("the newest is on top, and there are as many rows as were allowed", () => {
  const feed = new Feed(3);
  for (const number of [1, 2]) feed.add(swap(number));
  assert.equal(feed.advance(10), true);
  assert.equal(feed.advance(10), false);
  for (const number of [3, 4]) feed.add(swap(number));
  feed.advance(10);
  assert.deepEqual(shown(feed), ["s4", "s3", "s2"]);
  assert.equal(feed.passed, 0);
});

test("more than can be read passes unseen, and is counted; notices are never left out", () => {
  const feed = new Feed(10);
  feed.add(swap(1));
  feed.note("gap");
  for (let number = 2; number <= 6; number++) feed.add(swap(number));
  assert.equal(feed.arrived, 6);
  feed.advance(2);
  assert.deepEqual(shown(feed), ["s6", "s5", "gap"]);
  assert.equal(feed.passed, 4);
  assert.equal(feed.arrived, 0);
});

test("what waits is bounded, however long it is paused", () => {
  const feed = new Feed(5);
  feed.note("gap");
  for (let number = 1; number <= 1_000; number++) feed.add(swap(number));
  assert.equal(feed.arrived, 1_000);
  feed.advance(5);
  assert.deepEqual(shown(feed), ["s1000", "s999", "s998", "s997", "s996"]);
  assert.equal(feed.passed, 995);
});

test("a swap that comes again is one row", () => {
  const feed = new Feed(5);
  feed.add(swap(1));
  feed.advance(5);
  feed.add(swap(2));
  feed.add(swap(1));
  feed.add(swap(1));
  feed.advance(5);
  assert.deepEqual(shown(feed), ["s1", "s2"]);
});

test("a swap that the chain dropped in one slot and has in another is one row, of that slot", () => {
  const states = (feed) => feed.rows.map((row) => [row.slot, row.state]);
  for (const slots of [[10, 11], [11, 10]]) {
    const waiting = new Feed(5);
    const shownBefore = new Feed(5);
    for (const feed of [waiting, shownBefore]) {
      for (const slot of slots) feed.add(swap(1, slot));
      feed.note("gap");
    }
    shownBefore.advance(5);
    assert.equal(shownBefore.rows.length, 3, "the chain has not decided");
    for (const feed of [waiting, shownBefore]) {
      assert.equal(feed.settle(10, "orphaned"), feed === shownBefore);
      feed.settle(11, "confirmed");
      feed.add(swap(1, 10));
      feed.advance(5);
      assert.deepEqual(states(feed).filter(([slot]) => slot), [[11, "confirmed"]]);
      assert.equal(feed.rows.length, 2);
    }
  }
});

test("a settled swap takes the place of its copies on other branches", () => {
  const feed = new Feed(5);
  for (const slot of [10, 12]) feed.add(swap(1, slot));
  feed.advance(5);
  assert.equal(feed.settle(12, "confirmed"), true);
  assert.deepEqual(feed.rows.map(({ slot }) => slot), [12]);
});

test("a slot whose block died may be confirmed with another", () => {
  const feed = new Feed(5);
  feed.settle(7, "orphaned");
  feed.add(swap(1, 7));
  feed.advance(5);
  assert.deepEqual(feed.rows.map(({ state }) => state), ["orphaned"]);
  feed.settle(7, "confirmed");
  assert.deepEqual(feed.rows.map(({ state }) => state), ["confirmed"]);
});

test("the status of a slot is shown in its rows, later ones included", () => {
  const feed = new Feed(5);
  feed.add(swap(1, 7));
  feed.advance(5);
  assert.equal(feed.settle(8, "confirmed"), false);
  assert.equal(feed.settle(7, "confirmed"), true);
  assert.equal(feed.settle(7, "processed"), false);
  feed.add(swap(2, 7));
  feed.advance(5);
  assert.deepEqual(feed.rows.map(({ state }) => state), ["confirmed", "confirmed"]);
  assert.equal(feed.settle(7, "orphaned"), true);
  assert.deepEqual(feed.rows.map(({ state }) => state), ["orphaned", "orphaned"]);
});

test("another filter begins with nothing", () => {
  const feed = new Feed(5);
  feed.add(swap(1));
  feed.advance(5);
  feed.add(swap(2));
  feed.clear();
  assert.equal(feed.advance(5), false);
  assert.deepEqual(feed.rows, []);
});

test("the rate is of whole seconds, quiet ones counted", () => {
  const rate = new Rate(5);
  assert.equal(rate.at(1_000), null);
  for (let second = 10; second < 14; second++) {
    for (let each = 0; each < 20; each++) rate.add(second * 1000 + each);
  }
  assert.equal(rate.at(10_500), null);
  assert.equal(rate.at(12_000), 20);
  assert.equal(rate.at(16_000), 12);
  assert.equal(rate.at(60_000), 0);
});

test("latencies are those of the last seconds", () => {
  const latencies = new Latencies({ most: 100, forMs: 10_000 });
  assert.equal(latencies.at(0), null);
  for (let each = 1; each <= 100; each++) latencies.add(1_000, each);
  assert.deepEqual(latencies.at(1_000), { median: 51, p99: 100, count: 100 });
  for (let each = 0; each < 1_000; each++) latencies.add(9_000, 7);
  assert.deepEqual(latencies.at(9_000), { median: 7, p99: 7, count: 100 });
  assert.equal(latencies.at(20_000), null);
});
