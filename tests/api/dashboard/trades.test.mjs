import assert from "node:assert/strict";
import test from "node:test";

import { Failure } from "../../../api/dashboard/page/lib/api.js";
import { createTrades } from "../../../api/dashboard/page/pages/wallet/trades.js";
import { mount } from "../../../api/dashboard/page/pages/wallet.js";
import { elements, happened, root } from "./page.mjs";
import { World } from "./world.mjs";

const BUSY = new Failure(503, "store_unavailable", "the store does not answer");
const WALLET = "57zapx5j1To9vp6D1X49yUcnhimYzUpy1onGx6rgFgXU";
const MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
const PORTFOLIO = {
  gaps: null,
  holdings: { value_usd: null, native: null, coverage: { read_accounts: 0, known_accounts: 0 } },
  positions: { position_count: 0, is_complete: true },
  pnl: { all_time: { wins: 0, losses: 0 }, days_7: { days: [] } },
};

function swap(number, commitment = "confirmed") {
  const amounts = { amount: number, quote_amount: number, fee_sol: 0, priority_fee_sol: 0, tip_sol: 0 };
  const place = { signature: `s${number}`, slot: number, tx_index: 0, event_index: 0, block_time_ms: number * 400 };
  const words = { mint: MINT, quote_mint: MINT, side: "buy", dex: "pump-fun", platform: "", wallet: WALLET, router: "" };
  return { ...place, ...amounts, ...words, commitment };
}

/** The card, and how many rows it shows. */
async function shown(context) {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const api = { answer: [swap(1), swap(2)], failure: null };
  api.get = async () => {
    if (api.failure) throw api.failure;
    return { swaps: api.answer, from_ms: 1, known_from_ms: 0, page: { next_cursor: null, has_more: false } };
  };
  const trades = createTrades({ api, path: "/api/wallets/w", announce() {} });
  context.after(() => trades.stop());
  await happened();
  const buttons = () => elements(trades.element).filter(({ tag }) => tag === "button");
  return {
    api,
    trades,
    press: async (words) => {
      buttons().find(({ textContent }) => textContent === words).dispatchEvent(new Event("click"));
      await happened();
    },
    draw: () => context.mock.timers.tick(1_000),
    rows: () => elements(elements(trades.element).find(({ tag }) => tag === "tbody")).filter(({ tag }) => tag === "tr").length,
  };
}

test("swaps that are shown remain where looking for newer ones fails", async (context) => {
  const { api, trades, press, draw, rows } = await shown(context);
  assert.equal(rows(), 2);
  api.failure = BUSY;
  await press("Look for newer ones");
  assert.match(trades.element.textContent, /could not be brought up to date\. the store does not answer/);
  trades.swap(swap(3, "processed"));
  draw();
  assert.equal(rows(), 3);
  api.failure = null;
  api.answer = [swap(3), swap(4)];
  await press("Try again");
  assert.equal(rows(), 2, "between those that were there and the newest there may be more");
  assert.doesNotMatch(trades.element.textContent, /does not answer/);
});

test("live swaps that come while newer ones are looked for are among them", async (context) => {
  const { api, trades, press, draw, rows } = await shown(context);
  let answer;
  api.get = () => new Promise((resolve) => (answer = resolve));
  await press("Look for newer ones");
  trades.swap(swap(9, "processed"));
  draw();
  assert.equal(rows(), 3);
  answer({ swaps: [swap(8)], from_ms: 1, known_from_ms: 0, page: { next_cursor: null, has_more: false } });
  await happened();
  assert.equal(rows(), 2);
});

test("a wallet's live swaps go on after its subscription had ended for a moment", async (context) => {
  const world = new World();
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const api = { get: async (path) => (path.endsWith("/portfolio") ? PORTFOLIO : Promise.reject(BUSY)) };
  const whole = root();
  const given = { api, socket: world.connection, query: new URLSearchParams(), announce() {} };
  context.after(mount(whole, { ...given, params: { address: WALLET } }));
  await happened();
  world.open();
  world.acknowledge("swaps");
  const { request_id } = world.asked("subscribe", "swaps").at(-1);
  world.say({ type: "error", code: "store_unavailable", message: "later", channel: "swaps", request_id });
  world.pass(2_500);
  assert.equal(world.asked("subscribe", "swaps").length, 2);
  assert.doesNotMatch(whole.textContent, /do not come by themselves/);
});
