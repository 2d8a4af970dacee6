// What is staked, and what is locked to vote or vests.
const {
  balance,
  clock,
  DAY_S,
  LENDER,
  mint,
  named,
  ONE_64,
  position,
  Program,
  PublicKey,
  sol,
  STAKER,
  TRADER,
  usd,
  USDC,
  wide,
} = require("./world.cjs");

const token = (address, name, symbol, decimals, supply, held = []) => {
  const of = new PublicKey(address);
  mint(of, name, symbol, decimals, supply, held);
  return of;
};
const millions = (count, decimals) => BigInt(count) * 10n ** BigInt(6 + decimals);

function pyth() {
  const program = new Program("pytS9TjG1qyAZypk7n8rw8gfW9sUaqqYyMhJQ4E7JCQ", "p27-pyth_staking.json");
  const PYTH = token("HZ1JovNiVvGrGNiiYvEozEVgZ58xaU3RKwX8eACQBCt3", "Pyth Network", "PYTH", 6, millions(10_000, 6));
  const [votes, published, idle] = [usd(4e3), usd(2.5e3), usd(300)];
  const data = Buffer.alloc(40 + 3 * 200);
  program.bytes("PositionData", 40, { owner: STAKER }).copy(data);
  // Option<Position>: an amount, the epoch since which it counts, no end, and votes or a publisher
  const slot = (number, amount, publisher) => {
    const parts = [Buffer.from([1]), wide(amount, 64), wide(1, 64), Buffer.from([0])];
    parts.push(publisher ? Buffer.concat([Buffer.from([1]), publisher.toBuffer()]) : Buffer.from([0]));
    Buffer.concat(parts).copy(data, 40 + 200 * number);
  };
  slot(0, votes);
  slot(2, published, named("pyth-publisher"));
  const stake = program.raw(named("pyth-positions"), data);
  program.put(program.derived("stake_metadata", stake), "StakeAccountMetadataV2", 200, {
    owner: STAKER,
    lock: "FullyVested",
    next_index: 3,
  });
  balance(program.derived("custody", stake), PYTH, program.derived("authority", stake), votes + idle);
  position(STAKER, "pyth", "staking", [["supply", PYTH, idle], ["locked", PYTH, votes]]);
}

function stakeToEarn() {
  const program = new Program("FEESngU3neckdwib9X3KWqdL7Mjmqk9XNp3uh5JbP4KP");
  const coin = named("s2e-coin");
  mint(coin, "Stake to Earn", "S2E", 6, millions(1_000, 6), []);
  const [staked, total, leaving, pending] = [usd(12e3), usd(900e3), usd(500), usd(3)];
  const growth = [5n * ONE_64, 2n * ONE_64].map((each) => each / 1000n);
  const vault = program.placed(named("s2e-vault"), 1048, "c0b245e83a959d84", {
    40: coin,
    72: USDC,
    424: DAY_S,
    536: total,
    552: clock.start_s,
    584: wide(growth[0], 128),
    600: wide(growth[1], 128),
  });
  program.placed(named("s2e-escrow"), 520, "73ad354d2bdb557c", {
    8: STAKER,
    40: vault,
    80: staked,
    88: Buffer.from([1]),
    192: pending,
  });
  program.placed(named("s2e-unstake"), 304, "9a94834334f4f413", {
    40: leaving,
    56: clock.start_s + 6 * DAY_S,
    64: STAKER,
    96: vault,
  });
  const earned = growth.map((each) => (each * staked) / ONE_64);
  position(STAKER, "meteora_s2e", "s2e/staking", [
    ["locked", coin, staked],
    ["reward", coin, earned[0]],
    ["reward", USDC, earned[1] + pending],
  ]);
  position(STAKER, "meteora_s2e", "s2e/staking", [["pending", coin, leaving]]);
}

function solstice() {
  const program = new Program("eUSXyKoZ6aGejYVbnp3wtWQ1E8zuokLAJPecPxxtgG3", "p31-solstice.json");
  const USX = named("solstice-usx");
  mint(USX, "USX", "USX", 6, millions(300, 6), []);
  const [own, issued, whole, vesting, leaving] = [usd(1.5e3), usd(90e6), usd(96e6), usd(20e3), usd(250)];
  const EUSX = token("3ThdFZQKM6kRyVGLG48kaPg5TRMhYMKY1iCRa9xop1WC", "eUSX", "eUSX", 6, issued, [[STAKER, own]]);
  program.put(program.derived("YIELD_POOL"), "YieldPool", 619, {
    asset_mint: USX,
    asset_mint_decimals: 6,
    asset_vault: named("solstice-vault"),
    total_assets: whole,
    shares_supply: issued,
  });
  program.put(program.derived("VESTING_SCHEDULE"), "VestingSchedule", 161, {
    vesting_amount: vesting,
    start_time: clock.start_s,
    end_time: clock.start_s + 7 * DAY_S,
  });
  program.put(named("solstice-cooldown"), "CooldownEscrow", 217, {
    user: STAKER,
    asset_mint: USX,
    asset_amount: leaving,
    cooldown_end: clock.start_s + 3 * DAY_S,
  });
  position(STAKER, "solstice", "positions", [["supply", USX, (own * (whole - vesting + 1n)) / (issued + 1n)]]);
  position(STAKER, "solstice", "positions", [["pending", USX, leaving]]);
}

function streamflow() {
  const file = "p28alt-streamflow_stake_pool.json";
  const program = new Program("STAKEvGqQTtzJZH6BWDcbpzXXn2BBerPAgQ3EGLN2GH", file);
  const coin = named("streamflow-coin");
  mint(coin, "Streamed", "STRMD", 9, millions(100, 9), []);
  const pool = program.put(named("streamflow-pool"), "StakePool", 291, {
    mint: coin,
    min_duration: DAY_S,
    max_duration: 365 * DAY_S,
    vault: named("streamflow-vault"),
    stake_mint: named("streamflow-stake-mint"),
    total_stake: sol(70e3),
  });
  program.put(named("streamflow-entry"), "StakeEntry", 220, {
    stake_pool: pool,
    payer: TRADER,
    authority: TRADER,
    amount: sol(800),
    duration: 90 * DAY_S,
    effective_amount: sol(900),
    created_ts: BigInt(clock.start_s - 10 * DAY_S),
  });
  position(TRADER, "streamflow", "staking", [["locked", coin, sol(800)]]);
}

function wormhole() {
  const program = new Program("MGoV9M6YUsdhJzjzH9JMCW2tRe1LLxF1CjwqKC7DR1B");
  const W = token("85VBFQZC9TZkfaptBWjvUw7YbZjy52A6mjtPGjstQAmQ", "Wormhole", "W", 6, millions(10_000, 6));
  const [deposited, vesting] = [usd(6e3), usd(1.2e3)];
  program.placed(named("wormhole-deposit"), 141, "440bed8a3d210f5d", {
    11: deposited,
    19: vesting,
    27: STAKER,
    59: STAKER,
  });
  program.placed(named("wormhole-vesting"), 96, "e0464e8078c709b6", { 8: STAKER, 40: vesting, 48: Buffer.from([1]) });
  position(STAKER, "wormhole", "staking", [["supply", W, deposited]]);
  position(STAKER, "wormhole", "staking", [["locked", W, vesting]]);
}

function jupiterDao() {
  const file = "p23-jupiter_locked_voter.json";
  const program = new Program("voTpe3tHQ7AjQHMapgSue2HJFAh2cGsdokqN3XqmVSj", file);
  const JUP = token("JUPyiwrYJFskUPiHa7hkeR8VUtAeFoSYbKedZNsDvCN", "Jupiter", "JUP", 6, millions(7_000, 6));
  const locker = program.put(named("jupiter-locker"), "Locker", 695, {
    token_mint: JUP,
    locked_supply: millions(500, 6),
    total_escrow: 70_000,
    params: { max_stake_vote_multiplier: 1, min_stake_duration: DAY_S, max_stake_duration: 30 * DAY_S },
  });
  const [locked, leaving] = [usd(2.2e3), usd(150)];
  program.put(named("jupiter-escrow"), "Escrow", 322, {
    locker,
    owner: STAKER,
    tokens: named("jupiter-escrow-tokens"),
    amount: locked,
    escrow_started_at: clock.start_s - 40 * DAY_S,
    vote_delegate: STAKER,
    is_max_lock: true,
    partial_unstaking_amount: leaving,
  });
  position(STAKER, "jupiter_dao", "staking", [["locked", JUP, locked], ["pending", JUP, leaving]]);
}

// Escrows of Tribeca, and of Star Atlas' fork: the same fields, without those of Jupiter's.
function voteEscrow(program, [escrow, locker], owner, coin, amount) {
  program.placed(locker, 139, "4af60671f9e44ba9", {
    41: coin,
    114: Buffer.from([5]),
    115: 7 * DAY_S,
    123: 4 * 365 * DAY_S,
  });
  program.placed(escrow, 161, "1fd57bbbba16da9b", {
    8: locker,
    40: owner,
    105: amount,
    113: clock.start_s - 30 * DAY_S,
    121: clock.start_s + 335 * DAY_S,
    129: owner,
  });
}

function tribeca() {
  const program = new Program("LocktDzaV1W2Bm9DeZeiyz4J9zs4fRqNiYqQyracRXw");
  const coin = named("tribeca-coin");
  mint(coin, "Tribeca DAO", "TRIBE", 6, millions(100, 6), []);
  voteEscrow(program, [named("tribeca-escrow"), named("tribeca-locker")], LENDER, coin, usd(4e3));
  position(LENDER, "tribeca", "escrows", [["locked", coin, usd(4e3)]]);
}

function starAtlas() {
  const staking = new Program("ATLocKpzDbTokxgvnLew3d7drZkEzLzDpzwgrgWKDbmc");
  const voter = new Program("Lock7kBijGCQLEFAmXcengzXKA88iDNQPriQ7TbgeyG");
  const proxies = new Program("gateVwTnKyFrE8nxUUgfzoZTPKgJQZUbLsEidpG4Dp2");
  const ATLAS = token("ATLASXmbPQxBUYbxPsV97usA3fPQYEqzQBUHgiFCUsXx", "Star Atlas", "ATLAS", 8, millions(36_000, 8));
  const POLIS = token("poLisWXnNRwC6oBu1vHiuKQzFjGL4XDSu4g9qjz9qVk", "Star Atlas DAO", "POLIS", 8, millions(360, 8));
  const [staked, active, earned, locked] = [10n ** 13n, 9n * 10n ** 12n, 4n * 10n ** 9n, 5n * 10n ** 11n];
  staking.placed(named("atlas-stake"), 171, "34b2fb9db4ba62ea", {
    8: STAKER,
    40: named("atlas-farm"),
    72: ATLAS,
    104: staked,
    112: active,
    120: earned,
  });
  position(STAKER, "star_atlas", "staking", [
    ["supply", ATLAS, active],
    ["pending", ATLAS, staked - active],
    ["reward", ATLAS, earned],
  ]);
  const locker = new PublicKey("5WmM9c9WE71y78Ah8Bp8vgyoStscM1ZZyaaFqRf8b2Qa");
  const proxy = proxies.derived("Proxy", proxies.derived("ProxyEscrow", STAKER), STAKER);
  voteEscrow(voter, [voter.derived("Escrow", locker, proxy), locker], proxy, POLIS, locked);
  position(STAKER, "star_atlas", "staking", [["locked", POLIS, locked]]);
}

function helium() {
  const file = "p24-helium_vsr_sonarwatch.json";
  const program = new Program("hvsrNC3NKbcryqDs2DocYHZ9yPKEVzdSjQG6RVtK1s8", file);
  const HNT = token("hntyVP6YFm1Hg25TN9WGLqM12b8TQmcknKrdu1oxWux", "Helium", "HNT", 8, millions(223, 8));
  const nft = named("helium-nft");
  mint(nft, "Helium position", "HNTV", 0, 1n, [[STAKER, 1n]]);
  const registrar = program.put(named("helium-registrar"), "Registrar", 400, {
    realm_governing_token_mint: HNT,
    voting_mints: [
      {
        mint: HNT,
        baseline_vote_weight_scaled_factor: 0,
        max_extra_lockup_vote_weight_scaled_factor: 100n * 10n ** 9n,
        lockup_saturation_secs: 4 * 365 * DAY_S,
      },
    ],
  });
  const locked = 250n * 10n ** 8n;
  program.put(named("helium-position"), "PositionV0", 200, {
    registrar,
    mint: nft,
    lockup: { start_ts: clock.start_s - 60 * DAY_S, end_ts: clock.start_s + 305 * DAY_S, kind: "Cliff" },
    amount_deposited_native: locked,
  });
  position(STAKER, "helium", "staking", [["locked", HNT, locked]]);
}

function solanaMobile() {
  const program = new Program("SKRskrmtL83pcL4YqLWt6iPefDqwXQWHSw9S9vz94BZ");
  const SKR = token("SKRbvo6Gf7GondiT3BbTfuRDPqLWei4j2Qy2NPGZhW3", "Seeker", "SKR", 6, millions(10_000, 6));
  const [shares, price, leaving] = [usd(4e3), 1_050_000_000n, usd(200)];
  const config = program.placed(named("skr-config"), 193, "ee972b030b973fb0", {
    41: SKR,
    105: usd(10),
    113: 2 * DAY_S,
    121: wide(usd(100e6), 128),
    137: wide(price, 128),
  });
  const pool = program.placed(named("skr-pool"), 188, "85eeffd6d70bbd17", {
    8: config,
    104: wide(usd(5e6), 128),
    171: Buffer.from([1]),
  });
  program.placed(named("skr-stake"), 169, "6635a36b098a5799", {
    9: config,
    41: STAKER,
    73: pool,
    105: wide(shares, 128),
    121: wide(10n ** 9n, 128),
    153: leaving,
    161: clock.start_s - DAY_S,
  });
  const worth = (shares * price) / 10n ** 9n;
  position(STAKER, "solana_mobile", "staking", [["supply", SKR, worth], ["pending", SKR, leaving]]);
}

function realms() {
  const program = new Program("GovER5Lthms3bLBqWub97yVrMmEogzX7xNjdXpPPCVZw");
  const coin = named("realms-coin");
  mint(coin, "Realms DAO", "REALM", 6, millions(50, 6), []);
  program.placed(named("realms-record"), 282, "11", { 1: named("realms-realm"), 33: coin, 65: LENDER, 97: usd(3e3) });
  position(LENDER, "realms", "deposits", [["supply", coin, usd(3e3)]]);
}

function jupiterLock() {
  const program = new Program("LocpQgucEQHbqNABEYvBvwoxCPsSbG91A1QaQhQQqjn");
  const coin = named("lock-coin");
  mint(coin, "Locked coin", "LOCKD", 6, millions(1_000, 6), []);
  const [cliff, period, periods, claimed] = [usd(1e3), usd(100), 24n, usd(900)];
  program.placed(named("lock-escrow"), 296, "f477b704497487c3", {
    8: TRADER,
    40: coin,
    72: named("lock-creator"),
    144: clock.start_s - 90 * DAY_S,
    152: 30 * DAY_S,
    160: cliff,
    168: period,
    176: periods,
    184: claimed,
  });
  const vested = cliff + 3n * period;
  position(TRADER, "jupiter_lock", "vesting", [
    ["supply", coin, vested - claimed],
    ["locked", coin, cliff + periods * period - vested],
  ]);
}

module.exports = [
  pyth,
  stakeToEarn,
  solstice,
  streamflow,
  wormhole,
  jupiterDao,
  helium,
  solanaMobile,
  starAtlas,
  realms,
  jupiterLock,
  tribeca,
];
