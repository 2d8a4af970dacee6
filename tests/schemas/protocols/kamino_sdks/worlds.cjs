// Worlds of loans and farms: Anchor's coder writes their bytes by the IDL, Kamino's SDKs answer.
// A line {"idls": [lend, farms]} first, then {"loan": seed}, {"farm": seed} or {"account": kind,
// "seed"}; an answer a line. {"loan": seed, "reserve": [address, base64]}: one of the reserves is
// this; with "obligation": [address, base64] the obligation is this, and has no other reserve.
const fs = require("fs");
const { BorshAccountsCoder, BN, web3 } = require("@coral-xyz/anchor");
const { deflateSync } = require("zlib");

const coders = {};
function load(paths) {
  for (const [name, path] of [["lend", paths[0]], ["farms", paths[1]]]) {
    const idl = JSON.parse(fs.readFileSync(path, "utf8"));
    coders[name] = { idl, coder: new BorshAccountsCoder(idl) };
  }
}

function rng(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  };
  for (let i = 0; i < 8; i++) next();
  const bits = (n) => {
    let value = 0n;
    for (let i = 0; i < n; i += 32) value = (value << 32n) | BigInt(next());
    return value & ((1n << BigInt(n)) - 1n);
  };
  const below = (n) => bits(128) % BigInt(n);
  const size = (most) => below(10n ** (1n + below(most)));
  const key = () => new web3.PublicKey(Buffer.from(Array.from({ length: 32 }, () => next() & 255)));
  return { bits, below, size, key, pick: (n) => Number(below(n)) };
}

const WIDTH = { u8: 8, u16: 16, u32: 32, u64: 64, i64: 64, u128: 128 };
const ZERO = web3.PublicKey.default;

/** A value of a type: what `leaf` says of its primitives, by their path. */
function fill(idl, type, leaf, path = "") {
  if (typeof type === "string") return leaf(type, path);
  if (type.array) {
    const [of, size] = type.array;
    return Array.from({ length: size }, (_, i) => fill(idl, of, leaf, `${path}[${i}]`));
  }
  const { fields } = idl.types.find((each) => each.name === type.defined.name).type;
  return Object.fromEntries(
    fields.map((each) => [each.name, fill(idl, each.type, leaf, `${path}.${each.name}`)]),
  );
}
const number = (type, value) => {
  const signed = type === "i64" ? BigInt.asIntN(64, value) : value;
  return WIDTH[type] > 32 ? new BN(signed.toString()) : Number(signed);
};
const zero = (type) => (type === "pubkey" ? ZERO : number(type, 0n));

function blank(name, kind) {
  return fill(coders[name].idl, { defined: { name: kind } }, zero);
}
function encode(name, kind, value) {
  const { coder } = coders[name];
  const body = Buffer.alloc(coder.size(kind) - 8);
  coder.accountLayouts.get(kind).layout.encode(value, body);
  return Buffer.concat([coder.accountDiscriminator(kind), body]);
}
const packed = (bytes) => deflateSync(bytes, { level: 9 }).toString("base64");
const big = (value) => new BN(value.toString());

function random({ account, of, seed }) {
  const random = rng(seed);
  const leaves = {};
  const value = fill(coders[of].idl, { defined: { name: account } }, (type, path) => {
    const made = type === "pubkey" ? random.key() : number(type, random.bits(WIDTH[type]));
    if (type === "pubkey") leaves[path.slice(1)] = made.toString();
    return made;
  });
  return { data: packed(encode(of, account, value)), leaves };
}

function limbs(value) {
  return [0n, 64n, 128n, 192n].map((at) => big((value >> at) & ((1n << 64n) - 1n)));
}

const bytes = (text) => Buffer.from(text, "base64");

function recorded([address, text]) {
  const state = coders.lend.coder.decode("Reserve", bytes(text));
  const words = state.liquidity.cumulative_borrow_rate_bsf.value;
  state.rate = words.reduce((sum, each, i) => sum + (BigInt(each.toString()) << BigInt(64 * i)), 0n);
  return { address: new web3.PublicKey(address), state, data: bytes(text) };
}

function loan({ loan: seed, reserve, obligation: given }) {
  const random = rng(seed);
  const market = random.key();
  const real = reserve && recorded(reserve);
  const elapsed = seed % 4 === 0 ? 0n : seed % 4 === 1 ? random.below(6) : random.size(4n);
  const slot = real ? BigInt(real.state.last_update.slot.toString()) + elapsed : 300_000_000n;
  const group = random.pick(2) && !real ? 1 + random.pick(32) : 0;
  const place = blank("lend", "LendingMarket");
  if (given) {
    const data = bytes(given[1]);
    const { owner } = coders.lend.coder.decode("Obligation", data);
    const accounts = {
      [given[0]]: ["kamino_obligation", packed(data)],
      [reserve[0]]: ["kamino_reserve", packed(real.data)],
    };
    const theirs = answerLoan([real], data, encode("lend", "LendingMarket", place), slot);
    return { wallet: owner.toString(), slot: slot.toString(), elapsed: Number(elapsed), accounts, ...theirs };
  }
  const reserves = Array.from({ length: 4 }, () => {
    const state = blank("lend", "Reserve");
    const available = random.size(10n) + 1n;
    const debt = (available * random.below(400)) / 100n + 1n;
    state.last_update.slot = big(slot - elapsed);
    state.lending_market = market;
    Object.assign(state.liquidity, {
      mint_pubkey: random.key(),
      mint_decimals: big(random.below(10)),
      total_available_amount: big(available),
      borrowed_amount_sf: big((debt << 60n) + random.bits(60)),
      market_price_sf: big(random.bits(66) + 1n),
      accumulated_protocol_fees_sf: big((available << 60n) / (100n + random.below(1000))),
      accumulated_referrer_fees_sf: big(random.below(available << 52n)),
      pending_referrer_fees_sf: big(random.below(available << 50n)),
    });
    state.rate = (1n << 60n) + random.bits(60);
    state.liquidity.cumulative_borrow_rate_bsf.value = limbs(state.rate);
    state.collateral.mint_pubkey = random.key();
    state.collateral.mint_total_supply = big(random.pick(12) ? random.size(11n) + 1n : 0n);
    const config = state.config;
    config.host_fixed_interest_rate_bps = random.pick(200);
    config.protocol_take_rate_pct = random.pick(31);
    config.loan_to_value_pct = 1 + random.pick(80);
    config.liquidation_threshold_pct = config.loan_to_value_pct + random.pick(15);
    config.borrow_factor_pct = big(100n + random.below(200));
    if (group) config.elevation_groups[0] = group;
    const inner = 1 + random.pick(9);
    let rate = random.pick(300) + 1;
    config.borrow_rate_curve.points = Array.from({ length: 11 }, (_, i) => {
      const at = i > inner ? 10_000 : Math.floor((10_000 * i) / (inner + 1));
      if (i <= inner + 1) rate += random.pick(900);
      return { utilization_rate_bps: i === inner + 1 ? 10_000 : at, borrow_rate_bps: rate };
    });
    return { address: random.key(), state };
  });
  if (real) reserves[seed % 2 ? 3 : 0] = real;
  if (group) {
    Object.assign(place.elevation_groups[group - 1], {
      id: group,
      ltv_pct: 50 + random.pick(40),
      liquidation_threshold_pct: 91 + random.pick(8),
    });
  }
  const owner = random.key();
  const obligation = blank("lend", "Obligation");
  obligation.lending_market = market;
  obligation.owner = owner;
  obligation.elevation_group = group;
  const deposits = 1 + random.pick(3);
  reserves.slice(0, deposits).forEach((each, i) => {
    const at = random.pick(8 - i);
    const free = obligation.deposits.filter((one) => one.deposit_reserve.equals(ZERO));
    free[at].deposit_reserve = each.address;
    free[at].deposited_amount = big(random.size(11n) + 1n);
  });
  const borrows = group ? reserves.slice(3) : reserves.slice(4 - random.pick(3));
  borrows.forEach((each, i) => {
    const borrow = obligation.borrows[2 * i];
    borrow.borrow_reserve = each.address;
    borrow.borrowed_amount_sf = big(random.size(11n) * (1n << 60n) + random.bits(60));
    borrow.cumulative_borrow_rate_bsf.value = limbs((1n << 60n) + random.below(each.state.rate - (1n << 60n) + 1n));
  });
  const address = random.key();
  const accounts = {
    [address]: ["kamino_obligation", packed(encode("lend", "Obligation", obligation))],
    [market]: ["kamino_lending_market", packed(encode("lend", "LendingMarket", place))],
  };
  for (const each of reserves) {
    each.data ??= encode("lend", "Reserve", each.state);
    accounts[each.address] = ["kamino_reserve", packed(each.data)];
  }
  const theirs = answerLoan(reserves, encode("lend", "Obligation", obligation), encode("lend", "LendingMarket", place), slot);
  return { wallet: owner.toString(), slot: slot.toString(), elapsed: Number(elapsed), accounts, ...theirs };
}

function answerLoan(reserves, data, place, slot) {
  const sdk = require("@kamino-finance/klend-sdk");
  const Decimal = require("decimal.js");
  Decimal.set({ precision: 20, rounding: 4 });
  const read = new Map(
    reserves.map(({ address, data: bytes }) => {
      const state = sdk.Reserve.decode(bytes);
      const price = new Decimal(state.liquidity.marketPriceSf.toString()).div(new Decimal(2).pow(60));
      const reserve = new sdk.KaminoReserve(state, address.toString(), { price, mintAddress: state.liquidity.mintPubkey, decimals: new Decimal(1) }, null, 500);
      reserve.stats = {
        loanToValue: state.config.loanToValuePct / 100,
        liquidationThreshold: state.config.liquidationThresholdPct / 100,
        borrowFactor: Number(state.config.borrowFactorPct),
      };
      return [address.toString(), reserve];
    }),
  );
  const market = sdk.LendingMarket.decode(place);
  const obligation = sdk.Obligation.decode(data);
  const rates = new Map();
  const growths = new Map();
  for (const [address, reserve] of read) {
    rates.set(address, reserve.getEstimatedCollateralExchangeRate(slot, 0));
    // getEstimatedCumulativeBorrowRate takes the utilization with interest until now; the program
    // that of the last refresh, as the SDK's own getEstimatedDebtAndSupply does.
    const debt = reserve.getBorrowedAmount();
    const grown = reserve.getEstimatedDebtAndSupply(slot, 0).totalBorrow.div(debt);
    growths.set(address, reserve.getCumulativeBorrowRate().mul(grown));
  }
  const found = sdk.KaminoObligation.calculatePositions(
    { getReserveByAddress: (each) => read.get(each), getElevationGroup: (id) => market.elevationGroups[id - 1] },
    obligation.deposits, obligation.borrows, obligation.elevationGroup, rates, growths,
  );
  const lines = (positions) => Object.fromEntries([...positions].map(([, each]) => [each.mintAddress, each.amount.toFixed()]));
  const stats = found.refreshedStats;
  return {
    deposits: lines(found.deposits),
    borrows: lines(found.borrows),
    debt: stats.userTotalBorrowBorrowFactorAdjusted.toFixed(),
    limit: stats.borrowLiquidationLimit.toFixed(),
    collateral: stats.userTotalDeposit.toFixed(),
  };
}

function farm(seed) {
  const random = rng(seed);
  const now = 1_800_000_000n;
  const state = blank("farms", "FarmState");
  const isDelegated = random.pick(2) === 1;
  const isSlots = random.pick(4) === 0;
  const slot = 300_000_000n;
  const ts = isSlots ? slot : now;
  const wad = 10n ** 18n;
  const unit = isDelegated ? 1n : wad;
  if (isDelegated) state.delegate_authority = random.key();
  state.time_unit = isSlots ? 1 : 0;
  state.scope_oracle_price_id = big((1n << 64n) - 1n);
  state.token.mint = isDelegated ? ZERO : random.key();
  state.token.decimals = big(random.below(10));
  const staked = random.size(13n) + 10n;
  state.total_staked_amount = big(staked);
  state.total_active_stake_scaled = big(staked * unit);
  state.total_pending_amount = big(staked / 3n);
  state.total_pending_stake_scaled = big((staked / 3n) * wad);
  state.num_reward_tokens = big(1n + random.below(10));
  const user = blank("farms", "UserState");
  user.farm_state = random.key();
  user.owner = random.key();
  const active = random.below(staked + 1n) * unit;
  user.active_stake_scaled = big(active);
  if (!isDelegated) {
    user.pending_deposit_stake_scaled = big(random.below(staked / 3n + 1n) * wad / 2n);
    user.pending_withdrawal_unstake_scaled = big(random.below(staked / 3n + 1n) * wad / 2n);
    user.pending_withdrawal_unstake_ts = big(ts - 500n + random.below(1000));
  }
  user.last_stake_ts = big(ts - random.below(100_000));
  state.reward_infos.slice(0, Number(state.num_reward_tokens)).forEach((info, i) => {
    info.token.mint = random.key();
    info.token.decimals = big(random.below(10));
    info.rewards_available = big(random.size(16n));
    info.last_issuance_ts = big(ts - random.below(1_000_000));
    info.reward_type = random.pick(4) === 0 ? 1 : 0;
    if (seed % 2) info.rewards_per_second_decimals = info.reward_type ? 12 + random.pick(6) : random.pick(8);
    info.reward_schedule_curve.points.forEach((point, n) => {
      point.ts_start = n === 0 ? big(1n) : big((1n << 64n) - 1n);
      point.reward_per_time_unit = n === 0 ? big(random.size(10n)) : big(0n);
    });
    const perShare = random.below(wad);
    info.reward_per_share_scaled = big(perShare);
    user.rewards_tally_scaled[i] = big((perShare * random.below(1000) / 1000n * active) / (isDelegated ? 1n : wad));
    user.rewards_issued_unclaimed[i] = big(random.pick(3) ? random.size(10n) : 0n);
  });
  // The program cuts off: so the SDK is made to, which by itself rounds the user's to the nearest.
  require("decimal.js").set({ precision: 60, rounding: 3 });
  const { calculatePendingRewards } = require("@kamino-finance/farms-sdk/dist/utils/mathUtils");
  const Decimal = require("decimal.js");
  const codegen = "@kamino-finance/farms-sdk/dist/@codegen/farms/accounts";
  const bytes = [encode("farms", "FarmState", state), encode("farms", "UserState", user)];
  const theirs = [require(`${codegen}/FarmState`).FarmState.decode(bytes[0]), require(`${codegen}/UserState`).UserState.decode(bytes[1])];
  const rewards = {};
  for (let i = 0; i < Number(state.num_reward_tokens); i++) {
    rewards[state.reward_infos[i].token.mint] = calculatePendingRewards(...theirs, i, new Decimal(ts.toString()), null).toFixed();
  }
  const address = random.key();
  return {
    wallet: user.owner.toString(), slot: slot.toString(), time_s: now.toString(), delegated: isDelegated, whole: seed % 2 === 0,
    accounts: { [address]: ["kamino_farm_user", packed(bytes[1])], [user.farm_state]: ["kamino_farm", packed(bytes[0])] },
    rewards, staked: isDelegated ? "0" : (active / wad).toString(),
  };
}

const [head, ...questions] = fs.readFileSync(0, "utf8").trim().split("\n").map((each) => JSON.parse(each));
load(head.idls);
const answers = questions.map((each) =>
  each.account ? random(each) : each.loan !== undefined ? loan(each) : farm(each.farm),
);
process.stdout.write(answers.map((each) => JSON.stringify(each) + "\n").join(""), () => process.exit(0));
