// Writes `count` worlds, one a line: {"address", "user", "spots", "perps", "stake", "fund", "vault",
// "now_s", "says", "stake_says"}; accounts are base64, which Anchor's coder wrote by the SDK's IDL,
// `vault` is what the fund's vault has, `says` and `stake_says` are what the SDK answers.
const { answers, coder, idl, sdk } = require("./sdk.cjs");
const { BN, PublicKey } = sdk;

let state = 808;
function byte() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 24;
}
const bytes = (n) => Buffer.from(Array.from({ length: n }, byte));
const below = (bits) => new BN(bytes(Math.ceil(bits / 8))).maskn(bits);
const upTo = (n) => below(31).toNumber() % n;
const between = (low, high) => low + upTo(high - low + 1);
const signed = (value) => (upTo(2) ? value : value.neg());
const oneOf = (...of) => of[upTo(of.length)];
const of = (name) => idl.types.find((each) => each.name === name)?.type ?? idl.accounts.find((each) => each.name === name).type;

function zero(type) {
  if (type === "publicKey") return PublicKey.default;
  if (type === "bool") return false;
  if (typeof type === "string") return /^[iu](8|16|32)$/.test(type) ? 0 : new BN(0);
  if (type.array) return Array.from({ length: type.array[1] }, () => zero(type.array[0]));
  const defined = of(type.defined);
  if (defined.kind === "enum") return { [uncapital(defined.variants[0].name)]: {} };
  return Object.fromEntries(defined.fields.map((field) => [field.name, zero(field.type)]));
}
const uncapital = (name) => name[0].toLowerCase() + name.slice(1);
const made = (name, fields) => Object.assign(zero({ defined: name }), fields);
const name = (text) => Array.from(Buffer.from(text.padEnd(32)));

function seen(price) {
  const twap = price.muln(between(950, 1050)).divn(1000);
  return made("HistoricalOracleData", { lastOraclePrice: price, lastOraclePriceTwap5min: twap, lastOraclePriceTwap5Min: twap, lastOraclePriceTwap: price });
}

function spotMarket(index) {
  const isQuote = index === 0;
  const decimals = isQuote ? 6 : oneOf(5, 6, 8, 9);
  const [weight, owed] = isQuote ? [10_000, 10_000] : [between(5, 9) * 1000, between(11, 15) * 1000];
  const price = isQuote ? new BN(between(999_000, 1_001_000)) : new BN(between(1000, 900_000_000));
  return made("SpotMarket", {
    pubkey: new PublicKey(bytes(32)),
    oracle: new PublicKey(bytes(32)),
    mint: new PublicKey(bytes(32)),
    name: name(`TOKEN-${index}`),
    historicalOracleData: seen(price),
    insuranceFund: made("InsuranceFund", {
      vault: new PublicKey(bytes(32)),
      totalShares: below(50).addn(1),
      userShares: below(40),
      unstakingPeriod: new BN(oneOf(0, 1_123_200)),
    }),
    depositBalance: below(upTo(30) + 40),
    cumulativeDepositInterest: new BN(10).pow(new BN(10)).muln(between(1000, 1500)).divn(1000),
    cumulativeBorrowInterest: new BN(10).pow(new BN(10)).muln(between(1000, 2500)).divn(1000),
    initialAssetWeight: weight,
    maintenanceAssetWeight: isQuote ? weight : weight + between(0, 900),
    initialLiabilityWeight: owed,
    maintenanceLiabilityWeight: isQuote ? owed : owed - between(0, 900),
    imfFactor: isQuote ? 0 : oneOf(0, 50, 1250, 105_000),
    scaleInitialAssetWeightStart: isQuote ? new BN(0) : oneOf(new BN(0), below(30 + upTo(20))),
    decimals,
    marketIndex: index,
    oracleSource: oneOf({ pythLazer: {} }, { pythLazer: {} }, { pythLazer1M: {} }),
    status: { active: {} },
  });
}

function perpMarket(index, spots) {
  const isPrediction = upTo(8) === 0;
  const price = new BN(isPrediction ? upTo(1_000_000) + 1 : between(1000, 900_000_000));
  const funding = signed(below(upTo(40) + 1));
  const initial = between(2, 20) * 100;
  const isHigh = upTo(2) === 0;
  return made("PerpMarket", {
    pubkey: new PublicKey(bytes(32)),
    amm: made("AMM", {
      oracle: !isPrediction && upTo(2) ? oneOf(...spots).oracle : new PublicKey(bytes(32)),
      historicalOracleData: seen(price),
      orderStepSize: new BN(100_000),
      cumulativeFundingRateLong: funding,
      cumulativeFundingRateShort: upTo(2) ? funding : signed(below(40)),
      oracleSource: oneOf({ pythLazer: {} }, { pythLazer: {} }, { pythLazer1M: {} }),
    }),
    name: name(`M${index}-PERP`),
    expiryPrice: price.muln(between(900, 1100)).divn(1000),
    imfFactor: oneOf(0, 50, 1900, 40_000),
    marginRatioInitial: initial,
    marginRatioMaintenance: Math.floor(initial / 2),
    unrealizedPnlInitialAssetWeight: oneOf(0, 5000, 10_000),
    unrealizedPnlMaintenanceAssetWeight: 10_000,
    marketIndex: index,
    status: upTo(9) ? { active: {} } : { settlement: {} },
    contractType: isPrediction ? { prediction: {} } : { perpetual: {} },
    highLeverageMarginRatioInitial: isHigh ? 99 : 0,
    highLeverageMarginRatioMaintenance: isHigh ? 66 : 0,
  });
}

function spotPosition(market) {
  const hasOrders = market.marketIndex !== 0 && upTo(6) === 0;
  return made("SpotPosition", {
    scaledBalance: below(22 + upTo(20)).addn(1),
    openBids: hasOrders ? below(upTo(30) + 4) : new BN(0),
    openAsks: hasOrders ? below(upTo(30) + 4).neg() : new BN(0),
    marketIndex: market.marketIndex,
    balanceType: upTo(5) < 3 ? { deposit: {} } : { borrow: {} },
    openOrders: hasOrders ? between(1, 3) : 0,
  });
}

function perpPosition(market) {
  const base = upTo(9) ? signed(below(20 + upTo(22)).addn(1)) : new BN(0);
  const price = market.amm.historicalOracleData.lastOraclePrice;
  const entry = base.mul(price).div(new BN(1_000_000_000)).muln(between(800, 1200)).divn(1000).neg();
  const isIsolated = upTo(3) === 0;
  const hasOrders = upTo(3) === 0;
  return made("PerpPosition", {
    lastCumulativeFundingRate: market.amm.cumulativeFundingRateLong.add(signed(below(upTo(34) + 1))),
    baseAssetAmount: base,
    quoteAssetAmount: base.isZero() ? signed(below(30).addn(1)) : entry.add(signed(below(upTo(20) + 1))),
    quoteBreakEvenAmount: entry,
    quoteEntryAmount: entry,
    openBids: hasOrders ? below(upTo(36) + 4) : new BN(0),
    openAsks: hasOrders ? below(upTo(36) + 4).neg() : new BN(0),
    isolatedPositionScaledBalance: isIsolated ? below(20 + upTo(24)) : new BN(0),
    maxMarginRatio: oneOf(0, 0, 0, 700, 3000),
    marketIndex: market.marketIndex,
    openOrders: hasOrders ? between(1, 4) : 0,
    positionFlag: isIsolated ? (upTo(8) ? 1 : 3) : 0,
  });
}

const filled = (positions, empty) => [...positions, ...Array.from({ length: 8 - positions.length }, () => made(empty, {}))];

async function main(count) {
  const encoded = async (kind, fields) => (await coder.encode(kind, fields)).toString("base64");
  for (let at = 0; at < count; at++) {
    const spots = Array.from({ length: between(2, 5) }, (_, index) => spotMarket(index));
    const perps = Array.from({ length: between(0, 4) }, (_, index) => perpMarket(index * 3, spots));
    const held = spots.filter((each) => each.marketIndex === 0 || upTo(3));
    const user = made("User", {
      authority: new PublicKey(bytes(32)),
      spotPositions: filled(held.map(spotPosition), "SpotPosition"),
      perpPositions: filled(perps.map(perpPosition), "PerpPosition"),
      maxMarginRatio: oneOf(0, 0, 0, 1000, 5000),
      subAccountId: upTo(4),
      status: upTo(10) ? 0 : 1,
      marginMode: oneOf({ default: {} }, { default: {} }, { highLeverage: {} }, { highLeverageMaintenance: {} }),
    });
    const fund = oneOf(...spots);
    const { totalShares } = fund.insuranceFund;
    const shares = totalShares.muln(upTo(1000)).divn(1000).addn(1);
    const vault = below(30 + upTo(20));
    const leaving = upTo(2) ? shares.muln(upTo(1001)).divn(1000) : new BN(0);
    const worth = sdk.unstakeSharesToAmount(leaving, totalShares, vault);
    const stake = made("InsuranceFundStake", {
      authority: user.authority,
      ifShares: shares,
      lastWithdrawRequestShares: leaving,
      lastWithdrawRequestValue: worth.muln(between(800, 1200)).divn(1000),
      lastWithdrawRequestTs: new BN(1_785_000_000 - upTo(2_000_000)),
      marketIndex: fund.marketIndex,
    });
    const world = {
      address: bytes(32).toString("hex"),
      user: await encoded("User", user),
      spots: await Promise.all(spots.map((each) => encoded("SpotMarket", each))),
      perps: await Promise.all(perps.map((each) => encoded("PerpMarket", each))),
    };
    const together = sdk.unstakeSharesToAmountWithOpenRequest(shares, leaving, stake.lastWithdrawRequestValue, totalShares, vault);
    const more = {
      stake: await encoded("InsuranceFundStake", stake),
      vault: vault.toString(),
      now_s: 1_785_000_000,
      says: answers(world),
      stake_says: together.toString(),
    };
    process.stdout.write(`${JSON.stringify({ ...world, ...more })}\n`);
  }
}

main(Number(process.argv[2]));
