import assert from "node:assert/strict";
import test from "node:test";

import { kafkaWords } from "../../../api/dashboard/page/pages/account/kafka.js";

const ON = {
  is_issued: true,
  why_off: null,
  plans: ["business", "enterprise"],
  most: 5,
  group_prefix: "sub-4b1c09d2a7f3e581.",
  credentials: [{}, {}],
};

test("where Kafka is off the page says why, whatever the plan is", () => {
  assert.equal(kafkaWords({ ...ON, is_issued: false, why_off: "no broker" }, "business"), "no broker");
});

test("a plan without Kafka sees which plans have it", () => {
  assert.equal(
    kafkaWords({ ...ON, most: 0, credentials: [] }, "pro"),
    "The plan pro has no Kafka. business and enterprise have it.",
  );
});

test("a plan with Kafka sees what is left and how groups are named", () => {
  const words = kafkaWords(ON, "business");
  assert.match(words, /^2 of 5 credentials\./);
  assert.match(words, /begin with sub-4b1c09d2a7f3e581\.$/);
});
