// The account of the user who is signed in: keys, requests by day and path, plan and limits, Kafka.

import { isAbort } from "../lib/api.js";
import { element, fill, foreign } from "../lib/dom.js";
import { failureWords } from "../lib/panel.js";
import { createKafka } from "./account/kafka.js";
import { createKeys } from "./account/keys.js";
import { createPlan } from "./account/plan.js";
import { createUsage } from "./account/usage.js";

export const title = "Account";

const SECTIONS = [createKeys, createUsage, createPlan, createKafka];

export function mount(root, { api, settings, useKey, accountIs, sessionEnded, signedOut }) {
  if (!settings.account) {
    fill(root, element("h1", {}, title), signInCard(settings));
    return () => {};
  }
  const leaving = new AbortController();
  const name = element("p", { class: "hint" });
  const problem = element("div");
  const account = {
    answer: null,
    owner: null, // the id of the user whose the last change was
    get: (path) => api.get(path, { withKey: null, signal: leaving.signal }),
    /**
     * Change something, and have the account shown as it is then; throws Failure. The answer may be a
     * secret that is seen once: whether the account can be read after it makes no difference.
     */
    async post(path, body) {
      const { csrf, user } = this.answer ?? (await this.get("/account.json"));
      const headers = { "x-csrf-token": csrf };
      const answer = await api.post(path, body, { withKey: null, headers });
      this.owner = user.id;
      if (path !== "/signout") load();
      return answer;
    },
    useKey: (key) => useKey(key, account.owner),
  };
  const sections = SECTIONS.map((create) => create(account));
  const leave = element("button", { type: "button", on: { click: signOut } }, "Sign out");
  const head = element("header", { class: "row apart" }, element("h1", {}, title), leave);
  fill(root, head, name, problem, sections.map((each) => each.element));
  load();

  /** Show the account, or why it cannot be read. */
  async function load() {
    try {
      const answer = await account.get("/account.json");
      const former = account.answer?.user.id ?? account.owner;
      accountIs(answer.user.id);
      if (former !== null && former !== answer.user.id) {
        location.reload(); // another user has signed in: nothing of the former one stays
        return;
      }
      account.answer = answer;
    } catch (error) {
      if (isAbort(error)) return;
      if (error.code === "session_missing") showSignIn("You are signed out.");
      else fill(problem, failureWords(error, { isStale: account.answer !== null, again: load }));
      return;
    }
    fill(problem);
    const { name: words, id } = account.answer.user;
    fill(name, foreign(words, { longest: 100 }), " · account ", element("code", {}, id));
    for (const each of sections) each.show(account.answer);
  }

  function showSignIn(words) {
    leaving.abort();
    for (const each of sections) each.stop();
    sessionEnded();
    // A secret is seen once: it stays on the page.
    fill(root, element("h1", {}, title), signInCard(settings, words), sections.map(({ secret }) => secret));
  }

  async function signOut() {
    leave.disabled = true;
    for (const each of sections) each.stop(); // nothing may be asked once the session has ended
    try {
      await account.post("/signout", {});
      signedOut();
    } catch (error) {
      if (error.code === "session_missing") signedOut(); // it ended elsewhere
      else fill(problem, failureWords(error, { again: () => location.reload() }));
    }
  }

  return () => {
    leaving.abort();
    for (const each of sections) each.stop();
  };
}

/** The way in: a link, as the provider is another place. */
function signInCard(settings, words = "") {
  return element(
    "section",
    { class: "card narrow" },
    words && element("p", { role: "status" }, words),
    element("p", {}, "Sign in with your identity provider to make an API key. A key of the plan free needs no card."),
    element("p", {}, element("a", { class: "button", href: settings.sign_in_url }, "Sign in")),
  );
}
