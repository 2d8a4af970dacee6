import assert from "node:assert/strict";
import test from "node:test";

import { createProtocols } from "../../../api/dashboard/page/pages/wallet/protocols.js";
import { elements, happened, root } from "./page.mjs";

const ASSET = { role: "supply", mint: "M", symbol: "SOL", amount: 2, amount_raw: "2", value_usd: null };
const POSITION = {
  position_id: "P",
  protocol: "p02",
  route: "lending",
  assets: [ASSET],
  value_usd: null,
  is_verified_market: true,
  unsupported_fields: [],
  health: null,
  range: null,
  locks: [],
  perp: null,
  margin: null,
  voting: null,
  points: [],
};
const GIVEN = { is_verified_market: false, unsupported_fields: ["sums: its market is not verified"] };

/** The cards of a wallet that has one position in each answer: title -> `{row, said}`, as texts. */
async function cards(context, position) {
  const answer = {
    as_of_slot: 5,
    protocol: "p02",
    name: "marginfi",
    positions: [{ ...POSITION, ...position }],
    value_usd: null,
    is_complete: true,
    errors: [],
    pending: [],
    unpriced: 1,
    coverage: { known_accounts: 1, read_accounts: 1 },
  };
  const made = createProtocols({ api: { get: async () => answer }, path: "/api/wallets/w" });
  context.after(() => made.stop());
  await happened();
  const page = root();
  page.append(...made.elements);
  const of = (within, tag) => elements(within).filter((node) => node.tag === tag);
  const texts = made.elements.map((card) => {
    const [row] = of(of(card, "tbody")[0], "tr");
    return [of(card, "h2")[0].textContent, { row: row.textContent, said: card.textContent }];
  });
  return new Map(texts);
}

test("each card names a position whose market is not verified, in words that need no pointer", async (context) => {
  const found = await cards(context, GIVEN);
  assert.ok(found.has("Lending") && found.has("Rewards to claim"));
  for (const [title, { row, said }] of found) {
    assert.match(row, /market not verified: counts in no sum/, title);
    assert.doesNotMatch(row, /Not known/, title);
    assert.match(said, /Positions in markets that are not verified, in no sum: \d\./, title);
    assert.doesNotMatch(said, /together is not known/, title);
  }
});

test("positions of other markets have no such words", async (context) => {
  for (const [title, { said }] of await cards(context, {})) assert.doesNotMatch(said, /not verified/, title);
});
