// node rewards.mjs <count>: writes one world a line, {time_s, accounts: {address: [program, data]},
// lending, f_token, shares, earn}: shares of earn whose price rewards raise, by the SDK. Accounts are
// encoded by Anchor's coder with the SDK's IDLs, but for the mint, by SPL's own layout.
import { createRequire } from "node:module";
import { Lending, Liquidity } from "@jup-ag/lend-read";
const require = createRequire(import.meta.url);
const { Connection, PublicKey } = require("@solana/web3.js");
const { MintLayout, TOKEN_PROGRAM_ID } = require("@solana/spl-token");
const BN = require("bn.js");

const EARN = new PublicKey("jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9");
const LIQUIDITY = new PublicKey("jupeiUmn818Jg1ekPURTpr4mFo29p46vygyykFJ3wZC");
const REWARDS = new PublicKey("jup7TthsMgcR9Y3L277b8Eo9uboVSmu1utkuXHNUKar");
const SIZES = { lending: 196, tokenReserve: 192, lendingRewardsRateModel: 89 };
let state = 0n;
const word = () => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return state >> 20n;
};
const below = (n) => Number(word() % BigInt(n));
const bn = (value) => new BN(value.toString());
const key = () => new PublicKey(Buffer.from(Array.from({ length: 32 }, () => below(256))));
async function encoded(program, name, fields) {
  const coder = program.coder.accounts;
  const blank = Buffer.alloc(SIZES[name]);
  program.idl.accounts.forEach((each) => {
    if (each.name === name) Buffer.from(each.discriminator).copy(blank);
  });
  const data = Buffer.alloc(SIZES[name]);
  (await coder.encode(name, Object.assign(coder.decode(name, blank), fields))).copy(data);
  return data;
}
function mintOf(supply) {
  const data = Buffer.alloc(82);
  MintLayout.encode({
    mintAuthorityOption: 0, mintAuthority: PublicKey.default, supply, decimals: 6, isInitialized: true,
    freezeAuthorityOption: 0, freezeAuthority: PublicKey.default,
  }, data);
  return data;
}

const now = 1763900000;
Date.now = () => now * 1000;
for (let seed = 0; seed < Number(process.argv[2]); seed += 1) {
  state = BigInt(seed + 1) * 1234567891n;
  for (let warm = 0; warm < 8; warm += 1) word();
  const accounts = {};
  const connection = new Connection("http://127.0.0.1:1");
  const info = (at) => {
    const found = accounts[at.toBase58()];
    return found ? { owner: found[0], data: found[1], lamports: 1, executable: false } : null;
  };
  connection.getAccountInfo = async (at) => info(at);
  connection.getMultipleAccountsInfo = async (all) => all.map(info);
  const lending = new Lending(connection);
  const liquidity = new Liquidity(connection);
  const mint = key();
  const supplyPrice = bn(10n ** 12n + (word() % 10n ** 12n));
  const reserveAt = lending.pda.deriveLiquidityReserve(mint);
  accounts[reserveAt.toBase58()] = [LIQUIDITY, await encoded(liquidity.program, "tokenReserve", {
    mint, lastUpdateTimestamp: bn(now), supplyExchangePrice: supplyPrice, borrowExchangePrice: supplyPrice,
  })];
  const fTokenMint = lending.pda.deriveFTokenMint(mint);
  const issued = word() % 10n ** 14n + 1n;
  accounts[fTokenMint.toBase58()] = [TOKEN_PROGRAM_ID, mintOf(issued)];
  const modelAt = lending.pda.deriveLendingRewardsRateModel(mint);
  const startTime = below(8) ? now - below(40000000) + 2000000 : 0;
  accounts[modelAt.toBase58()] = [REWARDS, await encoded(lending.program, "lendingRewardsRateModel", {
    mint, startTvl: bn(below(3) ? 0n : word() % 10n ** 14n), duration: bn(below(30000000)), startTime: bn(startTime),
    yearlyReward: bn(word() % 10n ** BigInt(4 + below(10))),
    nextDuration: bn(below(3) ? below(30000000) : 0), nextRewardAmount: bn(below(3) ? word() % 10n ** 13n : 0n),
  })];
  const lendingAt = lending.pda.deriveLending(mint);
  accounts[lendingAt.toBase58()] = [EARN, await encoded(lending.program, "lending", {
    mint, fTokenMint, decimals: 6, rewardsRateModel: modelAt, tokenReservesLiquidity: reserveAt,
    liquidityExchangePrice: below(20) ? supplyPrice.muln(9900 + below(100)).divn(10000) : bn(0),
    tokenExchangePrice: below(20) ? bn(10n ** 12n + (word() % 10n ** 12n)) : bn(0),
    lastUpdateTimestamp: bn(now - below(3) * below(3000000)),
  })];
  lending._getLiquidityExchangePrice = async () => supplyPrice;
  const shares = word() % issued;
  const price = await lending._getExchangePrice(mint);
  const written = Object.entries(accounts).map(([at, [of, data]]) => [at, [of.toBase58(), data.toString("base64")]]);
  console.log(JSON.stringify({
    time_s: now, accounts: Object.fromEntries(written), lending: lendingAt.toBase58(),
    f_token: fTokenMint.toBase58(), shares: shares.toString(), price: price.toString(),
    earn: price.mul(bn(shares)).div(bn(10n ** 12n)).toString(),
  }));
}
