// The API key of this page: asked for once, kept for the tab, or for good where that is wanted.

import { element, fill } from "./dom.js";
import { keep, recall } from "./storage.js";

const FORM = /^soltape_[0-9A-Za-z]{39}$/;

/** Which key is used: the stored one, else the demo key that the page was served with. */
export class Keys {
  constructor(demo) {
    this.demo = demo;
    this._stored = recall("key", { forGood: false }) ?? recall("key");
  }

  get current() {
    return this._stored ?? this.demo;
  }

  get isDemo() {
    return this._stored === null && this.demo !== null;
  }

  /** What may be shown of the key. */
  get told() {
    if (this.current === null) return "none";
    return this.isDemo ? "demo" : `…${this.current.slice(-4)}`;
  }

  use(key, { remember }) {
    this.forget();
    this._stored = key;
    keep("key", key, { forGood: remember });
  }

  forget() {
    this._stored = null;
    keep("key", null, { forGood: false });
    keep("key", null);
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
    element("label", { class: "choice" }, remember, "Remember it on this device"),
    problem,
    element("div", { class: "row" }, submit, demoButton(), forgetButton()),
  );
  fill(root, element("h1", { tabindex: "-1" }, "API key"), form);
  root.querySelector("h1").focus();

  async function use(event) {
    event.preventDefault();
    const key = input.value.trim();
    if (!FORM.test(key)) return tell("That is no API key: one is soltape_ and 39 letters and digits");
    submit.disabled = true;
    try {
      await check(key);
      keys.use(key, { remember: remember.checked });
      done();
    } catch (failure) {
      tell(failure.message);
    } finally {
      submit.disabled = false;
    }
  }

  function tell(words) {
    problem.hidden = false;
    problem.textContent = words;
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  function demoButton() {
    if (keys.demo === null) return null;
    return button("Use the demo key");
  }

  function forgetButton() {
    if (keys.current === null || keys.isDemo || keys.demo !== null) return null;
    return button("Forget the key");
  }

  function button(text) {
    const forget = () => {
      keys.forget();
      done();
    };
    return element("button", { type: "button", on: { click: forget } }, text);
  }
}
