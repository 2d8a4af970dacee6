// Vaults and tokens that earn, Exponent, and Parcl.
const {
  balance,
  clock,
  DAY_S,
  LENDER,
  mint,
  named,
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

const ONE = 10n ** 12n; // of Exponent's numbers

// Tokens that are all a wallet has of a protocol.
function tokens() {
  const held = (protocol, of, name, symbol, decimals, [wallet, amount]) => {
    mint(of, name, symbol, decimals, amount * 2_000n, [[wallet, amount]]);
    position(wallet, protocol, "positions", [["supply", of, amount]]);
  };
  const exchange = new Program("HYEXCHtHkBagdStcJCp3xbbb9B7sdMdWXFNj6mdsG4hn");
  const earnPool = new Program("HysTabVUfmQBFcmzu1ctRd1Y1fxd66RBpboy1bmtDSQQ");
  held("hylo", exchange.derived("hyUSD"), "Hylo USD", "hyUSD", 6, [TRADER, usd(700)]);
  held("hylo", earnPool.derived("staked_hyUSD"), "Staked Hylo USD", "sHYUSD", 6, [STAKER, usd(900)]);
  held("hylo", exchange.derived("xSOL"), "Hylo xSOL", "xSOL", 6, [TRADER, usd(40)]);
  const star = new PublicKey("star9agSpjiFe3M49B3RniVU4CMBBEK3Qnaqn3RGiFM");
  held("perena", star, "Perena USD*", "USD*", 6, [STAKER, usd(1.1e3)]);
  const pst = new PublicKey("59obFNBzyTBGowrkif5uK7ojS58vsuWz3ZCvg6tfZAGw");
  held("huma_onre", pst, "PayFi Strategy Token", "PST", 6, [STAKER, usd(600)]);
  const onyc = new PublicKey("5Y8NV33Vv7WbnLfq3zBcKSdYPrk7g2KoiQoe7M2tcxp5");
  held("huma_onre", onyc, "OnRe Tokenized Yield", "ONyc", 9, [LENDER, sol(450)]);
}

function voltr() {
  const program = new Program("vVoLTRjQmtFpiYoegx285Ze4gsLJ8ZxgFKVcuvmG1a8", "p15-voltr_vault.json");
  const shares = named("voltr-shares");
  const [total, supply, own, leaving] = [usd(3.3e6), usd(3e6), usd(2e3), usd(500)];
  const vault = program.put(named("voltr-vault"), "Vault", 928, {
    name: Array.from(Buffer.from("Dollar Carry")),
    asset: { mint: USDC, idle_ata: named("voltr-idle"), total_value: total },
    lp: { mint: shares },
  });
  mint(shares, "Voltr Dollar Carry", "vUSDC", 6, supply, [[LENDER, own]]);
  program.put(named("voltr-request"), "RequestWithdrawVaultReceipt", 106, {
    vault,
    user: LENDER,
    amount_lp_escrowed: leaving,
    amount_asset_to_withdraw_decimal_bits: total << 48n,
    withdrawable_from_ts: clock.start_s + DAY_S,
  });
  const worth = (raw) => (raw * total) / supply;
  position(LENDER, "voltr", "positions", [["supply", USDC, worth(own)]]);
  position(LENDER, "voltr", "positions", [["pending", USDC, worth(leaving)]]);
}

function exponentTokens() {
  const file = "p14-exponent_core.json";
  const program = new Program("ExponentnaRg3CQbW6dqQNZKXp7gtZ9DGMp1cwC4HAS7", file);
  const [sy, yt, pt, lp] = ["sy", "yt", "pt", "lp"].map((name) => named(`exponent-${name}`));
  const number = (value) => [value, 0, 0, 0];
  const [rate, seen] = [1_080_000_000_000n, 1_050_000_000_000n];
  const [deposited, staged, ptHeld] = [usd(3e3), usd(4), usd(1.5e3)];
  const vault = program.put(named("exponent-vault"), "Vault", 700, {
    sy_program: named("exponent-sy-program"),
    mint_sy: sy,
    mint_yt: yt,
    mint_pt: pt,
    start_ts: clock.start_s,
    duration: 90 * DAY_S,
    last_seen_sy_exchange_rate: number(rate),
    all_time_high_sy_exchange_rate: number(rate),
    final_sy_exchange_rate: number(rate),
    total_sy_in_escrow: usd(9e6),
    sy_for_pt: usd(8e6),
    pt_supply: usd(8.6e6),
    interest_bps_fee: 500,
  });
  mint(sy, "Standardized yield", "SY", 6, usd(20e6), []);
  mint(yt, "Yield token", "YT", 6, usd(8.6e6), []);
  mint(pt, "Principal token", "PT", 6, usd(8.6e6), [[LENDER, ptHeld]]);
  program.put(named("exponent-yield"), "YieldTokenPosition", 124, {
    owner: STAKER,
    vault,
    yt_balance: deposited,
    interest: { last_seen_index: number(seen), staged },
  });
  const half = ONE / 2n;
  const grown = (ONE * ONE + half) / seen - (ONE * ONE + half) / rate;
  const earned = (grown * deposited) / ONE + staged;
  const fee = (earned * 500n + 9_999n) / 10_000n;
  position(STAKER, "exponent", "positions", [["supply", yt, deposited], ["reward", sy, earned - fee]]);
  position(LENDER, "exponent", "positions", [["supply", pt, ptHeld]]);

  const [inPt, inSy, issued, own, farmed] = [usd(2e6), usd(1.5e6), usd(3e6), usd(2.4e3), usd(7)];
  const market = program.put(named("exponent-market"), "MarketTwo", 700, {
    mint_pt: pt,
    mint_sy: sy,
    vault,
    mint_lp: lp,
    status_flags: 63,
    financials: { expiration_ts: BigInt(clock.start_s + 90 * DAY_S), pt_balance: inPt, sy_balance: inSy },
    lp_farm: {
      last_seen_timestamp: clock.start_s,
      farm_emissions: [{ mint: USDC, token_rate: 100, expiry_timestamp: clock.start_s, index: number(0n) }],
    },
    lp_escrow_amount: usd(1e6),
  });
  mint(lp, "Exponent LP", "xLP", 6, issued, [[TRADER, own]]);
  program.put(named("exponent-lp-position"), "LpPosition", 168, {
    owner: STAKER,
    market,
    lp_balance: own,
    farms: { trackers: [{ last_seen_index: number(0n), staged: farmed }] },
  });
  const shares = [["supply", pt, (inPt * own) / issued], ["supply", sy, (inSy * own) / issued]];
  position(TRADER, "exponent", "positions", shares);
  position(STAKER, "exponent", "positions", [...shares, ["reward", USDC, farmed]]);
}

function exponentTicks() {
  const program = new Program("XPC1MM4dYACDfykNuXYZ5una2DsMDWL24CrYubCvarC");
  const [pt, sy] = [named("exponent-v2-pt"), named("exponent-v2-sy")];
  mint(pt, "Principal token, second", "PT2", 6, usd(5e6), []);
  mint(sy, "Standardized yield, second", "SY2", 6, usd(5e6), []);
  const [market, ticks] = [named("exponent-v2-market"), named("exponent-v2-ticks")];
  program.placed(market, 1_700, "f2f01a0f94bab9cd", { 72: pt, 104: sy, 392: ticks });
  // Two intervals between three ticks, which are a tree with the middle one on top.
  const nodes = [
    { links: [2, 3, 0], apy: 800, rate: 1.08, pt: usd(400e3), sy: usd(100e3), shares: usd(900e3) * ONE },
    { links: [0, 0, 1], apy: 500, rate: 1.05, pt: 0n, sy: usd(600e3), shares: usd(700e3) * ONE },
    { links: [0, 0, 1], apy: 1_200, rate: 1.12, pt: 0n, sy: 0n, shares: 0n },
  ];
  const data = Buffer.alloc(360_136);
  Buffer.from("0a66fba1e757abe3", "hex").copy(data);
  data.writeUInt32LE(1, 8);
  nodes.forEach((node, index) => {
    const at = 40 + 360 * index;
    node.links.forEach((link, number) => data.writeUInt32LE(link, at + 4 * number));
    data.writeUInt32LE(node.apy, at + 16);
    data.writeDoubleLE(node.rate, at + 80);
    data.writeBigUInt64LE(node.pt, at + 88);
    data.writeBigUInt64LE(node.sy, at + 96);
    wide(node.shares, 256).copy(data, at + 104);
    data.writeUInt32LE(0xffffffff, at + 352);
  });
  market.toBuffer().copy(data, 360_040);
  program.raw(ticks, data);
  const own = usd(1.8e3) * ONE;
  const share = (left, right) =>
    Buffer.concat([wide(left, 32), wide(right, 32), wide(0, 64), wide(own, 256), wide(0, 32)]);
  const head = [wide(usd(1.8e3), 64), wide(0, 128), wide(2, 32), wide(3, 32), wide(0, 32), wide(2, 32)];
  program.placed(named("exponent-v2-position"), 720, "69f125c8e002fc5a", {
    8: TRADER,
    40: market,
    104: Buffer.concat([...head, share(2, 1), share(1, 3)]),
  });
  const worth = (name) => nodes.slice(0, 2).reduce((sum, node) => sum + (node[name] * own) / node.shares, 0n);
  const fees = [["reward", pt, null], ["reward", sy, null]];
  position(TRADER, "exponent", "v2/liquidity", [["supply", pt, worth("pt")], ["supply", sy, worth("sy")], ...fees]);
}

function exponentVaults() {
  const program = new Program("sVau1tXvayVWfotzm9Ahcv2qfnnfRWttt78BCnNC6dD");
  const shares = named("exponent-strategy-shares");
  const [own, leaving, filled] = [usd(1.4e3), usd(300), usd(120)];
  mint(shares, "Exponent strategy", "xsUSDC", 6, usd(2e6), [[STAKER, own]]);
  const entry = Buffer.concat([USDC.toBuffer(), Buffer.from([0]), wide(1, 64), Buffer.alloc(72), wide(0, 32)]);
  const vault = program.placed(named("exponent-strategy"), 1_200, "62e427c974d2270b", {
    104: Buffer.concat([wide(1, 32), entry, USDC.toBuffer(), shares.toBuffer()]),
  });
  program.placed(named("exponent-withdrawal"), 280, "63aeee9ab0cc14f6", {
    8: vault,
    40: STAKER,
    72: leaving + filled,
    80: leaving,
    88: Buffer.concat([wide(1, 32), USDC.toBuffer(), named("exponent-strategy-usdc").toBuffer(), wide(filled, 64)]),
  });
  position(STAKER, "exponent", "v2/strategy-vaults", [["supply", shares, own]]);
  position(STAKER, "exponent", "v2/strategy-vaults", [["pending", USDC, filled], ["pending", shares, leaving]]);
}

function parcl() {
  const program = new Program("3parcLrT7WnXAcyPfkCz49oofuuf2guUKkjuFkAhZW8Y");
  const staking = new Program("2gWf5xLAzZaKX9tQj9vuXsaxTWtzTZDFRn21J3zjNVgu");
  const exchange = program.placed(named("parcl-exchange"), 984, "1ec8dc95033d6832", {
    64: usd(9e6),
    72: usd(8.7e6),
    104: 7 * DAY_S,
    770: Buffer.from([250, 255]),
    772: USDC,
  });
  // Positions of 64 bytes: size, price, funding, market.
  const bet = (size, price, market) =>
    Buffer.concat([wide(size, 128), wide(price, 128), Buffer.alloc(24), wide(market, 32), Buffer.alloc(4)]);
  program.placed(named("parcl-margin"), 904, "85dcadd5b3d32bee", {
    8: Buffer.concat([bet(2_500_000n, 31_250_000_000n, 4n), bet(-1_200_000n, 128_900_000_000n, 9n)]),
    776: usd(850),
    796: exchange,
    828: TRADER,
    860: TRADER,
  });
  position(TRADER, "parcl", "positions", [["supply", USDC, usd(850)]]);
  for (let each = 0; each < 2; each += 1) position(TRADER, "parcl", "positions", [["pending", USDC, null]]);
  program.placed(named("parcl-lp"), 112, "69f125c8e002fc5a", {
    16: usd(2e3),
    24: usd(1.95e3),
    32: clock.start_s + 5 * DAY_S,
    40: exchange,
    72: STAKER,
  });
  program.placed(named("parcl-request"), 144, "8c83dbe1c97a54fa", {
    16: clock.start_s + DAY_S,
    24: usd(410),
    40: exchange,
    72: STAKER,
    104: named("parcl-owner-usdc"),
  });
  position(STAKER, "parcl", "lp", [["locked", USDC, null]]);
  position(STAKER, "parcl", "lp", [["pending", USDC, usd(410)]]);
  const prcl = new PublicKey("4LLbsb5ReP3yEtYzmXewyGjcir5uXtKFURtaEUVC2AHs");
  mint(prcl, "Parcl", "PRCL", 6, usd(1e9), []);
  const stake = staking.placed(named("parcl-stake"), 4_040, "55c3f14f7cc04f0b", { 8: STAKER });
  balance(staking.derived("custody", stake), prcl, staking.derived("authority", stake), usd(5.5e3));
  position(STAKER, "parcl", "staking", [["supply", prcl, usd(5.5e3)]]);
}

module.exports = [tokens, voltr, exponentTokens, exponentTicks, exponentVaults, parcl];
