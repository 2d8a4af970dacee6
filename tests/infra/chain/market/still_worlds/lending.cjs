// Kamino, Loopscale, Jupiter Lend, Offerbook, DefiTuna and Carrot.
const {
  about,
  amountsOf,
  balance,
  clock,
  createHash,
  CRT,
  DAY_S,
  LENDER,
  mint,
  named,
  NEVER,
  ONE_48,
  ONE_60,
  position,
  Program,
  PublicKey,
  SCALE,
  sol,
  SOL,
  SQRT_PRICE,
  STAKER,
  text,
  TICK,
  TOKEN,
  TRADER,
  usd,
  USDC,
  USDT,
  WAD,
} = require("./world.cjs");

// Positions in a market that is not known as one of Kamino's count in no sum.
const KAMINO_MAIN_MARKET = new PublicKey("7u3HeHxYDLhnCoErrtycNokbQYbWGzLs6JSDqGAv5PfF");

function kaminoVault() {
  const klend = new Program("KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD", "p01-kamino_lend.json");
  const kvault = new Program("KvauGMspG5k6rtzrqqn7WNn3oZdyKqLKwK2XWQ8FLjd", "p01-kamino_vault.json");
  const [available, borrowed, collateral] = [usd(30e6), usd(70e6), usd(96e6)];
  const point = ([utilization, rate]) => ({ utilization_rate_bps: utilization, borrow_rate_bps: rate });
  const curve = [[0, 10], [7000, 500], ...Array(9).fill([10_000, 5_000])];
  const reserve = klend.put(named("kamino-reserve"), "Reserve", 8624, {
    version: 1,
    last_update: { slot: clock.start_slot },
    lending_market: KAMINO_MAIN_MARKET,
    liquidity: {
      mint_pubkey: USDC,
      supply_vault: named("kamino-reserve-supply"),
      fee_vault: named("kamino-reserve-fees"),
      total_available_amount: available,
      borrowed_amount_sf: borrowed * ONE_60,
      market_price_sf: ONE_60,
      market_price_last_updated_ts: clock.start_s,
      mint_decimals: 6,
      cumulative_borrow_rate_bsf: { value: [ONE_60] },
      token_program: TOKEN,
    },
    collateral: { mint_pubkey: named("kamino-collateral"), mint_total_supply: collateral },
    config: {
      protocol_take_rate_pct: 15,
      loan_to_value_pct: 80,
      liquidation_threshold_pct: 85,
      borrow_rate_curve: { points: curve.map(point) },
      borrow_factor_pct: 100,
    },
  });
  const shares = named("kamino-vault-shares");
  const [idle, ctokens, issued, own] = [usd(120e3), usd(1.9e6), usd(2e6), usd(5e3)];
  kvault.put(named("kamino-vault"), "VaultState", 62552, {
    token_mint: USDC,
    token_mint_decimals: 6,
    token_vault: named("kamino-vault-tokens"),
    token_program: TOKEN,
    shares_mint: shares,
    shares_mint_decimals: 6,
    token_available: idle,
    shares_issued: issued,
    performance_fee_bps: 1000,
    last_fee_charge_timestamp: clock.start_s,
    vault_allocation_strategy: [{ reserve, target_allocation_weight: 100, ctoken_allocation: ctokens }],
    name: Array.from(Buffer.from("Dollar Vault")),
  });
  mint(shares, "Kamino Dollar Vault", "kvUSDC", 6, issued, [[STAKER, own]]);
  const whole = idle * ONE_60 + (ctokens * (available + borrowed) * ONE_60) / collateral;
  position(STAKER, "kamino", "vaults", [["supply", USDC, ((whole * own) / issued) >> 60n]]);
}

function kaminoLiquidity() {
  const orca = new Program("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc", "p19-orca_whirlpools.json");
  const kliquidity = new Program("6LtLpnUFNByNXLyCoK9wA2MykKAmQNZKBdY8s47dehDc");
  const liquidity = 13n * 10n ** 12n;
  const [lower, upper] = [-19_968, -18_048];
  const pool = orca.put(named("kamino-pool"), "Whirlpool", 653, {
    tick_spacing: 64,
    fee_rate: 3000,
    liquidity: liquidity * 3n,
    sqrt_price: SQRT_PRICE,
    tick_current_index: TICK,
    token_mint_a: SOL,
    token_vault_a: named("kamino-pool-sol"),
    token_mint_b: USDC,
    token_vault_b: named("kamino-pool-usdc"),
  });
  const invested = orca.put(named("kamino-pool-position"), "Position", 216, {
    whirlpool: pool,
    position_mint: named("kamino-pool-nft"),
    liquidity,
    tick_lower_index: lower,
    tick_upper_index: upper,
  });
  const shares = named("kamino-strategy-shares");
  const [issued, own, idle] = [usd(450e3), usd(4e3), [sol(12), usd(900)]];
  const data = Buffer.alloc(4064);
  Buffer.from("beb2e7b831ba670d", "hex").copy(data);
  const keys = { 112: pool, 272: invested, 544: SOL, 576: USDC, 720: shares };
  for (const [at, key] of Object.entries(keys)) key.toBuffer().copy(data, Number(at));
  const numbers = { 608: 9n, 616: 6n, 624: idle[0], 632: idle[1], 752: 6n, 800: issued, 1544: 0n };
  for (const [at, number] of Object.entries(numbers)) data.writeBigUInt64LE(number, Number(at));
  kliquidity.raw(named("kamino-strategy"), data);
  mint(shares, "Kamino SOL-USDC", "kSOLUSDC", 6, issued, [[TRADER, own]]);
  const parts = amountsOf(liquidity, lower, upper).map((each, at) => ((each + idle[at]) * own) / issued);
  const lines = [["supply", SOL, about(parts[0])], ["supply", USDC, about(parts[1])]];
  position(TRADER, "kamino", "liquidity", lines, { in_range: true });
}

function kaminoFarm() {
  const farms = new Program("FarmsPZpWu9i7Kky8tPN37rs2TpmMrAZrC7S7vJa91Hr", "p01-kamino_farms.json");
  const [total, staked, leaving] = [sol(40e3), sol(20), sol(1)];
  const [perShare, counted, unclaimed] = [2n * 10n ** 15n, usd(10), usd(12)];
  const later = Array(19).fill({ ts_start: NEVER });
  const farm = farms.put(named("kamino-farm"), "FarmState", 8336, {
    token: { mint: SOL, decimals: 9, token_program: TOKEN },
    reward_infos: [
      {
        token: { mint: USDC, decimals: 6, token_program: TOKEN },
        rewards_vault: balance(named("kamino-farm-rewards"), USDC, named("kamino-farm-authority"), usd(520e3)),
        rewards_available: usd(500e3),
        reward_schedule_curve: {
          points: [{ ts_start: clock.start_s - 30 * DAY_S, reward_per_time_unit: 9_512 }, ...later],
        },
        last_issuance_ts: clock.start_s,
        reward_per_share_scaled: perShare,
      },
    ],
    num_reward_tokens: 1,
    num_users: 900,
    total_staked_amount: total,
    farm_vault: named("kamino-farm-tokens"),
    withdrawal_cooldown_period: 3 * DAY_S,
    total_active_stake_scaled: total * WAD,
    total_pending_stake_scaled: leaving * WAD,
    total_pending_amount: leaving,
    scope_oracle_price_id: NEVER,
  });
  farms.put(named("kamino-farm-user"), "UserState", 920, {
    user_id: 7,
    farm_state: farm,
    owner: STAKER,
    rewards_tally_scaled: [counted * WAD],
    rewards_issued_unclaimed: [unclaimed],
    last_claim_ts: [clock.start_s - 9 * DAY_S],
    active_stake_scaled: staked * WAD,
    pending_withdrawal_unstake_scaled: leaving * WAD,
    pending_withdrawal_unstake_ts: clock.start_s + 2 * DAY_S,
    delegatee: STAKER,
    last_stake_ts: clock.start_s - 20 * DAY_S,
  });
  const earned = (perShare * staked) / WAD - counted + unclaimed;
  position(STAKER, "kamino", "rewards", [["reward", USDC, earned]]);
  position(STAKER, "kamino", "staking", [["supply", SOL, staked], ["pending", SOL, leaving]]);
}

function loopscale() {
  const program = new Program("1oopBoJG58DgkUVKkEzKgyG9dvRmpgeEm1AVjoHkF78", "p03-loopscale.json");
  const market = named("loopscale-market");
  const rate = (amount, percent) => (amount * BigInt(percent) * WAD) / (100n * 365n * BigInt(DAY_S));
  const loan = (name, status, [collateral, amount], [principal, due, interest]) => {
    program.put(named(name), "Loan", 1634, {
      version: 1,
      loan_status: status,
      borrower: LENDER,
      nonce: 1,
      start_time: BigInt(clock.start_s - 12 * DAY_S),
      ledgers: [
        {
          status: 1,
          strategy: named("loopscale-lender"),
          principal_mint: principal,
          market_information: market,
          principal_due: due,
          interest_outstanding: interest,
          last_interest_updated_time: BigInt(clock.start_s),
          duration: { duration: 90n, duration_type: 0 },
          interest_per_second: rate(due, 11),
          start_time: BigInt(clock.start_s - 12 * DAY_S),
          end_time: BigInt(clock.start_s + 78 * DAY_S),
          apy: 110_000n,
        },
      ],
      collateral: [{ asset_mint: collateral, amount, asset_type: 0 }],
    });
    const lines = [["supply", collateral, amount], ["borrow", principal, due], ["borrow", principal, interest]];
    position(LENDER, "loopscale", status === 2 ? "loops" : "loans", lines);
  };
  loan("loopscale-loan", 0, [SOL, sol(60)], [USDC, usd(4e3), usd(14.5)]);
  loan("loopscale-loop", 2, [USDT, usd(6e3)], [USDC, usd(3.5e3), usd(12.7)]);

  const strategy = (address, lender, idle, elsewhere, lent, interest) =>
    program.put(address, "Strategy", 8460, {
      version: 1,
      nonce: named("loopscale-nonce"),
      principal_mint: USDC,
      lender,
      originations_enabled: 1,
      interest_per_second: rate(lent, 10),
      last_accrued_timestamp: BigInt(clock.start_s),
      token_balance: idle,
      external_yield_amount: elsewhere,
      current_deployed_amount: lent,
      outstanding_interest_amount: interest,
      active_loan_count: 3n,
      market_information: market,
    });
  strategy(named("loopscale-strategy"), LENDER, usd(1.5e3), 0n, usd(6e3), usd(35));
  const lines = [["supply", USDC, usd(1.5e3)], ["locked", USDC, usd(6e3)], ["pending", USDC, usd(35)]];
  position(LENDER, "loopscale", "advanced-lending", lines);

  const shares = named("loopscale-vault-shares");
  const [supply, own, staked] = [usd(500e3), usd(2e3), usd(3e3)];
  const vault = program.put(named("loopscale-vault"), "Vault", 162, {
    manager: named("loopscale-manager"),
    nonce: named("loopscale-vault-nonce"),
    lp_supply: supply,
    lp_mint: shares,
    principal_mint: USDC,
    cumulative_principal_deposited: usd(505e3),
    deposits_enabled: 1,
  });
  strategy(program.derived("strategy", vault), vault, usd(20e3), usd(90e3), usd(400e3), usd(1.2e3));
  // Staked shares are in the program's own account: the exchange of this chain holds the rest.
  mint(shares, "Loopscale Dollar Vault", "lvUSDC", 6, supply, [[TRADER, own]]);
  position(TRADER, "loopscale", "vaults", [["supply", shares, own]]);
  const stake = program.put(named("loopscale-stake"), "VaultStake", 150, {
    vault,
    nonce: named("loopscale-stake-nonce"),
    user: STAKER,
    amount: staked,
    duration: { duration: 1n, duration_type: 2 },
    start_time: BigInt(clock.start_s - 5 * DAY_S),
    end_time: BigInt(clock.start_s + 25 * DAY_S),
  });
  position(STAKER, "loopscale", "vaults", [["locked", shares, staked]]);
  const index = 4n * 10n ** 15n;
  program.put(named("loopscale-user-rewards"), "UserRewardsInfo", 322, {
    vault_address: vault,
    stake_account_address: stake,
    stake_time: BigInt(clock.start_s - 5 * DAY_S),
    user: STAKER,
    lp_amount: staked,
    last_reward_indexes: [index],
    pending_rewards: [usd(18)],
    last_reward_index_update_time: [BigInt(clock.start_s)],
  });
  program.put(program.derived("vault_rewards_info", vault), "VaultRewardsInfo", 901, {
    vault_address: vault,
    schedules: [
      {
        reward_mint: USDC,
        total_weighted_stake_supply: supply * WAD,
        reward_start_time: BigInt(clock.start_s - 40 * DAY_S),
        reward_end_time: BigInt(clock.start_s - DAY_S),
        total_emissions_amount: usd(9e3),
        emissions_per_second: rate(usd(9e3), 100),
        reward_index: index,
        last_reward_index_update_time: BigInt(clock.start_s - DAY_S),
      },
    ],
  });
  position(STAKER, "loopscale", "rewards", [["reward", USDC, usd(18)]]);
}

function jupiterLend() {
  const earn = new Program("jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9", "p04-jupiter_lend_earn.json");
  const vaults = new Program("jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi", "p04-jupiter_lend_vaults.json");
  const liquidity = new Program("jupeiUmn818Jg1ekPURTpr4mFo29p46vygyykFJ3wZC", "p04-jupiter_lend_vaults.json");
  const prices = { [text(USDC)]: [1_030n, 1_060n], [text(SOL)]: [1_020n, 1_040n] };
  const reserve = (of, lent, owed) =>
    liquidity.put(liquidity.derived("reserve", of), "TokenReserve", 192, {
      mint: of,
      vault: named(`jupiter-${text(of)}`),
      borrow_rate: 600,
      fee_on_interest: 1000,
      last_utilization: 7500,
      last_update_timestamp: clock.start_s,
      supply_exchange_price: (prices[text(of)][0] * SCALE) / 1000n,
      borrow_exchange_price: (prices[text(of)][1] * SCALE) / 1000n,
      max_utilization: 10_000,
      total_supply_with_interest: lent,
      total_borrow_with_interest: owed,
    });
  const dollars = reserve(USDC, usd(400e6), usd(300e6));
  reserve(SOL, sol(900e3), sol(675e3));

  const shares = named("jupiter-lend-shares");
  const [price, own] = [(1_040n * SCALE) / 1000n, usd(3e3)];
  earn.put(earn.derived("lending", USDC, shares), "Lending", 196, {
    mint: USDC,
    f_token_mint: shares,
    lending_id: 1,
    decimals: 6,
    liquidity_exchange_price: (prices[text(USDC)][0] * SCALE) / 1000n,
    token_exchange_price: price,
    last_update_timestamp: clock.start_s,
    token_reserves_liquidity: dollars,
  });
  mint(shares, "jupiter lend USDC", "jlUSDC", 6, usd(200e6), [[LENDER, own]]);
  position(LENDER, "jupiter_lend", "earn", [["supply", USDC, (own * price) / SCALE]]);

  const number = Buffer.from([1, 0]);
  const [tick, collateral, dust] = [2_740, sol(40), 0n];
  const vaultPrices = [(1_010n * SCALE) / 1000n, (1_020n * SCALE) / 1000n];
  vaults.put(vaults.derived("vault_config", number), "VaultConfig", 219, {
    vault_id: 1,
    collateral_factor: 750,
    liquidation_threshold: 800,
    liquidation_max_limit: 900,
    liquidation_penalty: 500,
    oracle: named("jupiter-oracle"),
    liquidity_program: liquidity.address,
    supply_token: SOL,
    borrow_token: USDC,
  });
  vaults.put(vaults.derived("vault_state", number), "VaultState", 127, {
    vault_id: 1,
    topmost_tick: tick + 60,
    total_supply: sol(60e3),
    total_borrow: sol(3.2e6),
    total_positions: 41,
    liquidity_supply_exchange_price: (prices[text(SOL)][0] * SCALE) / 1000n,
    liquidity_borrow_exchange_price: (prices[text(USDC)][1] * SCALE) / 1000n,
    vault_supply_exchange_price: vaultPrices[0],
    vault_borrow_exchange_price: vaultPrices[1],
    next_position_id: 42,
    last_update_timestamp: clock.start_s,
  });
  vaults.put(vaults.derived("vault_metadata", number), "VaultMetadata", 44, {
    vault_id: 1,
    supply_mint_decimals: 9,
    borrow_mint_decimals: 6,
  });
  const at = Buffer.alloc(4);
  at.writeUInt32LE(tick + 16_383);
  const debt = BigInt(Math.round(Number(collateral) * 1.0015 ** tick));
  vaults.put(vaults.derived("tick", number, at), "Tick", 40, { vault_id: 1, tick, total_ids: 1, raw_debt: debt });
  const nft = named("jupiter-position");
  vaults.put(vaults.derived("position", number, Buffer.from([7, 0, 0, 0])), "Position", 71, {
    vault_id: 1,
    nft_id: 7,
    position_mint: nft,
    tick,
    tick_id: 1,
    supply_amount: collateral,
    dust_debt_amount: dust,
  });
  mint(nft, "Jupiter Lend position", "JV7", 0, 1n, [[LENDER, 1n]]);
  position(LENDER, "jupiter_lend", "borrow", [
    ["supply", SOL, (collateral * vaultPrices[0]) / SCALE],
    ["borrow", USDC, about((debt * vaultPrices[1]) / SCALE / 1000n)],
  ]);
}

function offerbook() {
  // `Asset` is a C enum: the coder would end it with its variant.
  const whole = (idl) => ({
    ...idl,
    types: idl.types.map((each) =>
      each.name === "Asset"
        ? {
            name: "Asset",
            type: {
              kind: "struct",
              fields: [
                { name: "variant", type: "u8" },
                { name: "mint", type: "pubkey" },
                { name: "token_program", type: "pubkey" },
                { name: "rest", type: { array: ["u8", 200] } },
              ],
            },
          }
        : each,
    ),
  });
  const file = "p05-jupiter_offerbook.json";
  const program = new Program("offerbkFMvVfpQhL8ZQ5iromnjct5rz3r52B9ewu3ie", file, whole);
  const [principal, collateral] = [usd(1.8e3), sol(20)];
  program.put(named("offerbook-loan"), "Loan", 808, {
    lender: TRADER,
    borrower: LENDER,
    creator: TRADER,
    offer: named("offerbook-offer"),
    principal: { variant: 1, mint: USDC, token_program: TOKEN },
    collateral: { variant: 1, mint: SOL, token_program: TOKEN },
    apy: 1_200,
    duration: 30 * DAY_S,
    principal_amount: principal,
    collateral_amount: collateral,
    interest: usd(17.75),
    created_at: clock.start_s - 9 * DAY_S,
    expired_at: clock.start_s + 21 * DAY_S,
    updated_at: clock.start_s - 9 * DAY_S,
  });
  position(TRADER, "offerbook", "positions", [["locked", USDC, principal], ["pending", USDC, null]]);
  const owed = [["supply", SOL, collateral], ["borrow", USDC, principal], ["borrow", USDC, null]];
  position(LENDER, "offerbook", "positions", owed);
}

function defituna() {
  const tuna = new Program("tuna4uSQZncNeeiAMKbstuxA9CUkHH6HmC64wgmnogD", "p06-defituna.json");
  const fusion = new Program("fUSioN9YKKSa3CUC2YUc4tPkHJ5Y6XW1yz8y6F7qWz9", "p06-defituna.json");
  const vault = (of, deposited, borrowed) =>
    tuna.put(tuna.derived("vault", of), "Vault", 355, {
      version: 1,
      mint: of,
      deposited_funds: deposited[0],
      deposited_shares: deposited[1],
      borrowed_funds: borrowed[0],
      borrowed_shares: borrowed[1],
      interest_rate: (ONE_60 * 8n) / (100n * 365n * BigInt(DAY_S)),
      last_update_timestamp: clock.start_s,
    });
  const up = (shares, [funds, whole]) => (shares * funds + whole - 1n) / whole;
  const [lentB, owedB] = [[usd(2.1e6), usd(2e6)], [usd(1.4e6), usd(1.3e6)]];
  const owedA = [sol(9e3), sol(8.8e3)];
  const dollars = vault(USDC, lentB, owedB);
  const sols = vault(SOL, [sol(14.7e3), sol(14e3)], owedA);
  const own = usd(2.5e3);
  tuna.put(tuna.derived("lending_position", LENDER, USDC), "LendingPosition", 155, {
    version: 1,
    authority: LENDER,
    mint: USDC,
    deposited_funds: usd(2.55e3),
    deposited_shares: own,
    vault: dollars,
  });
  position(LENDER, "defituna", "positions", [["supply", USDC, (own * lentB[0]) / lentB[1]]]);

  const pool = fusion.put(named("defituna-pool"), "FusionPool", 423, {
    version: 1,
    token_mint_a: SOL,
    token_mint_b: USDC,
    token_vault_a: named("defituna-pool-sol"),
    token_vault_b: named("defituna-pool-usdc"),
    tick_spacing: 64,
    fee_rate: 3000,
    liquidity: 5n * 10n ** 13n,
    sqrt_price: SQRT_PRICE,
    tick_current_index: TICK,
    last_swap_timestamp: clock.start_s,
  });
  const orca = new Program("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc", "p19-orca_whirlpools.json");
  const whirlpool = orca.put(named("defituna-whirlpool"), "Whirlpool", 653, {
    tick_spacing: 64,
    fee_rate: 3000,
    liquidity: 7n * 10n ** 13n,
    sqrt_price: SQRT_PRICE,
    tick_current_index: TICK,
    token_mint_a: SOL,
    token_vault_a: named("defituna-whirlpool-sol"),
    token_mint_b: USDC,
    token_vault_b: named("defituna-whirlpool-usdc"),
  });
  const threshold = 0.85;
  const inB = ([a, b]) => Number(a) * 0.15 + Number(b);
  const pair = (of, maker) => ({ authority: TRADER, pool: of, mint_a: SOL, mint_b: USDC, market_maker: maker });
  const leveraged = (name, of, maker, liquidity, [lower, upper], [loanA, loanB], left) => {
    tuna.put(tuna.derived("market", of), "Market", 348, {
      version: 1,
      market_maker: maker,
      pool: of,
      max_leverage: 5_090_000,
      liquidation_threshold: threshold * 1e6,
      vault_a: sols,
      vault_b: dollars,
    });
    tuna.put(named(name), "TunaLpPosition", 339, {
      version: 1,
      ...pair(of, maker),
      position_mint: named(`${name}-nft`),
      liquidity,
      tick_lower_index: lower,
      tick_upper_index: upper,
      loan_shares_a: loanA,
      loan_shares_b: loanB,
      leftovers_a: left[0],
      leftovers_b: left[1],
      tick_entry_index: TICK,
      entry_sqrt_price: SQRT_PRICE,
    });
    const held = amountsOf(liquidity, lower, upper).map((each, at) => each + left[at]);
    const debts = [up(loanA, owedA), up(loanB, owedB)];
    const lines = [
      ["supply", SOL, about(held[0])],
      ["supply", USDC, about(held[1])],
      ["borrow", SOL, debts[0]],
      ["borrow", USDC, debts[1]],
      ["reward", SOL, null],
      ["reward", USDC, null],
    ];
    const health = (threshold * inB(held)) / inB(debts);
    position(TRADER, "defituna", "positions", lines, { health, in_range: true });
  };
  const range = [-19_968, -17_984];
  leveraged("defituna-lp", pool, "Fusion", 132n * 10n ** 9n, range, [sol(8), usd(1e3)], [sol(0.1), usd(3)]);
  leveraged("defituna-orca-lp", whirlpool, "Orca", 9n * 10n ** 10n, range, [sol(5), usd(700)], [sol(0.2), usd(4)]);

  const [amount, loan] = [sol(30), usd(2.2e3)];
  tuna.put(named("defituna-spot"), "TunaSpotPosition", 346, {
    version: 1,
    ...pair(pool, "Fusion"),
    position_token: "A",
    collateral_token: "B",
    amount,
    loan_shares: loan,
    entry_sqrt_price: SQRT_PRICE,
  });
  const debt = up(loan, owedB);
  const spot = [["supply", SOL, amount], ["borrow", USDC, debt]];
  position(TRADER, "defituna", "positions", spot, { health: (threshold * inB([amount, 0n])) / Number(debt) });
}

function carrot() {
  const program = new Program("C73nDAFn23RYwiFa6vtHshSbcg8x6BLYjw3bERJ3vHxf", "p02-marginfi_v2.json");
  const group = named("carrot-group");
  const value = (number) => ({ value: number });
  const bank = (of, decimals, asset, liability) =>
    program.put(named(`carrot-bank-${text(of)}`), "Bank", 1864, {
      mint: of,
      mint_decimals: decimals,
      group,
      asset_share_value: value((ONE_48 * asset) / 1000n),
      liability_share_value: value((ONE_48 * liability) / 1000n),
      last_update: clock.start_s,
    });
  const [sols, dollars] = [bank(SOL, 9, 1_021n, 1_034n), bank(USDC, 6, 1_045n, 1_067n)];
  const [supplied, borrowed] = [sol(25) * ONE_48, usd(1.5e3) * ONE_48];
  const balance = (of, assets, debts) => ({
    active: 1,
    bank_pk: of,
    asset_shares: value(assets),
    liability_shares: value(debts),
    last_update: clock.start_s,
  });
  const data = program.bytes("MarginfiAccount", 2312, {
    group,
    authority: LENDER,
    lending_account: { balances: [balance(sols, supplied, 0n), balance(dollars, 0n, borrowed)] },
  });
  createHash("sha256").update("account:ClendAccount").digest().copy(data, 0, 0, 8); // else the same
  program.raw(named("carrot-account"), data);
  const [asset, liability] = [(ONE_48 * 1_021n) / 1000n, (ONE_48 * 1_067n) / 1000n];
  position(LENDER, "carrot", "lending", [
    ["supply", SOL, (supplied * asset) >> 96n],
    ["borrow", USDC, (borrowed * liability + (1n << 96n) - 1n) >> 96n],
    ["borrow", USDC, null],
  ]);
  mint(CRT, "Carrot", "CRT", 9, sol(120e3), [[STAKER, sol(25)]]);
  position(STAKER, "carrot", "positions", [["supply", CRT, sol(25)]]);
}

module.exports = [kaminoVault, kaminoLiquidity, kaminoFarm, loopscale, jupiterLend, offerbook, defituna, carrot];
