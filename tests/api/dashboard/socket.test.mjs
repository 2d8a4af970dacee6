import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { isAfter, parseId, timeOf } from "../../../api/dashboard/page/lib/event_id.js";
import { ENDED_AGAIN_MS } from "../../../api/dashboard/page/lib/socket.js";
import { listening, World } from "./world.mjs";

function live(filter = {}) {
  const world = new World();
  const listeners = listening();
  const subscription = world.connection.subscribe("swaps", filter, listeners);
  world.open();
  world.acknowledge("swaps");
  return { world, subscription, heard: listeners.heard };
}

test("ids are ordered by their numbers, not as text", () => {
  assert.deepEqual(parseId("1732170000000-0-7"), [1732170000000, 0, 7]);
  for (const none of ["", "1-2", "1-2-x", "1-2-3-4", "-1-2-3", null, 7]) assert.equal(parseId(none), null);
  assert.equal(isAfter("10-0-0", "9-9-9"), true);
  assert.equal(isAfter("10-0-10", "10-0-9"), true);
  assert.equal(isAfter("10-0-9", "10-0-9"), false);
  assert.equal(timeOf("12-0-1"), 12);
});

test("nothing is connected until something is subscribed to, nor after", () => {
  const world = new World();
  assert.equal(world.connection.status.state, "idle");
  const { stop } = world.connection.subscribe("swaps");
  world.open();
  stop();
  assert.equal(world.asked("unsubscribe", "swaps").length, 1);
  world.pass(1_000);
  assert.equal(world.socket.readyState, 3);
  assert.equal(world.connection.status.state, "idle");
  assert.equal(world.timers.size, 0);
});

test("the next page takes over the connection of the last", () => {
  const { world, subscription } = live();
  subscription.stop();
  world.connection.subscribe("status");
  world.pass(1_000);
  assert.equal(world.sockets.length, 1);
  assert.equal(world.socket.readyState, 1);
});

test("what is not used is ended at once where another wants its place", () => {
  const { world, subscription } = live();
  world.connection.rest();
  assert.equal(world.connection.status.state, "open");
  subscription.stop();
  world.connection.rest();
  assert.equal(world.connection.status.state, "idle");
  assert.equal(world.socket.readyState, 3);
});

test("a connection that is left while it opens ends when it is open, and is not heard", () => {
  const world = new World();
  world.connection.subscribe("swaps").stop();
  world.pass(1_000);
  assert.equal(world.connection.status.state, "idle");
  assert.equal(world.socket.readyState, 0); // cut off now, the browser would warn of it
  const [left] = world.sockets;
  world.connection.subscribe("status");
  left.readyState = 1;
  left.onopen();
  assert.equal(left.readyState, 3);
  assert.deepEqual(left.sent, []);
  assert.equal(world.connection.status.state, "connecting");
  world.open();
  assert.equal(world.asked("subscribe", "status").length, 1);
});

test("events come to subscribers, with the filter sent", () => {
  const { world, heard } = live({ dex: ["pump-swap"] });
  assert.deepEqual(world.asked("subscribe")[0].dex, ["pump-swap"]);
  assert.equal("since" in world.asked("subscribe")[0], false);
  world.swap("1-0-0");
  world.say({ type: "creation", channel: "creations", data: "not asked for", id: "1-0-1" });
  assert.deepEqual(heard.events, ["1-0-0"]);
});

test("after a loss it goes on after the last event, each once", () => {
  const { world, heard } = live({ token: "T" });
  world.swap("5-0-0");
  world.swap("5-0-1");
  world.end();
  assert.equal(world.connection.status.state, "waiting");
  world.retry();
  assert.equal(world.sockets.length, 2);
  world.open();
  const asked = world.asked("subscribe", "swaps")[0];
  assert.equal(asked.since, "5-0-1");
  assert.equal(asked.token, "T");
  world.acknowledge("swaps");
  for (const id of ["5-0-0", "5-0-1", "5-0-2", "6-0-0", "6-0-0"]) world.swap(id);
  assert.deepEqual(heard.events, ["5-0-0", "5-0-1", "5-0-2", "6-0-0"]);
  assert.deepEqual(heard.states, ["away", "asking", "live", "away", "asking", "live"]);
});

test("a snapshot is asked for once: what was missed comes instead", () => {
  const world = new World();
  const listeners = listening();
  world.connection.subscribe("prices", { mints: ["M"], snapshot: true }, listeners);
  world.open();
  assert.equal(world.asked("subscribe")[0].snapshot, true);
  world.acknowledge("prices");
  world.say({ type: "snapshot", channel: "prices", data: ["p"], as_of_id: "3-0-0" });
  world.say({ type: "price", channel: "prices", data: "q", id: "4-0-0" });
  world.end();
  world.retry();
  world.open();
  const [asked] = world.asked("subscribe");
  assert.deepEqual([asked.snapshot, asked.since, asked.mints], [undefined, "4-0-0", ["M"]]);
  assert.deepEqual(listeners.heard.snapshots, [[["p"], "3-0-0"]]);
  assert.deepEqual(listeners.heard.events, ["q"]);
});

test("gaps are reported; a stream that began anew may count from the beginning", () => {
  const { world, heard } = live();
  world.swap("9-0-0");
  world.say({ type: "gap", channel: "swaps", reason: "trimmed", after: "9-0-0", before: "12-0-0" });
  world.swap("12-0-0");
  world.say({ type: "gap", channel: "swaps", reason: "epoch", after: null, before: null });
  world.swap("3-0-0");
  assert.deepEqual(heard.gaps, ["trimmed", "epoch"]);
  assert.deepEqual(heard.events, ["9-0-0", "12-0-0", "3-0-0"]);
});

test("lagging is reported as a gap, with how many are lost", () => {
  const { world, heard } = live();
  const notices = [];
  world.connection.onNotice(({ code, dropped }) => notices.push([code, dropped]));
  world.say({ type: "lagging", channel: null, dropped: 12 });
  assert.deepEqual(heard.gaps, ["lagging"]);
  assert.deepEqual(notices, [["lagging", 12]]);
});

test("a new filter leaves out what still comes by the old one", () => {
  const { world, subscription, heard } = live();
  world.swap("1-0-0");
  subscription.change({ dex: ["orca-whirlpool"] });
  world.swap("1-0-1", "of the old filter");
  const asked = world.asked("subscribe").at(-1);
  assert.equal("since" in asked, false);
  world.acknowledge("swaps");
  world.swap("1-0-2");
  assert.deepEqual(heard.events, ["1-0-0", "1-0-2"]);
});

test("an answer to an earlier request does not count for a later one", () => {
  const { world, subscription, heard } = live();
  subscription.change({ dex: ["a"] });
  const first = world.asked("subscribe").at(-1).request_id;
  subscription.change({ dex: ["b"] });
  world.say({ type: "subscribed", channel: "swaps", filter: {}, request_id: first });
  world.swap("2-0-0", "of the first change");
  world.acknowledge("swaps");
  world.swap("2-0-1");
  assert.deepEqual(heard.events, ["2-0-1"]);
});

test("a filter that is refused leaves the one before in force", () => {
  const { world, subscription, heard } = live({ dex: ["good"] });
  subscription.change({ wallets: ["W"] });
  const { request_id } = world.asked("subscribe").at(-1);
  world.say({ type: "error", code: "not_in_plan", message: "no", channel: "swaps", request_id });
  world.swap("1-0-0");
  assert.deepEqual(heard.errors, ["not_in_plan"]);
  assert.deepEqual(heard.events, ["1-0-0"]);
  world.end();
  world.retry();
  world.open();
  assert.deepEqual(world.asked("subscribe")[0].dex, ["good"]);
});

test("a filter changed while away is asked for from now on", () => {
  const { world, subscription } = live();
  world.swap("1-0-0");
  world.end();
  subscription.change({ token: "T" });
  world.open();
  const [asked] = world.asked("subscribe");
  assert.deepEqual([asked.token, asked.since], ["T", undefined]);
});

/** What the gateway says where a subscription ends that it has acknowledged: the same request id again. */
function ended(world, code = "store_unavailable", { request_id } = world.asked("subscribe", "swaps").at(-1)) {
  world.say({ type: "error", code, message: "subscribe again", channel: "swaps", request_id });
}

test("the errors that end a subscription are those that the protocol names", () => {
  const protocol = readFileSync(new URL("../../../stream_gateway/PROTOCOL.md", import.meta.url), "utf8");
  const named = [...protocol.matchAll(/^\| `(\w+)` \| .*\bended\b.*subscribe again/gm)].map(([, code]) => code);
  assert.deepEqual(named.toSorted(), [...ENDED_AGAIN_MS.keys()].toSorted());
});

test("a subscription that ends after its acknowledgement is asked for again, from the last event on", () => {
  const { world, heard } = live();
  const notices = [];
  world.connection.onNotice(({ code }) => notices.push(code));
  world.swap("1-0-0");
  world.end();
  world.retry();
  world.open();
  world.acknowledge("swaps", { since: "1-0-0" });
  world.swap("1-0-1");
  ended(world);
  world.pass(2_500);
  const asked = world.asked("subscribe", "swaps");
  assert.deepEqual(asked.map(({ since }) => since), ["1-0-0", "1-0-1"]);
  world.acknowledge("swaps");
  world.swap("1-0-2");
  world.pass(4_000);
  assert.equal(world.asked("subscribe", "swaps").length, 2);
  assert.deepEqual(heard.events, ["1-0-0", "1-0-1", "1-0-2"]);
  assert.deepEqual(heard.states.slice(3), ["away", "asking", "live", "refused", "asking", "live"]);
  assert.deepEqual([heard.errors, notices], [["store_unavailable"], []]);
});

test("nothing is in force once a subscription has ended, and it is said to be asked for again", () => {
  const { world } = live();
  const said = [];
  const { stop } = world.connection.subscribe("prices", { mints: ["M"] }, { onState: (state) => said.push(state) });
  world.acknowledge("prices");
  const { request_id } = world.asked("subscribe", "prices").at(-1);
  world.say({ type: "error", code: "store_unavailable", message: "later", channel: "prices", request_id });
  const { state, filter, isRetried } = said.at(-1);
  assert.deepEqual([state, filter, isRetried], ["refused", null, true]);
  stop();
  world.pass(2_500);
  assert.equal(world.asked("subscribe", "prices").length, 1);
});

test("it is asked for later and later while it ends at once, and soon again after it lasted", () => {
  const { world } = live();
  const alive = (ms) => {
    for (const until = world.nowMs + ms; world.nowMs < until; ) {
      world.pass(Math.min(1_000, until - world.nowMs));
      world.say({ type: "notice", code: "source_back", message: "" });
    }
  };
  const waited = () => {
    const before = world.asked("subscribe", "swaps").length;
    ended(world);
    const sinceMs = world.nowMs;
    while (world.asked("subscribe", "swaps").length === before) alive(1_000);
    world.acknowledge("swaps");
    return world.nowMs - sinceMs;
  };
  assert.deepEqual([1, 2, 3, 4, 5, 6].map(waited), [2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
  alive(10_000);
  assert.equal(waited(), 2_000);
});

test("too many new wallets are asked for again once the minute has passed", () => {
  const { world } = live();
  ended(world, "too_many_new_wallets");
  for (let beat = 0; beat < 11; beat++) {
    world.pass(5_000);
    world.say({ type: "notice", code: "source_back", message: "" });
  }
  assert.equal(world.asked("subscribe", "swaps").length, 1);
  world.pass(5_000);
  assert.equal(world.asked("subscribe", "swaps").length, 2);
});

test("a listener that stops a subscription as it ends has it asked for no more", () => {
  const world = new World();
  const subscription = world.connection.subscribe("swaps", {}, {
    onState: ({ error }) => error && subscription.stop(),
  });
  world.connection.subscribe("status");
  world.open();
  world.acknowledge("swaps");
  ended(world);
  world.pass(2_500);
  assert.equal(world.asked("subscribe", "swaps").length, 1);
});

test("another filter takes the place of what had ended, and is asked for once", () => {
  const { world, subscription, heard } = live({ dex: ["a"] });
  ended(world);
  subscription.change({ dex: ["b"] });
  world.pass(2_500);
  assert.equal(world.asked("subscribe", "swaps").length, 2);
  const { request_id } = world.asked("subscribe", "swaps").at(-1);
  world.say({ type: "error", code: "unknown_dex", message: "no", channel: "swaps", request_id });
  world.swap("1-0-0", "of nothing that is in force");
  assert.deepEqual(heard.events, []);
});

test("a filter that ended while another was on its way is not in force any more", () => {
  const { world, subscription, heard } = live({ dex: ["a"] });
  const first = world.asked("subscribe", "swaps").at(-1);
  subscription.change({ dex: ["b"] });
  ended(world, "store_unavailable", first);
  const { request_id } = world.asked("subscribe", "swaps").at(-1);
  assert.equal(heard.states.at(-1), "asking");
  world.say({ type: "error", code: "unknown_dex", message: "no", channel: "swaps", request_id });
  world.swap("1-0-0", "of nothing that is in force");
  assert.deepEqual([heard.events, heard.errors], [[], ["unknown_dex"]]);
});

test("a filter that was accepted in between is in force where the newest is refused", () => {
  const { world, subscription, heard } = live({ dex: ["a"] });
  const notices = [];
  world.connection.onNotice(({ code }) => notices.push(code));
  for (const dex of ["b", "c", "d"]) subscription.change({ dex: [dex] });
  const [, b, c, d] = world.asked("subscribe", "swaps").map(({ request_id }) => request_id);
  const refuse = (request_id) =>
    world.say({ type: "error", code: "unknown_dex", message: "no", channel: "swaps", request_id });
  world.say({ type: "subscribed", channel: "swaps", filter: { dex: ["b"] }, replaces: true, request_id: b });
  refuse(c);
  assert.deepEqual([heard.states.at(-1), notices], ["asking", []], "what is not wanted any more is no news");
  refuse(d);
  world.swap("1-0-0");
  assert.deepEqual([heard.events, heard.errors], [["1-0-0"], ["unknown_dex"]]);
  world.end();
  world.retry();
  world.open();
  assert.deepEqual(world.asked("subscribe")[0].dex, ["b"]);
});

test("the answer to a page that was left is not taken for one to the next page", () => {
  const { world, subscription } = live({ dex: ["a"] });
  subscription.change({ dex: ["b"] });
  const { request_id: left } = world.asked("subscribe", "swaps").at(-1);
  subscription.stop();
  const said = [];
  world.connection.subscribe("swaps", { wallets: ["W"] }, { onState: (state) => said.push(state) });
  const { request_id } = world.asked("subscribe", "swaps").at(-1);
  world.say({ type: "subscribed", channel: "swaps", filter: { dex: ["b"] }, request_id: left });
  world.say({ type: "unsubscribed", channel: "swaps" });
  world.say({ type: "error", code: "not_in_plan", message: "no", channel: "swaps", request_id });
  const { state, filter, isRetried } = said.at(-1);
  assert.deepEqual([state, filter, isRetried], ["refused", null, false]);
});

test("waits grow, and are short again after a steady connection", () => {
  const { world } = live();
  const waits = [];
  for (let loss = 0; loss < 9; loss++) {
    world.end();
    waits.push(world.connection.status.retryAtMs - world.nowMs);
    world.pass(waits.at(-1));
    world.open();
  }
  assert.deepEqual(waits, [500, 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000]);
  for (let beat = 0; beat < 4; beat++) {
    world.pass(5_000);
    world.say({ type: "pong", timestamp: 0, request_id: "another" });
  }
  world.end(1001);
  assert.equal(world.connection.status.retryAtMs - world.nowMs, 500);
  assert.match(world.connection.status.words, /restarting/);
});

test("a revoked key ends it until there is another", () => {
  const { world } = live();
  world.end(4001);
  assert.equal(world.connection.status.state, "refused");
  world.pass(120_000);
  assert.equal(world.sockets.length, 1);
  world.key = "another";
  world.connection.reconnect();
  assert.match(world.socket.url, /another/);
});

test("what the handshake was refused for is asked of the API", async () => {
  const world = new World({ diagnosis: { words: "no such key", isFinal: true } });
  world.connection.subscribe("swaps");
  world.end();
  await new Promise(setImmediate);
  assert.deepEqual([world.connection.status.state, world.connection.status.words], ["refused", "no such key"]);
  world.pass(120_000);
  assert.equal(world.sockets.length, 1);
});

test("a silent connection is taken for dead, and what it says later is not heard", () => {
  const { world, heard } = live();
  const dead = world.socket;
  world.swap("1-0-0");
  world.pass(12_100);
  assert.match(world.connection.status.words, /silent/);
  world.retry();
  assert.notEqual(world.socket, dead);
  world.say({ type: "swap", channel: "swaps", data: "late", id: "2-0-0" }, dead);
  assert.deepEqual(heard.events, ["1-0-0"]);
});

test("pongs keep it alive, and give round trip and the difference of clocks", () => {
  const { world } = live();
  for (let beat = 0; beat < 10; beat++) {
    const { request_id } = world.asked("ping").at(-1);
    world.nowMs += 40;
    world.say({ type: "pong", timestamp: world.nowMs - 20 + 3_000, request_id });
    assert.deepEqual(
      [world.connection.status.rttMs, world.connection.status.clockOffsetMs],
      [40, 3_000],
    );
    world.pass(4_960);
  }
  assert.equal(world.sockets.length, 1);
});

test("what is no frame is left alone", () => {
  const { world, heard } = live();
  for (const odd of ["{", "null", "[]", "7", '"swap"', '{"type":"constructor"}', '{"data":1}']) world.say(odd);
  world.swap("1-0-0");
  assert.deepEqual(heard.events, ["1-0-0"]);
});

test("a channel has one subscription", () => {
  const { world } = live();
  assert.throws(() => world.connection.subscribe("swaps"), /already/);
});

test("without a key nothing is tried", () => {
  const world = new World({ key: null });
  world.connection.subscribe("swaps");
  assert.equal(world.sockets.length, 0);
  assert.equal(world.connection.status.state, "refused");
});
