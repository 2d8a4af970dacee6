// What Drift's SDK says of accounts, without a network: `answers` of a sub-account and its markets.
// A market's oracle has the price that the market last saw, and its mean over five minutes is the
// stored one, as for the program: the SDK would move it on by the clock of this machine.
const { EventEmitter } = require("node:events");
const oracles = require("@drift-labs/sdk/lib/node/math/oracles");
const idl = require("@drift-labs/sdk/lib/node/idl/drift.json");
const sdk = require("@drift-labs/sdk");
const { CustomBorshAccountsCoder } = require("@drift-labs/sdk/lib/node/decode/customCoder");

oracles.calculateLiveOracleTwap = (seen) => seen.lastOraclePriceTwap5Min;
const { BN, PublicKey } = sdk;
const coder = new CustomBorshAccountsCoder(idl);
const PROGRAM = new PublicKey("dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH");

const decoded = (kind, data) => coder.decode(kind, Buffer.from(data, "base64"));

function clientOf(spots, perps) {
  const priceOf = (seen) => ({ price: seen.lastOraclePrice, twap: seen.lastOraclePriceTwap, confidence: new BN(0), slot: new BN(1), hasSufficientNumberOfDataPoints: true, isMMOracleActive: false });
  const ofSpot = (at) => priceOf(spots.get(at).historicalOracleData);
  const ofPerp = (at) => priceOf(perps.get(at).amm.historicalOracleData);
  return {
    getSpotMarketAccount: (at) => spots.get(at),
    getSpotMarketAccounts: () => [...spots.values()],
    getPerpMarketAccount: (at) => perps.get(at),
    getOracleDataForSpotMarket: ofSpot,
    getOracleDataForPerpMarket: ofPerp,
    getMMOracleDataForPerpMarket: ofPerp,
    getStateAccount: () => ({ liquidationMarginBufferRatio: 0 }),
  };
}

// `spots` and `perps` are markets as base64. Amounts are text.
function answers({ user: data, spots, perps }) {
  const byIndex = (kind, markets) => new Map(markets.map((each) => decoded(kind, each)).map((each) => [each.marketIndex, each]));
  // `sdk.decodeUser` reads a position's margin ratio from the padding before it.
  const account = decoded("User", data);
  const [spotMarkets, perpMarkets] = [byIndex("SpotMarket", spots), byIndex("PerpMarket", perps)];
  const user = new sdk.User({
    driftClient: clientOf(spotMarkets, perpMarkets),
    userAccountPublicKey: PublicKey.default,
    accountSubscription: {
      type: "custom",
      userAccountSubscriber: { eventEmitter: new EventEmitter(), getUserAccountAndSlot: () => ({ data: account, slot: 1 }) },
    },
  });
  const text = (value) => value.toString();
  const free = (at) => {
    const calculation = user.getMarginCalculation("Initial", { strict: true });
    return at === undefined ? calculation.getCrossFreeCollateral() : calculation.getIsolatedFreeCollateral(at);
  };
  const margin = (at) => ({
    collateral: text(user.getTotalCollateral("Maintenance", false, true, undefined, at)),
    maintenance: text(user.getMaintenanceMarginRequirement(undefined, at)),
    initial: text(user.getInitialMarginRequirement(false, at)),
    free: text(free(at)),
    // Of an isolated bet in market 0 the SDK answers for the whole sub-account.
    health: at === 0 ? null : user.getHealth(at),
    leverage: at === 0 ? null : text(user.getLeverage(true, at)),
  });
  const bets = user.getActivePerpPositions().map((bet) => {
    const market = perpMarkets.get(bet.marketIndex);
    const price = user.getOracleDataForPerpMarket(bet.marketIndex);
    const isIsolated = user.isPerpPositionIsolated(bet);
    const kind = isIsolated ? "Isolated" : undefined;
    const end = bet.baseAssetAmount.isZero() ? new BN(-1) : user.liquidationPrice(bet.marketIndex, undefined, undefined, undefined, undefined, undefined, undefined, kind);
    return {
      market: bet.marketIndex,
      address: sdk.getPerpMarketPublicKeySync(PROGRAM, bet.marketIndex).toBuffer().toString("hex"),
      deposit: text(user.getIsolatePerpPositionTokenAmount(bet.marketIndex)),
      profit: text(sdk.calculatePositionPNL(market, bet, true, price)),
      funding: text(sdk.calculateUnsettledFundingPnl(market, bet)),
      notional: text(sdk.calculateBaseAssetValueWithOracle(market, bet, price)),
      entry: text(sdk.calculateEntryPrice(bet)),
      liquidation: text(end),
      isSettled: sdk.isVariant(market.status, "settlement"),
      margin: isIsolated ? margin(bet.marketIndex) : null,
    };
  });
  const deposits = user.getActiveSpotPositions().map((each) => ({
    market: each.marketIndex,
    address: sdk.getSpotMarketPublicKeySync(PROGRAM, each.marketIndex).toBuffer().toString("hex"),
    amount: text(user.getTokenAmount(each.marketIndex)),
  }));
  return { deposits, bets, margin: margin(undefined) };
}

module.exports = { answers, coder, decoded, idl, sdk, PROGRAM };
