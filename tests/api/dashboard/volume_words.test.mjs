import assert from "node:assert/strict";
import test from "node:test";

import { createFacts } from "../../../api/dashboard/page/pages/token/facts.js";
import { COLUMNS } from "../../../api/dashboard/page/pages/trending/columns.js";
import { elements } from "./page.mjs";

const WORDS = /[Tt]rades of unknown value are left out$/;

test("the volumes of the trending list say which trades they leave out", () => {
  const volumes = COLUMNS.filter(({ id }) => id.includes("volume"));
  assert.equal(volumes.length, 3);
  for (const { id, title } of volumes) assert.match(title ?? "", WORDS, id);
});

test("so do those of a token's last day", (context) => {
  const facts = createFacts({ api: {}, mint: "M", isLive: () => false });
  context.after(facts.stop);
  facts.show({ day: { volume_usd: 5, buy_volume_usd: 3, sell_volume_usd: 2 }, gaps: null });
  for (const words of ["Volume 24 h", "Buys / sells 24 h"]) {
    const place = elements(facts.element).find((node) => node.textContent.startsWith(words));
    assert.match(place?.attributes.get("title") ?? "", WORDS, words);
  }
});
