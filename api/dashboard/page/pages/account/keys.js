// Keys of the account: made here, shown once, named, revoked.

import { element, fill, foreign, unseen } from "../../lib/dom.js";
import { dateTime } from "../../lib/format.js";
import { failureWords } from "../../lib/panel.js";

const MOST_CHARACTERS = 100;

export function createKeys(account) {
  const name = element("input", {
    id: "key-name",
    type: "text",
    maxlength: MOST_CHARACTERS,
    autocomplete: "off",
    required: true,
    placeholder: "What it is for",
  });
  const submit = element("button", { type: "submit", class: "main" }, "Create a key");
  const form = element(
    "form",
    { class: "row", on: { submit: create } },
    element("label", { for: "key-name" }, "Name"),
    name,
    submit,
  );
  const room = element("p", { class: "hint" });
  const made = element("div", { "aria-live": "polite" });
  let taking = null; // the button that has this page use the key that is shown
  let isStopped = false; // the session may be over: a key that comes late is shown, and not used here
  const problem = element("div");
  const body = element("tbody");
  const heads = ["Name", "Key", "Created", "Last used", unseen("Revoke")];
  const table = element(
    "div",
    { class: "scroll", role: "region", "aria-label": "Keys", tabindex: "0" },
    element(
      "table",
      { class: "data" },
      element("caption", { class: "unseen" }, "Keys"),
      element("thead", {}, element("tr", {}, heads.map((each) => element("th", { scope: "col" }, each)))),
      body,
    ),
  );
  const nothing = element("p", { class: "empty" }, "There is no key yet.");
  const whole = element(
    "section",
    { class: "card", "aria-label": "API keys" },
    element("h2", {}, "API keys"),
    form,
    room,
    problem,
    made,
    table,
    nothing,
  );

  async function create(event) {
    event.preventDefault();
    submit.disabled = true;
    fill(problem);
    try {
      const { key } = await account.post("/account/keys", { name: name.value });
      name.value = "";
      const secret = element("code", { id: "new-key", tabindex: "-1" }, key);
      fill(made, shown(key, secret));
      secret.focus();
    } catch (error) {
      fill(problem, failureWords(error));
    } finally {
      submit.disabled = false;
    }
  }

  /** The one time that a key is seen. */
  function shown(key, secret) {
    const command = `curl -H "x-api-key: ${key}" ${location.origin}/api/usage`;
    const use = () => {
      account.useKey(key);
      fill(made);
    };
    taking = element("button", { type: "button", on: { click: use } }, "Use it in this page");
    return element(
      "div",
      { class: "card new-key" },
      element("p", {}, "This is the key. It is not shown again."),
      element("p", {}, secret),
      element("p", { class: "hint" }, "Try it: ", element("code", {}, command)),
      element(
        "div",
        { class: "row" },
        isStopped ? null : taking,
        element("button", { type: "button", on: { click: () => fill(made) } }, "Hide it"),
      ),
    );
  }

  function row({ id, key, name: words, created_ms: createdMs, last_used_ms: usedMs }) {
    const end = element("button", { type: "button", "aria-label": `Revoke ${words}` }, "Revoke");
    let isSure = false;
    end.addEventListener("click", async () => {
      if (!isSure) {
        isSure = true;
        fill(end, "Revoke for good");
        return;
      }
      end.disabled = true;
      try {
        await account.post("/account/keys/revoke", { id });
      } catch (error) {
        end.disabled = false;
        fill(problem, failureWords(error));
      }
    });
    const cells = [
      foreign(words, { longest: MOST_CHARACTERS }),
      element("code", {}, key),
      dateTime(createdMs),
      usedMs === null ? "never" : dateTime(usedMs),
      end,
    ];
    return element("tr", { "data-key": id }, cells.map((each) => element("td", {}, each)));
  }

  return {
    element: whole,
    secret: made, // empty, or what is seen once
    show({ keys, most_keys: most }) {
      fill(room, `${keys.length} of ${most} keys. All of them together have the plan's credits and rate.`);
      table.hidden = keys.length === 0;
      nothing.hidden = keys.length > 0;
      fill(body, keys.map(row));
    },
    stop() {
      isStopped = true;
      taking?.remove();
    },
  };
}
