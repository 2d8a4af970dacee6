// Bets against pools: Jupiter Perps by its IDL; Adrena, which publishes none, at the offsets of its
// code (1.3.8). Oracles have a price of ten years later, which no reading finds too old.
const { PublicKey } = require("@coral-xyz/anchor").web3;

const FRESH_S = 10 * 365 * 86_400;
const DOLLARS = 1_000_000n;
const SOL_AT = 150n; // dollars
const ADX = new PublicKey("AuQaustGiaqxRvj2gtCdrd22PBzTn8kM3kEPEkZCtuDw");
const ALP = new PublicKey("4yCLi5yWGzpTWMQ1iWHG5CrGYAdBkhyEdsuSugjDUqwj");

const down = (over, under) => over / under;
const up = (over, under) => (over + under - 1n) / under;

module.exports = ({ Program, named, mint, position, startS, usd, sol, SOL, USDC, TRADER, STAKER }) => {
  const solsDown = (micros) => down(micros * 10n ** 9n, SOL_AT * DOLLARS);
  const solsUp = (micros) => up(micros * 10n ** 9n, SOL_AT * DOLLARS);

  function jupiterPerps() {
    const doves = new Program("DoVEsk76QybCEHQGzkvYPWLQu9gzNoZZZt3TPiL597e", "p09-jupiter_doves_oracle.json");
    const perps = new Program("PERPHjGBqRHArX4DySjwM6UJHiR3sWAatqfdBS2qQJu", "p09-jupiter_perpetuals.json");
    const pool = named("jupiter-perps-pool");
    const feed = (of, price) =>
      doves.put(doves.derived("ag_feed", of), "AgPriceFeed", 266, {
        mint: of,
        price: price * 10n ** 8n,
        expo: -8,
        timestamp: startS() + FRESH_S,
      });
    const snapshot = 500_000_000n;
    const custody = (name, of, decimals, isStable, price, grown) =>
      perps.put(named(`jupiter-perps-${name}`), "Custody", 2000, {
        pool,
        mint: of,
        decimals,
        is_stable: isStable,
        pricing: { trade_impact_fee_scalar: usd(3.75e9), max_leverage: 5_000_000 },
        assets: { owned: usd(400e6), locked: usd(120e6) },
        funding_rate_state: { cumulative_interest_rate: snapshot + grown, last_update: startS() },
        decrease_position_bps: 6,
        jump_rate_state: {
          min_rate_bps: 1_000,
          max_rate_bps: 15_000,
          target_rate_bps: 3_500,
          target_utilization_rate: 800_000_000,
        },
        doves_ag_oracle: feed(of, price),
      });
    const sols = custody("sol", SOL, 9, false, SOL_AT, 2_000_000n);
    const dollars = custody("usdc", USDC, 6, true, 1n, 1_000_000n);
    const bet = (name, side, lender, size, kept, price) =>
      perps.put(named(`jupiter-perps-${name}`), "Position", 216, {
        owner: TRADER,
        pool,
        custody: sols,
        collateral_custody: lender,
        open_time: startS() - 86_400,
        side,
        price,
        size_usd: size,
        collateral_usd: kept,
        cumulative_interest_snapshot: snapshot,
      });
    // 7 bps of 9,000 dollars to close, and 0.2 % of it for what was lent
    bet("long", "Long", sols, usd(9e3), usd(1.5e3), usd(125));
    position(TRADER, "jupiter_perps", "positions", [
      ["supply", SOL, solsDown(usd(1.5e3))],
      ["pending", SOL, solsDown(usd(1.8e3))],
      ["borrow", SOL, solsUp(usd(18))],
      ["borrow", SOL, solsUp(usd(6.3))],
    ]);
    bet("short", "Short", dollars, usd(4e3), usd(1e3), usd(128));
    position(TRADER, "jupiter_perps", "positions", [
      ["supply", USDC, usd(1e3)],
      ["borrow", USDC, usd(687.5)],
      ["borrow", USDC, usd(4)],
      ["borrow", USDC, usd(2.8)],
    ]);
  }

  function adrena() {
    const program = new Program("13gDzEXCdocbj8iAiqrScGo47NiSuYENGsRqi3SEAwet");
    const bytes = (tag, size, fields) => {
      const data = Buffer.alloc(size);
      data.write(tag, "hex");
      for (const [at, value] of fields) {
        if (value instanceof PublicKey) value.toBuffer().copy(data, at);
        else if (typeof value === "string") data.write(value, at) && data.writeUInt8(value.length, at + 31);
        else data.writeBigInt64LE(BigInt(value), at);
      }
      return data;
    };
    const u8 = (data, at, value) => data.writeUInt8(value, at) && data;
    const pool = named("adrena-pool");
    const custody = named("adrena-sol");
    const price = SOL_AT * 10n ** 10n;
    const quote = [[24, price], [32, 0], [40, startS() + FRESH_S], [56, "SOLUSD"]];
    const oracle = bytes("8bc283b38cb3e5f4", 1304, quote);
    oracle.writeInt32LE(-10, 48);
    program.raw(program.derived("oracle"), oracle);
    const fields = [[16, pool], [48, SOL], [112, "SOLUSD"], [144, "SOLUSD"]];
    const rate = [[792, 40_000n], [800, startS()], [816, 7_000_000n]];
    const custodyData = u8(bytes("01b830515d833f91", 824, [...fields, ...rate]), 12, 9);
    custodyData.writeUInt32LE(1_000_000, 180);
    program.raw(custody, custodyData);
    const [size, kept, entry] = [usd(6e3), usd(1.2e3), 160n * 10n ** 10n];
    const bet = [
      ...[[16, TRADER], [48, pool], [80, custody], [112, custody], [144, startS() - 86_400]],
      ...[[160, entry], [168, size], [176, size], [184, kept], [192, usd(1)], [208, 5_000_000n]],
      ...[[216, sol(37.5)], [224, sol(7.5)], [232, usd(9.6)], [240, usd(12)]],
    ];
    program.raw(named("adrena-long"), u8(bytes("aabc8fe47a40f7d0", 288, bet), 9, 1));
    position(TRADER, "adrena", "positions", [
      ["supply", SOL, solsDown(kept)],
      ["borrow", SOL, solsUp(usd(375))],
      ["borrow", SOL, solsUp(usd(13))], // 0.2 % since the snapshot, and what was booked
      ["borrow", SOL, solsUp(usd(9.6))],
    ]);
    const stakes = (of, liquid, locked) => {
      const places = locked.flatMap(([amount, end], n) => [[64 + 120 * n, amount], [88 + 120 * n, end]]);
      const at = program.derived("user_staking", STAKER, program.derived("staking", of));
      program.raw(at, bytes("2253ca5d19f33f36", 3904, [[24, liquid], ...places]));
    };
    const year = startS() + 365 * 86_400;
    stakes(ADX, usd(2_500), [[usd(10e3), year], [usd(500), startS() - 60]]);
    stakes(ALP, 0n, [[usd(800), year]]);
    position(STAKER, "adrena", "staking", [["supply", ADX, usd(3e3)], ["locked", ADX, usd(10e3)]]);
    position(STAKER, "adrena", "staking", [["locked", ALP, usd(800)]]);
    mint(ADX, "Adrena", "ADX", 6, usd(600e6), []);
    mint(ALP, "Adrena liquidity provider", "ALP", 6, usd(12e6), []);
  }

  return [jupiterPerps, adrena];
};
