// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"ticks": [n]}  -> {"roots": [text]}: square roots of prices, Q64
//   {"seed": n}     -> a random world: accounts by address, base64, and what the SDK says of them
const readline = require("node:readline");
const client = require("@orca-so/whirlpools-client");
const core = require("@orca-so/whirlpools-core");
const { getAddressDecoder } = require("@solana/kit");

const MASK = (1n << 128n) - 1n;
const SPACINGS = [1, 2, 4, 8, 16, 64, 96, 128, 256, 32896];
const LAST = 443636;
const decoder = getAddressDecoder();

function chance(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  const word = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const bits = (count) => {
    let value = 0n;
    for (let each = 0; each < 4; each++) value = (value << 32n) | BigInt(word());
    return value & ((1n << BigInt(count)) - 1n);
  };
  const below = (count) => word() % count;
  const key = () => decoder.decode(Uint8Array.from({ length: 32 }, () => below(256)));
  return { bits, below, key };
}

function inside(current, lower, upper, whole, outsideLower, outsideUpper) {
  const under = current >= lower ? outsideLower : whole - outsideLower;
  const over = current < upper ? outsideUpper : whole - outsideUpper;
  return (whole - under - over) & MASK;
}

const tick = (random) => ({
  initialized: true,
  liquidityNet: random.bits(100),
  liquidityGross: random.bits(100) + 1n,
  feeGrowthOutsideA: random.bits(128),
  feeGrowthOutsideB: random.bits(128),
  rewardGrowthsOutside: [random.bits(128), random.bits(128), random.bits(128)],
});

const empty = {
  initialized: false,
  liquidityNet: 0n,
  liquidityGross: 0n,
  feeGrowthOutsideA: 0n,
  feeGrowthOutsideB: 0n,
  rewardGrowthsOutside: [0n, 0n, 0n],
};

const base64 = (bytes) => Buffer.from(bytes).toString("base64");

async function world(seed) {
  const random = chance(seed);
  const spacing = SPACINGS[random.below(SPACINGS.length)];
  const last = Math.floor(LAST / spacing);
  const near = seed % 2 ? Math.min(last, 400) : last;
  const ends = [random.below(2 * near + 1) - near, random.below(2 * near + 1) - near];
  if (ends[0] === ends[1]) ends[1] = ends[0] === near ? -near : ends[0] + 1;
  const [lower, upper] = ends.sort((a, b) => a - b).map((each) => each * spacing);
  const spans = [-LAST, lower, upper, LAST];
  const part = random.below(3);
  const span = spans[part + 1] - spans[part];
  const current = Math.min(spans[part] + random.below(Math.max(span, 1)), LAST - 1);
  const from = core.tickIndexToSqrtPrice(current);
  const to = core.tickIndexToSqrtPrice(current + 1);
  const sqrtPrice = random.below(8) ? from + (random.bits(120) % (to - from)) : from;
  const whirlpool = random.key();
  const mint = random.key();
  const poolLiquidity = random.below(10) ? random.bits(20 + random.below(70)) : 0n;
  const ticks = [tick(random), tick(random)];
  const pool = {
    whirlpoolsConfig: random.key(),
    whirlpoolBump: new Uint8Array([255]),
    tickSpacing: spacing,
    feeTierIndexSeed: new Uint8Array([spacing & 255, spacing >> 8]),
    feeRate: 300,
    protocolFeeRate: 300,
    liquidity: poolLiquidity,
    sqrtPrice,
    tickCurrentIndex: current,
    protocolFeeOwedA: random.bits(60),
    protocolFeeOwedB: random.bits(60),
    tokenMintA: random.key(),
    tokenVaultA: random.key(),
    feeGrowthGlobalA: random.bits(128),
    tokenMintB: random.key(),
    tokenVaultB: random.key(),
    feeGrowthGlobalB: random.bits(128),
    rewardLastUpdatedTimestamp: 1_700_000_000n + random.bits(24),
    rewardInfos: [0, 1, 2].map(() => ({
      mint: random.key(),
      vault: random.key(),
      extension: new Uint8Array(32),
      emissionsPerSecondX64: random.below(4) ? random.bits(40 + random.below(44)) : 0n,
      growthGlobalX64: random.bits(127),
    })),
  };
  let liquidity = random.below(12) ? random.bits(30 + random.below(60)) : 0n;
  let amounts;
  for (;;) {
    try {
      amounts = core.decreaseLiquidityQuote(liquidity, 0, sqrtPrice, lower, upper);
      break;
    } catch {
      liquidity >>= 4n; // its tokens are more than a u64 has
    }
  }
  const grown = (whole, name, at) =>
    inside(
      current,
      lower,
      upper,
      whole,
      at === undefined ? ticks[0][name] : ticks[0][name][at],
      at === undefined ? ticks[1][name] : ticks[1][name][at],
    );
  const since = () => random.bits(20 + random.below(40));
  const position = {
    whirlpool,
    positionMint: mint,
    liquidity,
    tickLowerIndex: lower,
    tickUpperIndex: upper,
    feeGrowthCheckpointA: (grown(pool.feeGrowthGlobalA, "feeGrowthOutsideA") - since()) & MASK,
    feeOwedA: random.bits(40),
    feeGrowthCheckpointB: (grown(pool.feeGrowthGlobalB, "feeGrowthOutsideB") - since()) & MASK,
    feeOwedB: random.bits(40),
    rewardInfos: pool.rewardInfos.map((each, at) => ({
      growthInsideCheckpoint:
        (grown(each.growthGlobalX64, "rewardGrowthsOutside", at) - since()) & MASK,
      amountOwed: random.bits(40),
    })),
  };
  const bundleIndex = seed % 5 ? undefined : random.below(256);
  const [address] =
    bundleIndex === undefined
      ? await client.getPositionAddress(mint)
      : await client.getBundledPositionAddress(mint, bundleIndex);
  const accounts = {
    [address]: base64(client.getPositionEncoder().encode(position)),
    [whirlpool]: base64(client.getWhirlpoolEncoder().encode(pool)),
  };
  const isLocked = random.below(3) === 0;
  if (isLocked) {
    const [lock] = await client.getLockConfigAddress(address);
    accounts[lock] = base64(
      client.getLockConfigEncoder().encode({
        position: address,
        positionOwner: random.key(),
        whirlpool,
        lockedTimestamp: 1n,
        lockType: 0,
      }),
    );
  }
  const placed = new Map();
  [lower, upper].forEach((index, number) => {
    const start = core.getTickArrayStartTickIndex(index, spacing);
    if (!placed.has(start)) {
      const some = () => (random.below(4) ? empty : tick(random));
      placed.set(start, Array.from({ length: 88 }, some));
    }
    placed.get(start)[core.getTickIndexInArray(index, start, spacing)] = ticks[number];
  });
  for (const [start, all] of placed) {
    const [at] = await client.getTickArrayAddress(whirlpool, start);
    const array = { startTickIndex: start, whirlpool };
    if (random.below(2)) {
      accounts[at] = base64(client.getFixedTickArrayEncoder().encode({ ...array, ticks: all }));
      continue;
    }
    const dynamic = all.map((each) =>
      each.initialized
        ? client.dynamicTick("Initialized", [each])
        : client.dynamicTick("Uninitialized"),
    );
    const encoded = { ...array, tickBitmap: 0n, ticks: dynamic };
    accounts[at] = base64(client.getDynamicTickArrayEncoder().encode(encoded));
  }
  const now = pool.rewardLastUpdatedTimestamp + random.bits(18);
  const fees = core.collectFeesQuote(pool, position, ...ticks);
  const rewards = core.collectRewardsQuote(pool, position, ...ticks, now);
  const lines = (mints, raw) => mints.map((each, at) => [each, raw[at].toString()]);
  return {
    accounts,
    position: address,
    mint,
    isBundled: bundleIndex !== undefined,
    isLocked,
    now: Number(now),
    market: whirlpool,
    status: core.positionStatus(sqrtPrice, lower, upper),
    amounts: lines([pool.tokenMintA, pool.tokenMintB], [amounts.tokenEstA, amounts.tokenEstB]),
    owed: lines(
      [pool.tokenMintA, pool.tokenMintB, ...pool.rewardInfos.map((each) => each.mint)],
      [fees.feeOwedA, fees.feeOwedB, ...rewards.rewards.map((each) => each.rewardsOwed)],
    ),
    ticks: [lower, upper, current],
  };
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const answer = asked.ticks
      ? { roots: asked.ticks.map((each) => core.tickIndexToSqrtPrice(each).toString()) }
      : await world(asked.seed);
    console.log(JSON.stringify(answer));
  }
}

main();
