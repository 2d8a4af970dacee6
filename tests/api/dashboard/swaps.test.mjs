import assert from "node:assert/strict";
import test from "node:test";

import { SwapList } from "../../../api/dashboard/page/lib/swap_list.js";
import { SwapPages } from "../../../api/dashboard/page/lib/swap_pages.js";

const DAY = 86_400_000;

function swap(slot, { tx = 0, event = 0, commitment = "processed" } = {}) {
  const identity = { signature: `s${slot}-${tx}`, slot, tx_index: tx, event_index: event };
  return { ...identity, block_time_ms: slot * 400, commitment };
}

const keys = (list) => list.rows().map((row) => row.key);
const states = (list) => list.rows().map((row) => [row.slot, row.state]);

test("swaps come newest first by slot, transaction and event, each once", () => {
  const list = new SwapList(10);
  list.add([swap(1), swap(3, { tx: 1 }), swap(2), swap(3, { tx: 1, event: 2 }), swap(3)]);
  list.add([swap(2)]);
  assert.deepEqual(keys(list), ["3-s3-1-2", "3-s3-1-0", "3-s3-0-0", "2-s2-0-0", "1-s1-0-0"]);
});

test("a surer swap takes the place of one that was only processed, never the other way", () => {
  const list = new SwapList(10);
  list.add([swap(1)]);
  list.add([{ ...swap(1, { commitment: "confirmed" }), block_time_ms: 7 }]);
  list.add([swap(1)]);
  assert.deepEqual(list.rows().map((row) => [row.state, row.block_time_ms]), [["confirmed", 7]]);
});

test("a slot becomes confirmed, then finalized, and does not go back", () => {
  const list = new SwapList(10);
  list.add([swap(1), swap(2)]);
  assert.equal(list.become(1, "confirmed"), true);
  assert.equal(list.become(1, "confirmed"), false);
  assert.equal(list.become(1, "finalized"), true);
  assert.equal(list.become(1, "confirmed"), false);
  assert.equal(list.become(9, "confirmed"), false);
  assert.deepEqual(list.rows().map((row) => row.state), ["processed", "finalized"]);
});

test("an orphaned slot is marked, and comes back where the chain took it after all", () => {
  const list = new SwapList(10);
  list.add([swap(5)]);
  assert.equal(list.become(5, "orphaned"), true);
  assert.equal(list.rows()[0].state, "orphaned");
  list.add([swap(5, { commitment: "confirmed" })]);
  assert.equal(list.rows()[0].state, "confirmed");
});

test("a swap that the chain dropped in one slot and has in another is shown in that one", () => {
  const copies = [10, 11].map((slot) => ({ ...swap(10), slot }));
  for (const order of [copies, copies.toReversed()]) {
    const list = new SwapList(10);
    for (const each of order) list.add([each]);
    assert.deepEqual(states(list), [[11, "processed"], [10, "processed"]], "the chain has not decided");
    assert.equal(list.become(10, "orphaned"), true);
    assert.deepEqual(states(list), [[11, "processed"]]);
    list.become(11, "confirmed");
    list.add([copies[0]]);
    assert.deepEqual(states(list), [[11, "confirmed"]]);
  }
});

test("a settled swap takes the place of its copies on other branches, dropped or not", () => {
  const list = new SwapList(10);
  list.add([{ ...swap(1), slot: 10 }, { ...swap(1), slot: 12 }, swap(9)]);
  list.become(10, "orphaned");
  list.become(12, "orphaned");
  assert.deepEqual(states(list), [[12, "orphaned"], [9, "processed"]], "once, though none happened");
  list.add([{ ...swap(1, { commitment: "confirmed" }), slot: 11 }]);
  assert.deepEqual(states(list), [[11, "confirmed"], [9, "processed"]]);
});

test("a swap has the state that its slot got before it came", () => {
  const list = new SwapList(10);
  assert.equal(list.become(1, "orphaned"), false);
  list.become(2, "confirmed");
  list.become(3, "finalized");
  list.add([swap(1), swap(2), swap(3, { commitment: "confirmed" })]);
  assert.deepEqual(states(list), [[3, "finalized"], [2, "confirmed"], [1, "orphaned"]]);
  list.add([swap(1), swap(1, { commitment: "confirmed" }), swap(1)]);
  assert.deepEqual(states(list).at(-1), [1, "confirmed"]);
});

test("a note is above what was the newest then", () => {
  const list = new SwapList(10);
  list.add([swap(1), swap(2)]);
  list.note("may be missing");
  list.note("again");
  list.add([swap(3)]);
  assert.deepEqual(keys(list), ["3-s3-0-0", "notice-2", "notice-1", "2-s2-0-0", "1-s1-0-0"]);
  list.become(2, "confirmed");
  assert.equal(list.rows()[1].notice, "again");
});

test("the oldest rows are dropped, and the page says where the list ends", () => {
  const list = new SwapList(2);
  list.add([swap(1), swap(2)]);
  assert.equal(list.trim(), null);
  list.add([swap(3)]);
  assert.equal(list.trim(), 800);
  assert.deepEqual(keys(list), ["3-s3-0-0", "2-s2-0-0"]);
  list.allow(3);
  list.add([swap(1)]);
  assert.equal(list.trim(), null);
  assert.equal(list.size, 3);
});

/** Answers with what a server would; keeps what it was asked. */
function answering(answers) {
  const asked = [];
  const get = async (path, { query }) => {
    asked.push(query);
    return answers[asked.length - 1];
  };
  return { asked, get };
}

const page = (swaps, cursor, fromMs, knownFromMs = DAY) => ({
  swaps,
  from_ms: fromMs,
  known_from_ms: knownFromMs,
  page: { next_cursor: cursor, has_more: cursor !== null },
});

test("pages follow the cursor, then the time before, until nothing is there", async () => {
  const api = answering([
    page([swap(9)], "abc", 100 * DAY),
    page([swap(8)], null, 100 * DAY),
    page([swap(7)], null, 10 * DAY),
    page([], null, 2 * DAY),
  ]);
  const pages = new SwapPages(api, "/swaps", { limit: 5 });
  for (const slot of [9, 8, 7]) {
    const [found] = await pages.next();
    assert.equal(found.slot, slot);
    assert.equal(pages.ending, null);
  }
  assert.deepEqual(await pages.next(), []);
  assert.match(pages.ending, /90 days/);
  assert.deepEqual(api.asked, [
    { limit: 5 },
    { limit: 5, cursor: "abc" },
    { limit: 5, from: 10 * DAY, to: 100 * DAY },
    { limit: 5, from: 0, to: 10 * DAY },
  ]);
});

test("an empty first page does not end it: there may be older ones", async () => {
  const pages = new SwapPages(answering([page([], null, 100 * DAY)]), "/swaps");
  assert.deepEqual(await pages.next(), []);
  assert.equal(pages.ending, null);
});

test("it ends where the swaps that are kept begin, and says since when that is", async () => {
  const since = new Date(2026, 10, 21, 13, 6, 12).getTime();
  const answers = [page([swap(2)], "abc", since, since), page([swap(1)], null, since, since)];
  const pages = new SwapPages(answering(answers), "/swaps");
  await pages.next();
  assert.equal(pages.ending, null);
  await pages.next();
  assert.equal(pages.ending, "These are all. Swaps are kept since 2026-11-21 13:06:12.");
});

test("it ends where nothing is recorded yet", async () => {
  const pages = new SwapPages(answering([page([], null, 100 * DAY, null)]), "/swaps");
  await pages.next();
  assert.equal(pages.ending, "These are all.");
});

test("it goes on at a time, a little above it", async () => {
  const api = answering([page([swap(9)], "abc", 0), page([swap(8)], null, 5 * DAY)]);
  const pages = new SwapPages(api, "/swaps");
  await pages.next();
  pages.restart(100 * DAY);
  assert.equal(pages.ending, null);
  await pages.next();
  assert.deepEqual(api.asked[1], { limit: 50, from: 10 * DAY + 5_000, to: 100 * DAY + 5_000 });
});
