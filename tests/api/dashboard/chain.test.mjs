import assert from "node:assert/strict";
import test from "node:test";

import { chainWords } from "../../../api/dashboard/page/lib/chain.js";

test("only mainnet has no banner", () => {
  const words = (network) => chainWords({ network, genesis_hash: "abc" });
  assert.equal(words("mainnet"), null);
  assert.match(words("simulated"), /^Simulated chain: prices and wallets are invented$/);
  assert.match(words("recorded"), /^Recorded chain/);
  assert.match(words("devnet"), /^Devnet/);
  assert.match(words("testnet"), /^Testnet/);
});

test("what is not known is never mainnet", () => {
  assert.equal(chainWords({ network: null, genesis_hash: null }), "Unknown chain");
  assert.equal(chainWords({ network: null, genesis_hash: "abc" }), "Unknown chain, genesis hash abc");
  assert.equal(chainWords({ network: "toString", genesis_hash: null }), "Unknown chain");
});
