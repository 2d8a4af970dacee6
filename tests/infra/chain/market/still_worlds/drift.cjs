// Of Drift, what the chain's own perps do not have: a second sub-account with a deposit of SOL and
// shares of a retired AMM, a stake in the insurance fund of SOL, and fuel that was swept.
const { clock, DAY_S, LENDER, named, position, Program, sol, SOL, STAKER, TOKEN, TRADER, wide } = require("./world.cjs");

const WHOLE = 10n ** 10n; // of interest
const MARKET = wide(1, 16); // of SOL; market 0 is the chain's own

const ACCOUNTS = ["SpotMarket", "User", "InsuranceFundStake", "FuelOverflow"];

// The IDL is of before Anchor 0.30.
function modern({ accounts: all, types }) {
  const accounts = all.filter(({ name }) => ACCOUNTS.includes(name));
  const type = (of) => {
    if (of === "publicKey") return "pubkey";
    if (of.defined) return { defined: { name: of.defined } };
    return of.array ? { array: [type(of.array[0]), of.array[1]] } : of;
  };
  const named = (fields) => fields.map((field) => ({ ...field, type: type(field.type) }));
  const defined = ({ name, type: of }) => ({ name, type: of.fields ? { ...of, fields: named(of.fields) } : of });
  const plain = types.filter(({ type: { variants } }) => !variants?.some(({ fields }) => fields));
  const discriminator = (name) => [...hash(`account:${name}`).subarray(0, 8)];
  return {
    accounts: accounts.map(({ name }) => ({ name, discriminator: discriminator(name) })),
    types: [...plain, ...accounts].map(defined),
  };
}

const hash = (text) => require("node:crypto").createHash("sha256").update(text).digest();

function drift() {
  const program = new Program("dRiftyHA39MWEi3m9aunc5MzRF1JYuBsbn6VPcn33UH", "p08-drift.json", modern);
  const [fund, shares] = [sol(5_250), sol(5_000)];
  const price = { lastOraclePrice: 150_000_000, lastOraclePriceTwap: 150_000_000, lastOraclePriceTwap5min: 150_000_000 };
  const market = program.derived("spot_market", MARKET);
  const insurance = program.derived("insurance_fund_vault", MARKET);
  program.put(market, "SpotMarket", 776, {
    pubkey: market,
    oracle: named("drift-sol-oracle"),
    mint: SOL,
    vault: program.derived("spot_market_vault", MARKET),
    name: [...Buffer.from("SOL".padEnd(32))],
    historicalOracleData: { ...price, lastOraclePriceTwapTs: clock.start_s },
    insuranceFund: { vault: insurance, totalShares: shares, userShares: shares, unstakingPeriod: 13 * DAY_S },
    depositBalance: sol(90e3),
    borrowBalance: sol(30e3),
    cumulativeDepositInterest: (WHOLE * 104n) / 100n,
    cumulativeBorrowInterest: (WHOLE * 109n) / 100n,
    lastInterestTs: clock.start_s,
    lastTwapTs: clock.start_s,
    initialAssetWeight: 8_000,
    maintenanceAssetWeight: 9_000,
    initialLiabilityWeight: 12_000,
    maintenanceLiabilityWeight: 11_000,
    decimals: 9,
    marketIndex: 1,
    oracleSource: "PythLazer",
    status: "Active",
  });
  const vault = Buffer.alloc(165);
  [SOL.toBuffer(), program.derived("drift_signer").toBuffer(), wide(fund, 64)].reduce((at, part) => at + part.copy(vault, at), 0);
  vault[108] = 1; // in use
  new Program(TOKEN).raw(insurance, vault);

  program.put(program.derived("user", TRADER, wide(1, 16)), "User", 4376, {
    authority: TRADER,
    name: [...Buffer.from("Second Account".padEnd(32))],
    spotPositions: [{ scaledBalance: sol(4), marketIndex: 1, balanceType: "Deposit" }],
    perpPositions: [{ lpShares: sol(250), lastQuoteAssetAmountPerLp: 13_180_605_549, marketIndex: 1 }],
    lastActiveSlot: clock.start_slot,
    nextOrderId: 1,
    subAccountId: 1,
  });
  position(TRADER, "drift", "lp", []);

  const [staked, leaving] = [sol(60), sol(20)];
  program.put(program.derived("insurance_fund_stake", STAKER, MARKET), "InsuranceFundStake", 136, {
    authority: STAKER,
    ifShares: staked,
    lastWithdrawRequestShares: leaving,
    lastValidTs: clock.start_s - 60 * DAY_S,
    lastWithdrawRequestValue: sol(20.5),
    lastWithdrawRequestTs: clock.start_s - 2 * DAY_S,
    marketIndex: 1,
  });
  const stays = ((staked - leaving) * fund) / shares;
  position(STAKER, "drift", "staking", [["supply", SOL, stays], ["pending", SOL, sol(20.5)]]);

  for (const [wallet, fuel] of [[TRADER, { fuelTaker: 1_840, fuelPositions: 920 }], [LENDER, { fuelDeposits: 12_500 }]]) {
    program.put(program.derived("fuel_overflow", wallet), "FuelOverflow", 240, { authority: wallet, ...fuel });
    position(wallet, "drift", "rewards", []);
  }
}

module.exports = [drift];
