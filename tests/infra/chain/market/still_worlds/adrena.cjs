// Adrena's bets and stakes. It publishes no IDL: fields are at the offsets of its code (1.3.8). The
// oracle has a price of ten years later, which no reading finds too old.
const { clock, DAY_S, mint, named, position, Program, sol, SOL, STAKER, TRADER, usd } = require("./world.cjs");
const { PublicKey } = require("@coral-xyz/anchor").web3;

const FRESH_S = 10 * 365 * DAY_S;
const DOLLARS = 1_000_000n;
const SOL_AT = 150n; // dollars
const ADX = new PublicKey("AuQaustGiaqxRvj2gtCdrd22PBzTn8kM3kEPEkZCtuDw");
const ALP = new PublicKey("4yCLi5yWGzpTWMQ1iWHG5CrGYAdBkhyEdsuSugjDUqwj");

const solsDown = (micros) => (micros * 10n ** 9n) / (SOL_AT * DOLLARS);
const solsUp = (micros) => (micros * 10n ** 9n + SOL_AT * DOLLARS - 1n) / (SOL_AT * DOLLARS);

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
  const quote = [[24, price], [32, 0], [40, clock.start_s + FRESH_S], [56, "SOLUSD"]];
  const oracle = bytes("8bc283b38cb3e5f4", 1304, quote);
  oracle.writeInt32LE(-10, 48);
  program.raw(program.derived("oracle"), oracle);
  const fields = [[16, pool], [48, SOL], [112, "SOLUSD"], [144, "SOLUSD"]];
  const rate = [[792, 40_000n], [800, clock.start_s], [816, 7_000_000n]];
  const custodyData = u8(bytes("01b830515d833f91", 824, [...fields, ...rate]), 12, 9);
  custodyData.writeUInt32LE(1_000_000, 180);
  program.raw(custody, custodyData);
  const [size, kept, entry] = [usd(6e3), usd(1.2e3), 160n * 10n ** 10n];
  const bet = [
    ...[[16, TRADER], [48, pool], [80, custody], [112, custody], [144, clock.start_s - DAY_S]],
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
  const year = clock.start_s + 365 * DAY_S;
  stakes(ADX, usd(2_500), [[usd(10e3), year], [usd(500), clock.start_s - 60]]);
  stakes(ALP, 0n, [[usd(800), year]]);
  position(STAKER, "adrena", "staking", [["supply", ADX, usd(3e3)], ["locked", ADX, usd(10e3)]]);
  position(STAKER, "adrena", "staking", [["locked", ALP, usd(800)]]);
  mint(ADX, "Adrena", "ADX", 6, usd(600e6), []);
  mint(ALP, "Adrena liquidity provider", "ALP", 6, usd(12e6), []);
}

module.exports = [adrena];
