// Kafka credentials of the account: made here, shown once as a properties file, named, revoked.

import { element, fill, foreign, setText, unseen } from "../../lib/dom.js";
import { dateTime } from "../../lib/format.js";
import { failureWords } from "../../lib/panel.js";

const MOST_CHARACTERS = 100;

export function createKafka(account) {
  const name = element("input", {
    id: "kafka-name",
    type: "text",
    maxlength: MOST_CHARACTERS,
    autocomplete: "off",
    required: true,
    placeholder: "A program of yours",
  });
  const submit = element("button", { type: "submit", class: "main" }, "Create credentials");
  const form = element(
    "form",
    { class: "row", on: { submit: create } },
    element("label", { for: "kafka-name" }, "Credentials for"),
    name,
    submit,
  );
  const about = element("p", { class: "hint" });
  const made = element("div", { "aria-live": "polite" });
  const problem = element("div");
  const body = element("tbody");
  const heads = ["Name", "User", "Created", unseen("Revoke")];
  const table = element(
    "div",
    { class: "scroll", role: "region", "aria-label": "Kafka credentials, listed", tabindex: "0" },
    element(
      "table",
      { class: "data" },
      element("caption", { class: "unseen" }, "Kafka credentials"),
      element("thead", {}, element("tr", {}, heads.map((each) => element("th", { scope: "col" }, each)))),
      body,
    ),
  );
  const whole = element(
    "section",
    { class: "card", "aria-label": "Kafka" },
    element("h2", {}, "Kafka"),
    form,
    about,
    problem,
    made,
    table,
  );

  async function create(event) {
    event.preventDefault();
    submit.disabled = true;
    fill(problem);
    try {
      const { properties } = await account.post("/account/kafka", { name: name.value });
      name.value = "";
      const secret = element("pre", { id: "new-kafka", class: "scroll", tabindex: "0", "aria-label": "Properties" }, properties);
      fill(made, shown(properties, secret));
      secret.focus();
    } catch (error) {
      fill(problem, failureWords(error));
    } finally {
      submit.disabled = false;
    }
  }

  /** The one time that a password is seen. */
  function shown(properties, secret) {
    const said = element("span", { role: "status" });
    const copy = async () => {
      try {
        await navigator.clipboard.writeText(properties);
        setText(said, "Copied");
      } catch {
        setText(said, "This browser does not let the page copy: select the text");
      }
    };
    return element(
      "div",
      { class: "card new-key" },
      element("p", {}, "This is a properties file of Kafka's clients, with the password. It is not shown again."),
      secret,
      element(
        "div",
        { class: "row" },
        element("button", { type: "button", on: { click: copy } }, "Copy it"),
        element("button", { type: "button", on: { click: () => fill(made) } }, "Hide it"),
        said,
      ),
    );
  }

  function row({ user, name: words, created_ms: createdMs, is_active: isActive }, canRevoke) {
    const cells = [
      foreign(words, { longest: MOST_CHARACTERS }),
      element("span", {}, element("code", {}, user), isActive ? "" : " unfinished: revoke it"),
      dateTime(createdMs),
      canRevoke ? revoke(user, words) : "",
    ];
    return element("tr", { "data-user": user }, cells.map((each) => element("td", {}, each)));
  }

  function revoke(user, words) {
    const end = element("button", { type: "button", "aria-label": `Revoke credentials ${words}` }, "Revoke");
    let isSure = false;
    end.addEventListener("click", async () => {
      if (!isSure) {
        isSure = true;
        fill(end, "Revoke for good");
        return;
      }
      end.disabled = true;
      fill(problem);
      try {
        await account.post("/account/kafka/revoke", { user });
      } catch (error) {
        end.disabled = false;
        fill(problem, failureWords(error));
      }
    });
    return end;
  }

  return {
    element: whole,
    secret: made, // empty, or what is seen once
    show({ kafka, plan }) {
      const { credentials } = kafka;
      setText(about, kafkaWords(kafka, plan.name));
      form.hidden = !kafka.is_issued || kafka.most === 0;
      table.hidden = credentials.length === 0;
      fill(body, credentials.map((each) => row(each, kafka.is_issued)));
    },
    stop() {},
  };
}

/** What is said about Kafka of an account. */
export function kafkaWords({ is_issued: isIssued, why_off: whyOff, plans, most, credentials, group_prefix: prefix }, plan) {
  if (!isIssued) return whyOff;
  if (most === 0) return `The plan ${plan} has no Kafka. ${plans.join(" and ")} have it.`;
  return (
    `${credentials.length} of ${most} credentials. All of them share what the plan reads; ` +
    `names of consumer groups begin with ${prefix}`
  );
}
