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

const OTHER = `soltape_${"b".repeat(39)}`;
const ANN = { remember: false, madeBy: "ann" };

/** The keys of a page that is loaded now. */
function loaded({ account, id = account ? "ann" : null }) {
  return new Keys({ session: null, account, account_id: id, sign_in_url: "/signin" });
}

test("a key that the account made is there when the page is loaded again, and goes with its session", () => {
  loaded({ account: true }).use(KEY, ANN);
  const keys = loaded({ account: true });
  assert.equal(keys.current, KEY);
  keys.sessionEnded();
  assert.deepEqual([keys.current, keys.letIn, keys.shown], [null, false, "none"]);
  assert.equal(loaded({ account: false }).letIn, false);
});

test("it goes where another user has signed in meanwhile", () => {
  loaded({ account: true }).use(KEY, ANN);
  const keys = loaded({ account: true, id: "bob" });
  assert.deepEqual([keys.current, keys.shown, keys.letIn], [null, "account", true]);
  assert.equal(loaded({ account: true }).current, null, "it does not come back");
});

test("it goes where the account page finds another user", () => {
  const keys = loaded({ account: true });
  keys.use(KEY, ANN);
  keys.accountIs("ann");
  assert.equal(keys.current, KEY);
  keys.accountIs("bob");
  assert.equal(keys.current, null);
  keys.use(KEY, ANN);
  assert.equal(keys.current, null, "nor is it taken then");
  keys.use(OTHER, { remember: false });
  keys.accountIs("ann");
  assert.equal(keys.current, OTHER, "a key that somebody typed in is nobody's");
});

test("no key of an account is taken once its session has ended", () => {
  const keys = loaded({ account: true });
  keys.sessionEnded();
  keys.use(KEY, ANN);
  assert.deepEqual([keys.current, keys.letIn], [null, false]);
  assert.equal(loaded({ account: true }).current, null);
});

/** Two tabs: one sign-in and local storage for both, and a session storage for each. */
function tabs() {
  const listeners = [];
  const shared = new Map();
  const local = {
    getItem: (name) => shared.get(name) ?? null,
    setItem: (key, newValue) => local.change(key, newValue),
    removeItem: (key) => local.change(key, null),
    change(key, newValue) {
      if ((shared.get(key) ?? null) === newValue) return;
      if (newValue === null) shared.delete(key);
      else shared.set(key, newValue);
      const others = listeners.filter(([owner]) => owner !== local.tab);
      for (const [owner, hear] of others) within(owner, () => hear({ key, newValue }));
    },
    tab: null,
  };
  Object.defineProperty(globalThis, "localStorage", { value: local, configurable: true });
  globalThis.addEventListener = (kind, hear) => listeners.push([local.tab, hear]);
  const storages = { one: new Storage(), two: new Storage() };
  function within(tab, does) {
    const before = local.tab;
    turnTo(tab);
    const found = does();
    if (before !== null) turnTo(before);
    return found;
  }
  function turnTo(tab) {
    local.tab = tab;
    Object.defineProperty(globalThis, "sessionStorage", { value: storages[tab], configurable: true });
  }
  return within;
}

test("a sign-out in one tab reaches the others", () => {
  const within = tabs();
  let heard = 0;
  const follows = (keys) => {
    keys.follow(() => (heard += 1));
    return keys;
  };
  const first = within("one", () => follows(loaded({ account: true })));
  const second = within("two", () => follows(loaded({ account: true })));
  within("one", () => first.use(KEY, ANN));
  assert.equal(heard, 0, "the same user in two tabs is no news");
  within("two", () => second.signedOut());
  assert.deepEqual([heard, first.current, first.letIn], [1, null, false]);
  assert.equal(within("one", () => loaded({ account: true })).current, null);
});

test("a sign-in in one tab ends the account of another user in the others", () => {
  const within = tabs();
  let heard = 0;
  const first = within("one", () => loaded({ account: true }));
  within("one", () => first.follow(() => (heard += 1)));
  within("one", () => first.use(KEY, ANN));
  within("two", () => loaded({ account: true, id: "bob" }));
  assert.deepEqual([heard, first.current], [1, null]);
});

test("it goes where the session ended while no page was there", () => {
  loaded({ account: true }).use(KEY, ANN);
  assert.equal(loaded({ account: false }).letIn, false);
  assert.equal(loaded({ account: true }).current, null);
});

test("a key that somebody typed in stays when the session ends", () => {
  for (const remember of [false, true]) {
    const keys = loaded({ account: true });
    keys.use(KEY, ANN);
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
  keys.use(KEY, ANN);
  assert.equal(keys.current, KEY);
  keys.sessionEnded();
  assert.equal(keys.letIn, false);
});
