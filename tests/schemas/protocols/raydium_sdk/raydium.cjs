// Worlds of Raydium's pools: bytes by the SDK's layouts, amounts by its arithmetic.
// node raydium.cjs <number of worlds>; `decode` with base64 of an AmmInfo reads that one instead,
// `ledgers` makes stakes in farms, `profits` with a number pools of AMM v4 of which a withdrawal first
// takes Raydium's part of what they earned since it was counted.
const { PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");
const Decimal = require("decimal.js");
const sdk = require("@raydium-io/raydium-sdk-v2");

let state = 1n;
function next() {
  state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return state >> 33n;
}
const bytes = (n) => Buffer.from(Array.from({ length: n }, () => Number(next() & 255n)));
const below = (bits) => new BN(bytes(8)).shrn(64 - bits);
const key = () => new PublicKey(bytes(32));

function made(layout, fields) {
  const data = Buffer.alloc(layout.span);
  const random = bytes(layout.span);
  if (layout === sdk.CpmmPoolInfoLayout) random[390] &= 1; // enableCreatorFee, a bool
  layout.encode({ ...layout.decode(random), ...fields }, data);
  return data;
}

function token(mint, amount) {
  const data = Buffer.alloc(165);
  sdk.splAccountLayout.encode(
    {
      mint, owner: key(), amount, delegateOption: 0, delegate: PublicKey.default, state: 1,
      isNativeOption: 0, isNative: new BN(0), delegatedAmount: new BN(0),
      closeAuthorityOption: 0, closeAuthority: PublicKey.default,
    },
    data,
  );
  return data.toString("base64");
}

function answer(kind, data, reserves, lp, supply, mints, more = {}) {
  const amounts = sdk.ConstantProductCurve.lpTokensToTradingTokens(
    lp, supply, reserves[0].reserve, reserves[1].reserve, 0,
  );
  console.log(JSON.stringify({
    kind,
    data: data.toString("base64"),
    vaults: reserves.map((each, i) => [each.vault.toBase58(), token(mints[i], each.amount)]),
    lp: lp.toString(),
    amounts: [amounts.tokenAmount0.toString(), amounts.tokenAmount1.toString()],
    ...more,
  }));
}

function cpmm() {
  const supply = below(40 + Number(next() % 20n)).addn(101);
  const data = made(sdk.CpmmPoolInfoLayout, {
    lpAmount: supply, mintDecimalA: 6, mintDecimalB: 9,
    protocolFeesMintA: below(30), protocolFeesMintB: below(30), fundFeesMintA: below(30),
    fundFeesMintB: below(30), creatorFeesMintA: below(30), creatorFeesMintB: below(30),
  });
  Buffer.from("f7ede3f5d7c3de46", "hex").copy(data);
  const pool = sdk.CpmmPoolInfoLayout.decode(data);
  const reserves = ["A", "B"].map((side) => {
    const fees = pool[`protocolFeesMint${side}`]
      .add(pool[`fundFeesMint${side}`]).add(pool[`creatorFeesMint${side}`]);
    const reserve = below(20 + Number(next() % 42n));
    return { vault: pool[`vault${side}`], amount: reserve.add(fees), reserve };
  });
  const lp = below(62).mod(supply).addn(1);
  answer("cpmm", data, reserves, lp, supply, [pool.mintA, pool.mintB]);
}

function amm() {
  const supply = below(40 + Number(next() % 20n)).addn(2);
  const data = made(sdk.liquidityStateV4Layout, {
    status: new BN(3), lpReserve: supply, baseDecimal: new BN(6), quoteDecimal: new BN(9),
    baseNeedTakePnl: below(30), quoteNeedTakePnl: below(30),
  });
  const pool = sdk.liquidityStateV4Layout.decode(data);
  const reserves = ["base", "quote"].map((side) => {
    const reserve = below(20 + Number(next() % 42n));
    const owed = pool[`${side}NeedTakePnl`];
    return { vault: pool[`${side}Vault`], amount: reserve.add(owed), reserve };
  });
  const lp = below(62).mod(supply).addn(1);
  answer("amm", data, reserves, lp, supply, [pool.baseMint, pool.quoteMint]);
}

// The SDK does not know the profit. Of what the root of coin x pc has grown to, what it grew by is
// earned, and a part of that Raydium's: here in real numbers, where the program cuts off, and the
// SDK's arithmetic gives the share of the rest. `then`: coin and pc when it was counted last.
function profits(world) {
  Decimal.set({ precision: 60 });
  const decimals = [Number(next() % 10n), Number(next() % 10n)];
  const scale = 10n ** BigInt(Math.max(...decimals));
  const [numerator, denominator] = [12, 100];
  const supply = below(60).addn(2);
  const data = made(sdk.liquidityStateV4Layout, {
    status: new BN([1, 2, 4, 5, 6, 7][world % 6]), lpReserve: supply,
    baseDecimal: new BN(decimals[0]), quoteDecimal: new BN(decimals[1]),
    systemDecimalValue: new BN(scale.toString()),
    pnlNumerator: new BN(numerator), pnlDenominator: new BN(denominator),
    baseNeedTakePnl: below(30), quoteNeedTakePnl: below(30),
  });
  const pool = sdk.liquidityStateV4Layout.decode(data);
  const now = [0, 1].map(() => below(30 + Number(next() % 31n)).addn(1 << 25));
  const percent = () => BigInt(world % 4 === 0 ? 100 : world % 4 === 1 ? 101 : 40 + Number(next() % 60n));
  const then = now.map((each) => (BigInt(each.toString()) * percent()) / 100n);
  const scaled = then.map((each, i) => (each * scale) / 10n ** BigInt(decimals[i]));
  const targets = Buffer.alloc(2208);
  [1024, 1040].forEach((at, i) => {
    targets.writeBigUInt64LE(scaled[1 - i] & ((1n << 64n) - 1n), at); // pc first
    targets.writeBigUInt64LE(scaled[1 - i] >> 64n, at + 8);
  });
  const real = (value) => new Decimal(value.toString());
  const kept = real(then[0]).mul(real(then[1])).div(real(now[0]).mul(real(now[1]))).sqrt();
  const part = new Decimal(1).sub(kept).mul(numerator).div(denominator);
  const lp = below(62).mod(supply).addn(1);
  const reserves = ["base", "quote"].map((side, i) => ({
    vault: pool[`${side}Vault`],
    amount: now[i].add(pool[`${side}NeedTakePnl`]),
    reserve: new BN(real(now[i]).mul(new Decimal(1).sub(part)).floor().toFixed()),
  }));
  answer("amm", data, reserves, lp, supply, [pool.baseMint, pool.quoteMint], {
    targets: targets.toString("base64"),
    status: pool.status.toNumber(),
    grown: kept.lt(1) ? 1 : kept.eq(1) ? 0 : -1,
    coin: now[0].toString(),
    pc_scaled: ((BigInt(now[1].toString()) * scale) / 10n ** BigInt(decimals[1])).toString(),
  });
}

function ledgers() {
  for (const [version, layout, farmLayout] of [
    ["v3_1", sdk.farmLedgerLayoutV3_1, sdk.realFarmStateV3Layout],
    ["v3_2", sdk.farmLedgerLayoutV3_2, sdk.realFarmStateV3Layout],
    ["v5_1", sdk.farmLedgerLayoutV5_1, sdk.realFarmStateV5Layout],
    ["v5_2", sdk.farmLedgerLayoutV5_2, sdk.realFarmStateV5Layout],
    ["v6", sdk.farmLedgerLayoutV6_1, sdk.realFarmV6Layout],
  ]) {
    for (let world = 0; world < 40; world += 1) {
      const data = made(layout, {});
      const ledger = layout.decode(data);
      const farm = made(farmLayout, {});
      const mint = key();
      console.log(JSON.stringify({
        version,
        data: data.toString("base64"),
        farm: farm.toString("base64"),
        id: ledger.id.toBase58(),
        owner: ledger.owner.toBase58(),
        deposited: ledger.deposited.toString(),
        vault: farmLayout.decode(farm).lpVault.toBase58(),
        mint: mint.toBase58(),
        token: token(mint, below(60)),
      }));
    }
  }
}

if (process.argv[2] === "ledgers") {
  ledgers();
} else if (process.argv[2] === "profits") {
  for (let world = 0; world < Number(process.argv[3]); world += 1) profits(world);
} else if (process.argv[2] === "decode") {
  const pool = sdk.liquidityStateV4Layout.decode(Buffer.from(process.argv[3], "base64"));
  const wanted = ["baseVault", "quoteVault", "baseMint", "quoteMint", "lpMint", "targetOrders",
    "lpReserve", "baseNeedTakePnl", "quoteNeedTakePnl", "baseDecimal", "quoteDecimal", "status"];
  console.log(JSON.stringify(Object.fromEntries(wanted.map((n) => [n, pool[n].toString()]))));
} else {
  for (let world = 0; world < Number(process.argv[2]); world += 1) (world % 2 ? amm : cpmm)();
}
