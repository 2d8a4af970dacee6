import assert from "node:assert/strict";
import test from "node:test";

import { mount } from "../../../api/dashboard/page/pages/live.js";
import { createGateway } from "../../../api/dashboard/page/pages/system/gateway.js";
import { elements, facts, root } from "./page.mjs";
import { World } from "./world.mjs";

const announce = () => {};

/** Make a part of a page over a connection that is open; the page's clock is the test's. */
function connected(context, channel, show) {
  const world = new World();
  context.mock.timers.enable({ apis: ["setInterval", "setTimeout", "Date"], now: world.nowMs });
  const { whole, stop } = show(world.connection);
  context.after(stop);
  const arrive = () => {
    world.open();
    world.say({ type: "pong", request_id: world.asked("ping").at(-1).request_id, timestamp: world.nowMs });
    world.acknowledge(channel);
  };
  arrive();
  return { world, whole, arrive, pass: (ms) => context.mock.timers.tick(ms) };
}

/** The Live page, with swaps to come. */
function live(context) {
  const whole = root();
  const shown = connected(context, "swaps", (socket) => {
    const stop = mount(whole, { api: {}, socket, announce, query: new URLSearchParams() });
    return { whole, stop };
  });
  let swaps = 0;
  /** Let seconds pass with as many swaps in each. */
  const swap = (seconds, each) => {
    for (let second = 0; second < seconds; second += 1) {
      for (let place = 0; place < each; place += 1) {
        swaps += 1;
        const data = { signature: `s${swaps}`, event_index: 0, slot: 1, dex: "pump-fun", block_time_ms: Date.now() };
        shown.world.say({ type: "swap", channel: "swaps", data, id: `${Date.now()}-0-${swaps}` });
      }
      shown.pass(1_000);
    }
  };
  return { ...shown, swap, rate: () => facts(whole)["Swaps a second"] };
}

test("swaps a second are not known while none can come", (context) => {
  const { world, arrive, pass, swap, rate } = live(context);
  swap(7, 40);
  assert.equal(rate(), "40");
  world.end();
  pass(1_000);
  assert.equal(rate(), "–");
  pass(60_000);
  assert.equal(rate(), "–");
  world.retry();
  arrive();
  swap(2, 40);
  assert.equal(rate(), "40", "the minute without a connection is no quiet one");
});

test("a quiet chain has a rate of zero", (context) => {
  const { pass, swap, rate } = live(context);
  swap(1, 40);
  pass(10_000);
  assert.equal(rate(), "0");
});

test("a filter that is refused leaves the one before, and its rate", (context) => {
  const { world, whole, swap, rate } = live(context);
  swap(2, 40);
  elements(whole).find(({ tag }) => tag === "form").dispatchEvent(new Event("submit"));
  swap(2, 40);
  assert.equal(rate(), "–");
  const { request_id } = world.asked("subscribe", "swaps").at(-1);
  world.say({ type: "error", code: "bad_filter", message: "no", request_id });
  swap(2, 30);
  assert.equal(rate(), "30");
});

/** The gateway's card, with the newest slots that it shows. */
function gateway(context) {
  const shown = connected(context, "status", (socket) => {
    const { element, stop } = createGateway({ socket, announce });
    return { whole: element, stop };
  });
  let events = 0;
  const slot = (status, number) => {
    events += 1;
    const id = `${Date.now() - 400}-0-${events}`;
    shown.world.say({ type: "status", channel: "status", data: { slot: number, status }, id });
    shown.pass(500);
  };
  const newest = () => {
    const all = facts(shown.whole);
    return ["Newest slot processed", "Newest slot confirmed", "Slots from processed to confirmed", "Newest slot published after"].map((name) => all[name]);
  };
  return { ...shown, slot, newest };
}

test("which slots are the newest is not known without a connection", (context) => {
  const { world, arrive, slot, newest } = gateway(context);
  slot("confirmed", 898);
  slot("processed", 900);
  assert.deepEqual(newest(), ["900", "898", "2", "400 ms"]);
  world.end();
  assert.deepEqual(newest(), ["–", "–", "–", "–"]);
  world.retry();
  arrive();
  slot("confirmed", 899);
  assert.deepEqual(newest().slice(0, 2), ["–", "899"]);
});

test("the slots of a stream that began anew may be smaller", (context) => {
  const { world, slot, newest } = gateway(context);
  slot("confirmed", 898);
  slot("processed", 900);
  world.say({ type: "gap", channel: "status", reason: "trimmed", message: "" });
  assert.deepEqual(newest(), ["900", "898", "2", "400 ms"]);
  world.say({ type: "gap", channel: "status", reason: "epoch", message: "" });
  assert.deepEqual(newest(), ["–", "–", "–", "–"]);
  slot("processed", 12);
  assert.deepEqual(newest(), ["12", "–", "–", "400 ms"]);
});

test("the gateway's card says that its subscription ended, until it is there again", (context) => {
  const { world, whole } = connected(context, "status", (socket) => {
    const { element, stop } = createGateway({ socket, announce });
    return { whole: element, stop };
  });
  const { request_id } = world.asked("subscribe", "status").at(-1);
  const message = "the store does not answer";
  world.say({ type: "error", code: "store_unavailable", message, channel: "status", request_id });
  assert.match(whole.textContent, new RegExp(message));
  world.pass(2_500);
  assert.match(whole.textContent, new RegExp(message));
  world.acknowledge("status");
  assert.doesNotMatch(whole.textContent, new RegExp(message));
});
