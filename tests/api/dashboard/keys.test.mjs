import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Keys } from "../../../api/dashboard/page/lib/keys.js";

const KEY = `soltape_${"a".repeat(39)}`;

class Storage {
  #texts = new Map();
  getItem = (name) => this.#texts.get(name) ?? null;
  setItem = (name, text) => this.#texts.set(name, text);
  removeItem = (name) => this.#texts.delete(name);
}

beforeEach(() => {
  for (const name of ["sessionStorage", "localStorage"]) {
    Object.defineProperty(globalThis, name, { value: new Storage(), configurable: true });
  }
});

function loaded({ account }) {
  return new Keys({ session: null, account, sign_in_url: "/signin" });
}

test("a key that the account made is there when the page is loaded again, and goes with its session", () => {
  loaded({ account: true }).use(KEY, { remember: false, isOfAccount: true });
  const keys = loaded({ account: true });
  assert.equal(keys.current, KEY);
  keys.sessionEnded();
  assert.deepEqual([keys.current, keys.letIn, keys.shown], [null, false, "none"]);
  assert.equal(loaded({ account: false }).letIn, false);
});

test("it goes where the session ended while no page was there", () => {
  loaded({ account: true }).use(KEY, { remember: false, isOfAccount: true });
  assert.equal(loaded({ account: false }).letIn, false);
  assert.equal(loaded({ account: true }).current, null);
});

test("a key that somebody typed in stays when the session ends", () => {
  for (const remember of [false, true]) {
    const keys = loaded({ account: true });
    keys.use(KEY, { remember: false, isOfAccount: true });
    keys.use(KEY, { remember });
    keys.sessionEnded();
    assert.deepEqual([keys.current, loaded({ account: false }).current], [KEY, KEY]);
    keys.forget();
    assert.equal(loaded({ account: false }).current, null);
  }
});

test("it goes where the browser stores nothing, too", () => {
  for (const name of ["sessionStorage", "localStorage"]) {
    Object.defineProperty(globalThis, name, { get: () => assert.fail(name), configurable: true });
  }
  const keys = loaded({ account: true });
  keys.use(KEY, { remember: false, isOfAccount: true });
  assert.equal(keys.current, KEY);
  keys.sessionEnded();
  assert.equal(keys.letIn, false);
});
