// node worlds.mjs <count>: writes one world a line, {time_s, accounts: {address: data}, answers}.
// Accounts are encoded by Anchor's coder with the SDK's IDLs; a connection that has only these
// answers the SDK, whose clock is set.
import { createRequire } from "node:module";
import { Lending, Liquidity, Vault } from "@jup-ag/lend-read";
const require = createRequire(import.meta.url);
const { Connection, PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");

const EARN = new PublicKey("jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9"); // only its owner is checked
let state = 0n;
const word = () => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return state >> 20n;
};
const below = (n) => Number(word() % BigInt(n));
const bn = (value) => new BN(value.toString());
const key = () => new PublicKey(Buffer.from(Array.from({ length: 32 }, () => below(256))));

const SIZES = { lending: 196, tokenReserve: 192, position: 71, vaultConfig: 219, vaultState: 127, vaultMetadata: 44, tick: 40, tickIdLiquidation: 57, branch: 47 };
async function encoded(program, name, fields) {
  const coder = program.coder.accounts;
  const blank = Buffer.alloc(SIZES[name]);
  program.idl.accounts.forEach((each) => {
    if (each.name === name) Buffer.from(each.discriminator).copy(blank);
  });
  const account = Object.assign(coder.decode(name, blank), fields);
  const data = Buffer.alloc(SIZES[name]);
  (await coder.encode(name, account)).copy(data);
  return data;
}
function connectionOf(accounts) {
  const connection = new Connection("http://127.0.0.1:1");
  const info = (at) => {
    const data = accounts[at.toBase58()];
    return data ? { data, owner: EARN, lamports: 1, executable: false } : null;
  };
  connection.getAccountInfo = async (at) => info(at);
  connection.getMultipleAccountsInfo = async (all) => all.map(info);
  connection.getAccountInfoAndContext = async (at) => ({ context: { slot: 1 }, value: info(at) });
  return connection;
}
function reserve(mint, now) {
  const lent = word() % 10n ** 15n;
  const free = below(3) ? word() % 10n ** 13n : word() % 10n ** 16n;
  return {
    mint,
    borrowRate: below(20) ? below(6000) : 0,
    feeOnInterest: below(5000),
    lastUtilization: below(10000),
    lastUpdateTimestamp: bn(now - below(400000)),
    supplyExchangePrice: bn(10n ** 12n + (word() % 10n ** 12n)),
    borrowExchangePrice: bn(10n ** 12n + (word() % 10n ** 12n)),
    totalSupplyWithInterest: bn(lent),
    totalSupplyInterestFree: bn(free),
    totalBorrowWithInterest: bn(word() % 10n ** 15n),
    totalBorrowInterestFree: bn(below(2) ? word() % 10n ** 13n : word() % 10n ** 16n),
  };
}

const now = 1763900000;
Date.now = () => now * 1000;
for (let seed = 0; seed < Number(process.argv[2]); seed += 1) {
  state = BigInt(seed + 1) * 1234567891n;
  for (let warm = 0; warm < 8; warm += 1) word();
  const accounts = {};
  const connection = connectionOf(accounts);
  const liquidity = new Liquidity(connection);
  liquidity.getTokenBalance = async () => new BN(0);
  const vault = new Vault(connection);
  vault.liquidityResolver = liquidity;
  const lending = new Lending(connection);
  const [supplyToken, borrowToken] = [key(), key()];
  const reserves = {};
  for (const mint of [supplyToken, borrowToken]) {
    const at = vault.pda.deriveReserve({ mint }).toBase58();
    reserves[mint.toBase58()] = reserve(mint, now);
    accounts[at] = await encoded(liquidity.program, "tokenReserve", reserves[mint.toBase58()]);
  }
  const part = (price) => price.muln(9900 + below(100)).divn(10000);
  const shares = word() % 10n ** 12n;
  const fTokenMint = lending.pda.deriveFTokenMint(supplyToken);
  const lendingAt = lending.pda.deriveLending(supplyToken).toBase58();
  accounts[lendingAt] = await encoded(lending.program, "lending", {
    mint: supplyToken,
    fTokenMint,
    decimals: 6,
    liquidityExchangePrice: part(reserves[supplyToken.toBase58()].supplyExchangePrice),
    tokenExchangePrice: bn(10n ** 12n + (word() % 10n ** 12n)),
    lastUpdateTimestamp: bn(now - 1000),
    tokenReservesLiquidity: vault.pda.deriveReserve({ mint: supplyToken }),
  });
  const vaultId = 1 + below(60000);
  const positionId = 1 + below(2 ** 31);
  const config = {
    vaultId,
    supplyRateMagnifier: below(3) ? 0 : below(400) - 200,
    borrowRateMagnifier: below(3) ? 0 : below(400) - 200,
    supplyToken,
    borrowToken,
  };
  accounts[vault.pda.deriveVaultConfig({ vaultId }).toBase58()] = await encoded(vault.program, "vaultConfig", config);
  const stored = {
    vaultId,
    liquiditySupplyExchangePrice: part(reserves[supplyToken.toBase58()].supplyExchangePrice),
    liquidityBorrowExchangePrice: part(reserves[borrowToken.toBase58()].borrowExchangePrice),
    vaultSupplyExchangePrice: bn(10n ** 12n + (word() % 10n ** 12n)),
    vaultBorrowExchangePrice: bn(10n ** 12n + (word() % 10n ** 12n)),
    lastUpdateTimestamp: bn(now - below(400000)),
  };
  accounts[vault.pda.deriveVaultState({ vaultId }).toBase58()] = await encoded(vault.program, "vaultState", stored);
  const decimals = { supplyMintDecimals: below(13), borrowMintDecimals: below(13) };
  accounts[vault.pda.deriveVaultMetadata({ vaultId }).toBase58()] = await encoded(vault.program, "vaultMetadata", { vaultId, ...decimals });
  const tick = below(4) ? below(6000) - 5000 : below(32766) - 16382;
  const tickId = 1 + below(9);
  // A debt factor: 35 bits of coefficient over 15 of exponent.
  const factor = (exponent) => bn(((1n << 34n) + (word() % (1n << 34n))) * 32768n + BigInt(exponent));
  const liquidated = below(2);
  const isLatest = below(2);
  const mark = [below(8) ? 0 : 1, below(3), factor(16349 + below(3))];
  accounts[vault.pda.deriveTick({ vaultId, tick }).toBase58()] = await encoded(vault.program, "tick", {
    vaultId, tick, totalIds: tickId + (liquidated && !isLatest ? 1 : 0), isLiquidated: liquidated && isLatest ? 1 : 0,
    isFullyLiquidated: mark[0], liquidationBranchId: mark[1], debtFactor: mark[2],
  });
  const slot = 1 + ((tickId + 2) % 3);
  const idsAt = vault.pda.deriveTickIdLiquidation({ vaultId, tick, totalIds: tickId }).toBase58();
  accounts[idsAt] = await encoded(vault.program, "tickIdLiquidation", {
    vaultId, tick, [`isFullyLiquidated${slot}`]: mark[0], [`liquidationBranchId${slot}`]: mark[1], [`debtFactor${slot}`]: mark[2],
  });
  // Branches 0 to 2 may be merged into a later one; the exponents fall, so that debt does.
  for (let branchId = 0; branchId < 4; branchId += 1) {
    const isMerged = branchId < 3 && below(2);
    accounts[vault.pda.deriveBranch({ vaultId, branchId }).toBase58()] = await encoded(vault.program, "branch", {
      vaultId, branchId, status: isMerged ? 2 : [1, 1, 1, 3][below(4)],
      minimaTick: tick - below(300) > -16383 ? tick - below(300) : -16000, minimaTickPartials: below(2 ** 30),
      debtFactor: factor(isMerged ? 16349 + below(3) : 16345 + below(5)), connectedBranchId: isMerged ? branchId + 1 : 0,
    });
  }
  const positionMint = vault.pda.derivePositionMint({ vaultId, positionId });
  const positionAt = vault.pda.derivePosition({ vaultId, positionId }).toBase58();
  accounts[positionAt] = await encoded(vault.program, "position", {
    vaultId,
    nftId: positionId,
    positionMint,
    isSupplyOnlyPosition: below(8) ? 0 : 1,
    tick,
    tickId,
    supplyAmount: bn(word() % 10n ** 12n),
    dustDebtAmount: bn(below(1000000)),
  });
  const text = (price) => price.toString();
  const prices = await vault.updateExchangePrices(
    supplyToken, borrowToken, stored.liquiditySupplyExchangePrice, stored.liquidityBorrowExchangePrice,
    stored.vaultSupplyExchangePrice, stored.vaultBorrowExchangePrice,
    new BN(config.supplyRateMagnifier), new BN(config.borrowRateMagnifier), stored.lastUpdateTimestamp);
  stored.totalBranchId = 3;
  accounts[vault.pda.deriveVaultState({ vaultId }).toBase58()] = await encoded(vault.program, "vaultState", stored);
  const final = await vault.getFinalPosition({ vaultId, positionId }).catch(() => null);
  // The SDK's own path takes the liquidity price as stored; the program's has it accrued.
  lending._getLiquidityExchangePrice = async () => prices.liquiditySupplyExchangePrice;
  lending.fetchRewardsRateModel = async () => null;
  const tokenPrice = await lending._getExchangePrice(supplyToken);
  const answers = {
    liquidity: [text(prices.liquiditySupplyExchangePrice), text(prices.liquidityBorrowExchangePrice)],
    vault: [text(prices.vaultSupplyExchangePrice), text(prices.vaultBorrowExchangePrice)],
    is_liquidated: liquidated,
    position: final && {
      // What a liquidation leaves of no debt has no collateral; one never liquidated keeps it.
      collateral: text(liquidated && !final.finalAmount.eq(final.colRaw) ? final.finalAmount : final.colRaw),
      debt: text(final.debtRaw),
      dust: text(final.dustDebtRaw),
    },
    earn: text(tokenPrice.mul(bn(shares)).div(bn(10n ** 12n))),
    ...decimals,
  };
  const written = Object.fromEntries(Object.entries(accounts).map(([at, data]) => [at, data.toString("base64")]));
  console.log(JSON.stringify({
    time_s: now, lending: lendingAt, f_token: fTokenMint.toBase58(), shares: shares.toString(),
    position: positionAt, position_mint: positionMint.toBase58(), accounts: written, answers,
  }));
}
