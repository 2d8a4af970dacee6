import assert from "node:assert/strict";
import test from "node:test";

import { Failure } from "../../../api/dashboard/page/lib/api.js";
import { mount } from "../../../api/dashboard/page/pages/account.js";
import { elements, happened, root } from "./page.mjs";

const ACCOUNT = {
  csrf: "c",
  user: { id: "u1", name: "Ann" },
  plan: { name: "business", requests_a_minute: 60, connections: 1, wallet_filters: 0, mcp: "basic", kafka: true },
  credits: { used: 0, limit: 50_000, renews_ms: 1 },
  keys: [],
  most_keys: 10,
  kafka: { is_issued: true, why_off: null, plans: ["business"], most: 5, credentials: [], group_prefix: "sub-1." },
};
const MADE = {
  "/account/keys": { key: "soltape_made" },
  "/account/kafka": { properties: "sasl.password=made" },
  "/signout": {},
};
const BUSY = new Failure(503, "store_unavailable", "the store of keys does not answer");
const SIGNED_OUT = new Failure(401, "session_missing", "the session has ended");

/** The account page; `api.failure` is what reading the account ends with. */
async function opened(context, failure = null) {
  const api = {
    failure,
    posted: [],
    async get(path) {
      if (path === "/account/usage.json") return { days: [{ day: "2026-11-28", paths: {} }] };
      if (api.failure) throw api.failure;
      return { ...ACCOUNT, user: api.user };
    },
    user: ACCOUNT.user,
    async post(path, _, { headers }) {
      if (path === "/signout" && api.failure) throw api.failure;
      api.posted.push([path, headers["x-csrf-token"]]);
      return MADE[path];
    },
  };
  const heard = [];
  const whole = root();
  const hear = (name) => () => heard.push(name);
  const callbacks = {
    useKey: (...key) => heard.push(key),
    accountIs: (id) => (api.known = id),
    sessionEnded: hear("sessionEnded"),
    signedOut: hear("signedOut"),
  };
  location.reload = hear("reload");
  context.after(mount(whole, { api, settings: { account: true, sign_in_url: "/signin" }, ...callbacks }));
  await happened();
  return { api, whole, heard };
}

/** Fill in what a form asks for. */
async function create(whole, place) {
  const forms = elements(whole).filter(({ tag }) => tag === "form");
  forms[place].dispatchEvent(new Event("submit", { cancelable: true }));
  await happened();
}

async function press(whole, words) {
  elements(whole).find(({ tag, textContent }) => tag === "button" && textContent === words).dispatchEvent(new Event("click"));
  await happened();
}

for (const [place, what, secret] of [[0, "key", "soltape_made"], [1, "Kafka password", "sasl.password=made"]]) {
  test(`a new ${what} is shown where the account cannot be read after it`, async (context) => {
    const { api, whole } = await opened(context);
    api.failure = BUSY;
    await create(whole, place);
    assert.ok(whole.textContent.includes(secret), whole.textContent);
    assert.match(whole.textContent, /could not be brought up to date\. the store of keys does not answer/);
    api.failure = null;
    await press(whole, "Try again");
    assert.ok(whole.textContent.includes(secret));
    assert.doesNotMatch(whole.textContent, /does not answer/);
  });

  test(`a new ${what} stays on the page where the session ends`, async (context) => {
    const { api, whole, heard } = await opened(context);
    api.failure = SIGNED_OUT;
    await create(whole, place);
    assert.ok(whole.textContent.includes(secret), whole.textContent);
    assert.match(whole.textContent, /You are signed out/);
    assert.deepEqual(heard, ["sessionEnded"]);
  });
}

test("one can sign out of an account that could not be read at first", async (context) => {
  const { api, whole, heard } = await opened(context, BUSY);
  assert.match(whole.textContent, /does not answer/);
  await press(whole, "Sign out");
  assert.deepEqual(heard, []);
  assert.match(whole.textContent, /does not answer/);
  api.failure = null;
  const again = await opened(context, BUSY);
  again.api.failure = null;
  await press(again.whole, "Sign out");
  assert.deepEqual([again.api.posted, again.heard], [[["/signout", "c"]], ["signedOut"]]);
});

const USE = "Use it in this page";
const uses = (whole) => elements(whole).filter(({ tag, textContent }) => tag === "button" && textContent === USE);

test("a new key is used in the page as one of its user", async (context) => {
  const { whole, heard } = await opened(context);
  await create(whole, 0);
  await press(whole, USE);
  assert.deepEqual(heard, [["soltape_made", "u1"]]);
});

test("once the session has ended the key that is shown is not used in the page", async (context) => {
  const { api, whole } = await opened(context);
  api.failure = SIGNED_OUT;
  await create(whole, 0);
  assert.ok(whole.textContent.includes("soltape_made"));
  assert.deepEqual(uses(whole), []);
});

test("nor is one that comes after it has ended", async (context) => {
  const { api, whole } = await opened(context);
  let answers;
  const { post } = api;
  api.post = (...asked) => new Promise((resolve) => (answers = () => resolve(post(...asked))));
  await create(whole, 0);
  api.failure = SIGNED_OUT;
  await press(whole, "Sign out"); // which waits as well
  answers();
  await happened();
  assert.deepEqual(uses(whole), []);
});

test("signing out of a session that has ended elsewhere signs out", async (context) => {
  const { api, whole, heard } = await opened(context);
  api.failure = SIGNED_OUT;
  await press(whole, "Sign out");
  assert.deepEqual(heard, ["signedOut"]);
});

test("where another user has signed in nothing of the former one stays", async (context) => {
  const { api, whole, heard } = await opened(context);
  assert.equal(api.known, "u1");
  api.user = { id: "u2", name: "Bob" };
  await create(whole, 0);
  assert.deepEqual([api.known, heard], ["u2", ["reload"]]);
});
