// The API key of this page: asked for once, kept for the tab, or for good where that is wanted.

import { element, fill } from "./dom.js";
import { follow, keep, recall } from "./storage.js";

const OF_ACCOUNT = "key-of-account"; // the id of the user whose account page gave the tab its key
const ACCOUNT = "account"; // the id of the user who is signed in, for the other tabs
const FORM = /^soltape_[0-9A-Za-z]{39}$/;

/**
 * What lets this page in: the stored key, else the session of a user who signed in, else that which a
 * one-time link began. `session` and `account` are whether there is one, null where there are none;
 * `account_id` is the user's, `sign_in_url` is where users sign in. The page never has the key of a session.
 */
export class Keys {
  constructor({ session, account = null, account_id: accountId = null, sign_in_url: signInUrl = null }) {
    this.session = session;
    this.account = account;
    this._accountId = accountId;
    this.signInUrl = signInUrl;
    this._stored = recall("key", { forGood: false }) ?? recall("key");
    this._madeBy = recall(OF_ACCOUNT, { forGood: false });
    // The session ended while no page was there, or is another user's now.
    if (account === true) this.accountIs(accountId);
    else this._forgetOfAccount();
    if (account === true) keep(ACCOUNT, accountId);
  }

  /** The key to send; null: none, the browser sends the session by itself. */
  get current() {
    return this._stored;
  }

  get letIn() {
    return this._stored !== null || this.account === true || this.session === true;
  }

  /** What may be shown of the key. */
  get shown() {
    if (this._stored !== null) return `…${this._stored.slice(-4)}`;
    if (this.account) return "account";
    return this.session ? "demo" : "none";
  }

  /** The API refused what was sent: return why, in words. */
  refused(failure) {
    if (this._stored !== null) return failure.message;
    if (this.session) this.session = false;
    if (this.account) this.account = false;
    return failure.code === "key_missing" ? "The session of this browser is over" : failure.message;
  }

  /** Use a key from now on; one that the account page of the user `madeBy` gave, as long as that is signed in. */
  use(key, { remember, madeBy = null }) {
    if (madeBy !== null && (this.account !== true || madeBy !== this._accountId)) return;
    this.forget();
    this._stored = key;
    keep("key", key, { forGood: remember });
    this._madeBy = madeBy;
    if (madeBy !== null) keep(OF_ACCOUNT, madeBy, { forGood: false });
  }

  forget() {
    this._stored = null;
    this._madeBy = null;
    keep("key", null, { forGood: false });
    keep("key", null);
    keep(OF_ACCOUNT, null, { forGood: false });
  }

  /** This user is signed in: a key of another account is forgotten. */
  accountIs(id) {
    this._accountId = id;
    if (this._madeBy !== id) this._forgetOfAccount();
  }

  /** The session is over: what this page has of the account goes with it. */
  sessionEnded() {
    if (this.account) this.account = false;
    this._forgetOfAccount();
  }

  /** The user has signed out; the other tabs hear of it. */
  signedOut() {
    this.sessionEnded();
    keep(ACCOUNT, null);
  }

  /** Have `changed` called when another tab signs this page's user out, or another user in. */
  follow(changed) {
    follow(ACCOUNT, (id) => {
      if (this.account !== true || id === this._accountId) return;
      this.sessionEnded();
      changed();
    });
  }

  _forgetOfAccount() {
    if (this._madeBy !== null) this.forget();
  }
}

/** Show the form that asks for a key; `check(key)` throws a Failure, `done()` hears of a good one. */
export function showKeyForm(root, { keys, check, done, reason = "" }) {
  const problem = element("p", { class: "problem", role: "alert", hidden: !reason }, reason);
  const input = element("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "key-help",
  });
  const remember = element("input", { type: "checkbox" });
  const submit = element("button", { type: "submit", class: "main" }, "Use this key");
  const form = element(
    "form",
    { class: "card narrow", on: { submit: use } },
    element("label", { for: "key" }, "API key"),
    input,
    element("p", { id: "key-help", class: "hint" },
      "It begins with soltape_. The operator makes one: ",
      element("code", {}, "soltape keys create --name dashboard --plan pro"),
      ". It is sent to this server only."),
    linkHint(),
    signInHint(),
    element("label", { class: "choice" }, remember, "Remember it on this device"),
    problem,
    element("div", { class: "row" }, submit, demoButton(), forgetButton()),
  );
  fill(root, element("h1", { tabindex: "-1" }, "API key"), form);
  root.querySelector("h1").focus();

  async function use(event) {
    event.preventDefault();
    const key = input.value.trim();
    if (!FORM.test(key)) return say("That is no API key: one is soltape_ and 39 letters and digits");
    submit.disabled = true;
    try {
      await check(key);
      keys.use(key, { remember: remember.checked });
      done();
    } catch (failure) {
      say(failure.message);
    } finally {
      submit.disabled = false;
    }
  }

  function say(words) {
    problem.hidden = false;
    problem.textContent = words;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  function linkHint() {
    if (keys.session !== false) return null;
    return element("p", { class: "hint" },
      "Without a key: ", element("code", {}, "soltape keys link"),
      ", in the folder of ", element("code", {}, "soltape up"),
      ", prints a link that lets this browser in.");
  }

  function signInHint() {
    if (!keys.signInUrl) return null;
    return element("p", {},
      element("a", { class: "button", href: keys.signInUrl }, "Sign in"),
      " to make a key of your own: one of the plan free needs no card.");
  }

  function demoButton() {
    if (keys.account) return button("Use the account");
    return keys.session ? button("Use the demo key") : null;
  }

  function forgetButton() {
    const hasOther = keys.session || keys.account;
    return keys.current === null || hasOther ? null : button("Forget the key");
  }

  function button(text) {
    const forget = () => {
      keys.forget();
      done();
    };
    return element("button", { type: "button", on: { click: forget } }, text);
  }
}
