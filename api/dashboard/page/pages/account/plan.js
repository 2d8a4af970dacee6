// The plan of the account, and what is left of it.

import { element, fill, setText } from "../../lib/dom.js";
import { count, dateTime } from "../../lib/format.js";

export function createPlan() {
  const facts = element("dl", { class: "facts" });
  const about = element("p", { class: "hint" });
  return {
    element: element(
      "section",
      { class: "card", "aria-label": "Plan and limits" },
      element("h2", {}, "Plan and limits"),
      facts,
      about,
    ),
    show({ plan, credits }) {
      const rows = [
        ["Plan", plan.name],
        ["Credits used this month", `${count(credits.used)} of ${limit(credits.limit)}`],
        ["Requests a minute", limit(plan.requests_a_minute)],
        ["WebSocket connections", limit(plan.connections)],
        ["Wallets of a subscription", limit(plan.wallet_filters)],
        ["MCP", plan.mcp === "full" ? "all tools" : "basic tools"],
        ["Kafka", plan.kafka ? "yes" : "no"],
      ];
      fill(
        facts,
        rows.map(([label, value]) =>
          element("div", {}, element("dt", {}, label), element("dd", {}, value)),
        ),
      );
      setText(about, `New credits come on ${dateTime(credits.renews_ms)}. The operator changes plans.`);
    },
    stop() {},
  };
}

function limit(value) {
  return value === null ? "unlimited" : count(value);
}
