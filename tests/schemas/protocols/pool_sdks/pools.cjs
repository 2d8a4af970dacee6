// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"decode": kind, "data": base64}  -> what the SDK of the program reads, integers as text
//   {"random": kind, "data": base64, "seed": n}
//                                     -> {"data": base64, ...the same} of the account with other u64s
const readline = require("node:readline");
const anchor = require("@coral-xyz/anchor");
const BN = require("bn.js");
const { StakePoolLayout } = require("@solana/spl-stake-pool");
const marinade = require("@marinade.finance/marinade-ts-sdk/dist/src/programs/idl/types/marinade_finance");
const { computeMsolAmount } = require("@marinade.finance/marinade-ts-sdk/dist/src/util/state-helpers");

const LAMPORTS = new BN("1000000000000000");
const coder = new anchor.BorshAccountsCoder(marinade.IDL);

function read(kind, data) {
  if (kind === "stake_pool") {
    const pool = StakePoolLayout.decode(data);
    return {
      mint: pool.poolMint.toBase58(),
      lamports: pool.totalLamports.toString(),
      supply_raw: pool.poolTokenSupply.toString(),
      epoch: Number(pool.lastUpdateEpoch.toString()),
    };
  }
  const state = coder.decode("state", data);
  const lamports = state.validatorSystem.totalActiveBalance
    .add(state.stakeSystem.delayedUnstakeCoolingDown)
    .add(state.emergencyCoolingDown)
    .add(state.availableReserveBalance)
    .sub(state.circulatingTicketBalance);
  return {
    mint: state.msolMint.toBase58(),
    lamports: lamports.toString(),
    supply_raw: state.msolSupply.toString(),
    price_x32: state.msolPrice.toString(),
    msol: state.msolSupply.isZero() ? "0" : computeMsolAmount(LAMPORTS, { state }).toString(),
    epoch: null,
  };
}

function chance(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  const word = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state;
  };
  // Below 2^53: the sums stay below 2^64, as they do on the chain.
  return () => new BN(word() >>> 11).shln(32).addn(word() & 0x3ffffff);
}

async function random(kind, data, seed) {
  const u64 = chance(seed);
  if (kind === "stake_pool") {
    const pool = StakePoolLayout.decode(data);
    Object.assign(pool, { totalLamports: u64(), poolTokenSupply: u64(), lastUpdateEpoch: u64() });
    const written = Buffer.alloc(data.length);
    StakePoolLayout.encode(pool, written);
    return written;
  }
  const state = coder.decode("state", data);
  state.stakeSystem.delayedUnstakeCoolingDown = u64();
  state.validatorSystem.totalActiveBalance = u64().addn(1).shln(1);
  for (const name of ["emergencyCoolingDown", "availableReserveBalance", "msolSupply"]) state[name] = u64();
  state.circulatingTicketBalance = BN.min(u64(), state.validatorSystem.totalActiveBalance);
  const written = await coder.encode("state", state);
  return Buffer.concat([written, Buffer.alloc(data.length - written.length)]);
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    let data = Buffer.from(asked.data, "base64");
    const kind = asked.decode ?? asked.random;
    if (asked.random) data = await random(kind, data, asked.seed);
    console.log(JSON.stringify({ data: data.toString("base64"), ...read(kind, data) }));
  }
}

main();
