import assert from "node:assert/strict";
import test from "node:test";

import { refresh } from "../../../api/dashboard/page/lib/refresh.js";

/** A clock, timers and a page that tests turn. */
class World {
  nowMs = 0;
  timers = new Map();
  nextId = 1;
  page = Object.assign(new EventTarget(), { hidden: false });

  clock = () => this.nowMs;

  setTimer = (call, ms) => {
    this.timers.set(this.nextId, { call, atMs: this.nowMs + ms });
    return this.nextId++;
  };

  clearTimer = (id) => this.timers.delete(id);

  async pass(ms) {
    const untilMs = this.nowMs + ms;
    for (;;) {
      await settled();
      const due = [...this.timers].filter(([, { atMs }]) => atMs <= untilMs);
      if (due.length === 0) break;
      const [id, { call, atMs }] = due.sort(([, one], [, other]) => one.atMs - other.atMs)[0];
      this.timers.delete(id);
      this.nowMs = Math.max(this.nowMs, atMs);
      call();
    }
    this.nowMs = untilMs;
  }

  see(isSeen) {
    this.page.hidden = !isSeen;
    this.page.dispatchEvent(new Event("visibilitychange"));
  }
}

async function settled() {
  for (let turn = 0; turn < 10; turn += 1) await null;
}

function counting(world, { fails = () => null, periodMs = 1_000 } = {}) {
  const runs = [];
  const task = async () => {
    runs.push(world.nowMs);
    const error = fails(runs.length);
    if (error) throw error;
  };
  return { runs, asking: refresh(task, () => periodMs, world) };
}

test("it runs at once and then every period", async () => {
  const world = new World();
  const { runs } = counting(world);
  await world.pass(3_500);
  assert.deepEqual(runs, [0, 1_000, 2_000, 3_000]);
});

test("it rests while the page is hidden and catches up when it is seen", async () => {
  const world = new World();
  const { runs } = counting(world);
  await world.pass(500);
  world.see(false);
  await world.pass(60_000);
  assert.deepEqual(runs, [0]);
  world.see(true);
  await world.pass(1);
  assert.deepEqual(runs, [0, 60_500]);
  world.see(false);
  world.see(true);
  await world.pass(500);
  assert.equal(runs.length, 2, "it was not time yet");
});

test("failures are tried again later and later, and as late as the answer asks for", async () => {
  const world = new World();
  const errors = [null, {}, {}, { retryAfterMs: 30_000 }];
  const { runs } = counting(world, { fails: (run) => errors[run - 1] });
  await world.pass(40_000);
  assert.deepEqual(runs.slice(0, 5), [0, 1_000, 2_000, 4_000, 34_000]);
  assert.equal(runs[5], 35_000, "a success makes it as often as before");
});

test("it waits five minutes at most", async () => {
  const world = new World();
  const { runs } = counting(world, { fails: () => new Error("away"), periodMs: 10_000 });
  await world.pass(3_000_000);
  assert.deepEqual(runs.slice(0, 4), [0, 5_000, 15_000, 35_000]);
  const waits = runs.slice(1).map((atMs, place) => atMs - runs[place]);
  assert.equal(Math.max(...waits), 300_000);
});

test("asked for now, it runs now: once more if it was running", async () => {
  const world = new World();
  const { runs, asking } = counting(world);
  asking.now(); // while the first runs
  asking.now();
  await world.pass(1);
  assert.equal(runs.length, 2);
  await world.pass(500);
  asking.now();
  await world.pass(900);
  assert.equal(runs.length, 3);
});

test("asked for while the page is hidden, it runs once the page is visible", async () => {
  const world = new World();
  const { runs, asking } = counting(world);
  await world.pass(500);
  world.see(false);
  asking.now();
  await world.pass(10);
  assert.deepEqual(runs, [0]);
  world.see(true);
  await world.pass(10);
  assert.deepEqual(runs, [0, 510]);
});

test("stopped, it never runs again", async () => {
  const world = new World();
  const { runs, asking } = counting(world);
  await world.pass(500);
  asking.stop();
  await world.pass(10_000);
  world.see(false);
  world.see(true);
  await world.pass(10_000);
  assert.deepEqual(runs, [0]);
  assert.equal(world.timers.size, 0);
});
