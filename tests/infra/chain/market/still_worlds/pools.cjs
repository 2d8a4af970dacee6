// Shares of pools that nobody trades in, farms of them, and emissions of marginfi.
const {
  about,
  amountsOf,
  balance,
  clock,
  DAY_S,
  LENDER,
  mint,
  named,
  ONE_48,
  position,
  Program,
  PublicKey,
  sol,
  SOL,
  SQRT_PRICE,
  STAKER,
  TRADER,
  usd,
  USDC,
} = require("./world.cjs");

const AMOUNTS = [sol(2e3), usd(300e3)];
const SIDES = [SOL, USDC];
const SUPPLY = sol(24e3); // of the LP token of AMM v4

function vaults(name) {
  return SIDES.map((of, at) => balance(named(`${name}-vault-${at}`), of, named(`${name}-authority`), AMOUNTS[at]));
}

function shares(name, title, symbol, wallet, supply, own) {
  const lp = named(`${name}-lp`);
  mint(lp, title, symbol, 9, supply, [[wallet, own]]);
  return { lp, lines: SIDES.map((of, at) => ["supply", of, (AMOUNTS[at] * own) / supply]) };
}

function ammV4() {
  const program = new Program("675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8");
  const own = sol(60);
  const { lp, lines } = shares("amm", "Raydium SOL-USDC", "RAYLP", TRADER, SUPPLY, own);
  const [coin, pc] = vaults("amm");
  const targets = program.placed(named("amm-targets"), 2208, "", {});
  program.placed(named("amm-pool"), 752, "", {
    0: 6,
    32: 9,
    40: 6,
    120: 10n ** 9n,
    160: 12,
    168: 100,
    336: coin,
    368: pc,
    400: SOL,
    432: USDC,
    464: lp,
    592: targets,
    720: SUPPLY,
  });
  // Of what trades earned, which is all that it has, 12 of 100 are Raydium's.
  const kept = lines.map(([role, of, raw]) => [role, of, about((raw * 88n) / 100n)]);
  position(TRADER, "raydium_amm_v4", "liquidity", kept);
}

// A farm of each version with LP tokens of that pool, and what they earned by the last slot.
function farms() {
  const lp = named("amm-lp");
  const staked = (name, version, farmBytes, ledgerBytes, [all, own], [sols, dollars], farm, ledger) => {
    const program = new Program(version);
    const held = balance(named(`${name}-lp`), lp, named(`${name}-authority`), all);
    const sides = SIDES.map((of, at) => balance(named(`${name}-reward-${at}`), of, named(`${name}-authority`), AMOUNTS[at]));
    const address = program.placed(named(name), farmBytes, "", farm(held, sides));
    program.placed(named(`${name}-ledger`), ledgerBytes, "", ledger(address, own));
    const lines = SIDES.map((of, at) => ["supply", of, about((AMOUNTS[at] * own * 88n) / (SUPPLY * 100n))]);
    if (dollars) lines.push(["reward", USDC, dollars]);
    if (sols) lines.push(["reward", SOL, sols]);
    position(TRADER, "raydium_amm_v4", "liquidity", lines);
  };
  staked(
    "farm-v3",
    "EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q",
    200,
    232,
    [sol(500), sol(10)],
    [0n, usd(5)],
    (held, [, dollars]) => ({ 0: 1, 16: held, 48: dollars, 168: 700_000, 184: clock.start_slot, 192: 1_000 }),
    (farm, own) => ({ 0: 1, 8: farm, 40: TRADER, 72: own, 80: usd(2) }),
  );
  staked(
    "farm-v5",
    "9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z",
    224,
    248,
    [sol(800), sol(20)],
    [sol(0.15), usd(7)],
    (held, [sols, dollars]) => ({
      ...{ 0: 1, 16: held, 48: dollars, 88: 4n * 10n ** 11n, 104: 1_000, 112: Buffer.from([1]) },
      ...{ 113: sols, 160: 10n ** 13n, 176: 2_000, 184: clock.start_slot },
    }),
    (farm, own) => ({ 0: 1, 8: farm, 40: TRADER, 72: own, 80: usd(1), 96: sol(0.05) }),
  );
  staked(
    "farm-v6",
    "FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG",
    1976,
    296,
    [sol(900), sol(30)],
    [0n, usd(5)],
    (held, [, dollars]) => ({
      ...{ 8: 1, 24: 1, 32: 10n ** 15n, 72: lp, 104: held },
      ...{ 136: 1, 144: clock.start_s - 9 * DAY_S, 152: clock.start_s + 81 * DAY_S, 160: clock.start_s },
      ...{ 168: usd(9e3), 176: usd(900), 192: 1_000, 200: 3n * 10n ** 11n, 216: dollars, 248: USDC },
    }),
    (farm, own) => ({ 8: 1, 16: farm, 48: TRADER, 80: own, 88: usd(4) }),
  );
}

function cpmm() {
  const program = new Program("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C");
  const [supply, own] = [sol(23e3), sol(45)];
  const { lp, lines } = shares("cpmm", "Raydium CPMM SOL-USDC", "CPLP", LENDER, supply, own);
  const [first, second] = vaults("cpmm");
  program.placed(named("cpmm-pool"), 637, "f7ede3f5d7c3de46", {
    72: first,
    104: second,
    136: lp,
    168: SOL,
    200: USDC,
    330: Buffer.from([9, 9, 6]),
    333: supply,
  });
  position(LENDER, "raydium_cpmm", "liquidity", lines, { in_range: true });
}

function dlmm() {
  const program = new Program("LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo", "p17-meteora_dlmm.json");
  const [active, step] = [-759, 25]; // 150 dollars
  const pair = program.put(named("dlmm-pair"), "LbPair", 904, {
    active_id: active,
    bin_step: step,
    token_x_mint: SOL,
    token_y_mint: USDC,
    reserve_x: named("dlmm-sol"),
    reserve_y: named("dlmm-usdc"),
  });
  const index = Math.floor(active / 70);
  const place = active - 70 * index;
  const supply = 10n ** 24n;
  const bins = [];
  bins[place - 1] = { amount_y: usd(40e3), liquidity_supply: supply };
  bins[place] = { amount_x: sol(150), amount_y: usd(20e3), liquidity_supply: supply };
  bins[place + 1] = { amount_x: sol(270), liquidity_supply: supply };
  const seed = Buffer.alloc(8);
  seed.writeBigInt64LE(BigInt(index));
  program.put(program.derived("bin_array", pair, seed), "BinArray", 10_136, {
    index: BigInt(index),
    lb_pair: pair,
    bins,
  });
  const own = supply / 40n;
  const fees = Array(3).fill({ fee_x_pending: sol(0.01), fee_y_pending: usd(1) });
  program.put(named("dlmm-position"), "PositionV2", 8_120, {
    lb_pair: pair,
    owner: TRADER,
    liquidity_shares: [own, own, own],
    fee_infos: fees,
    lower_bin_id: active - 1,
    upper_bin_id: active + 1,
  });
  const lines = [["supply", SOL, about(sol(420) / 40n)], ["supply", USDC, about(usd(60e3) / 40n)]];
  lines.push(["reward", SOL, sol(0.03)], ["reward", USDC, usd(3)]);
  position(TRADER, "meteora_dlmm", "liquidity", lines, { in_range: true });
}

function dammV2() {
  const program = new Program("cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG", "p18-meteora_cpamm.json");
  const nft = named("damm-nft");
  mint(nft, "Meteora position", "MPN", 0, 1n, [[LENDER, 1n]]);
  const liquidity = (13n * 10n ** 11n) << 64n;
  const [low, high] = [-19_968, -18_048];
  const sqrt = (tick) => BigInt(Math.floor(1.0001 ** (tick / 2) * 2 ** 64));
  const pool = program.put(named("damm-pool"), "Pool", 1112, {
    token_a_mint: SOL,
    token_b_mint: USDC,
    token_a_vault: named("damm-sol"),
    token_b_vault: named("damm-usdc"),
    liquidity: liquidity * 30n,
    sqrt_min_price: sqrt(low),
    sqrt_max_price: sqrt(high),
    sqrt_price: SQRT_PRICE,
    activation_type: 1,
  });
  program.put(named("damm-position"), "Position", 408, {
    pool,
    nft_mint: nft,
    unlocked_liquidity: liquidity,
    fee_a_pending: sol(0.02),
    fee_b_pending: usd(2.5),
  });
  const [a, b] = amountsOf(liquidity >> 64n, low, high);
  const lines = [["supply", SOL, about(a)], ["supply", USDC, about(b)]];
  lines.push(["reward", SOL, sol(0.02)], ["reward", USDC, usd(2.5)]);
  position(LENDER, "meteora_damm_v2", "liquidity", lines, { in_range: true });
}

function marginfiEmissions() {
  const program = new Program("MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA", "p02-marginfi_v2.json");
  const group = new PublicKey("4qp6Fx6tnZkY5Wropq9wUYgtFxXKwE6viZxFHg3rdAG8"); // the chain's own
  const coin = named("marginfi-coin");
  mint(coin, "Bonus", "BONUS", 6, usd(50e6), []);
  const value = (number) => ({ value: number });
  const bank = program.put(named("marginfi-bank"), "Bank", 1864, {
    mint: coin,
    mint_decimals: 6,
    group,
    asset_share_value: value(ONE_48),
    liability_share_value: value(ONE_48),
    last_update: clock.start_s,
    emissions_mint: USDC,
  });
  const [supplied, earned] = [usd(5e3), usd(31)];
  program.put(named("marginfi-account"), "MarginfiAccount", 2312, {
    group,
    authority: STAKER,
    lending_account: {
      balances: [
        {
          active: 1,
          bank_pk: bank,
          asset_shares: value(supplied * ONE_48),
          emissions_outstanding: value(earned * ONE_48),
          last_update: clock.start_s,
        },
      ],
    },
  });
  position(STAKER, "marginfi", "rewards", [["reward", USDC, earned]]);
}

module.exports = [ammV4, farms, cpmm, dlmm, dammV2, marginfiEmissions];
