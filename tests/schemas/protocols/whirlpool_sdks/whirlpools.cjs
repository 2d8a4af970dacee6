// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"ticks": [n]}  -> {"roots": [text]}: square roots of prices, Q64
//   {"seed": n}     -> a random world: accounts by address, base64, and what the SDK says of them
//   {"seed": n, "pool"?: [address, base64], "arrays"?: [base64], "own"?: base64} -> one in which the
//                      pool, arrays of ticks and the position are these
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

const NO_REWARD = decoder.decode(new Uint8Array(32));
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

const bytes = (text) => Buffer.from(text, "base64");

function arrayOf(data) {
  if (data.length === client.getFixedTickArraySize()) {
    return client.getFixedTickArrayDecoder().decode(data);
  }
  const array = client.getDynamicTickArrayDecoder().decode(data);
  const ticks = array.ticks.map((each) =>
    each.__kind === "Initialized" ? { initialized: true, ...each.fields[0] } : empty,
  );
  return { ...array, ticks };
}

// Growths of the lower tick with which a position has earned so much since it was last written.
function outsideOf(lower, current, whole, over, target) {
  return (current >= lower ? whole - over - target : over + target) & MASK;
}

async function world({ seed, pool: given, arrays = [], own }) {
  const random = chance(seed);
  const real = given && client.getWhirlpoolDecoder().decode(bytes(given[1]));
  const recorded = new Map(
    arrays.map((each) => {
      const array = arrayOf(bytes(each));
      return [array.startTickIndex, { array, each }];
    }),
  );
  const held = own && client.getPositionDecoder().decode(bytes(own));
  const spacing = real?.tickSpacing ?? SPACINGS[random.below(SPACINGS.length)];
  const recordedAt = (index) => {
    const start = core.getTickArrayStartTickIndex(index, spacing);
    return recorded.get(start)?.array.ticks[core.getTickIndexInArray(index, start, spacing)];
  };
  const last = Math.floor(LAST / spacing);
  const near = seed % 2 ? Math.min(last, 400) : last;
  const ends = held ? [held.tickLowerIndex / spacing, held.tickUpperIndex / spacing] : [];
  for (const { array } of held ? [] : recorded.values()) {
    ends.push(array.startTickIndex / spacing + array.ticks.findIndex((each) => each.initialized));
  }
  while (ends.length < 2) {
    const end = random.below(2 * near + 1) - near;
    if (end !== ends[0] && recordedAt(end * spacing) === undefined) ends.push(end);
  }
  const [lower, upper] = ends.sort((a, b) => a - b).map((each) => each * spacing);
  const spans = [-LAST, lower, upper, LAST];
  const part = random.below(3);
  const span = spans[part + 1] - spans[part];
  const anywhere = Math.min(spans[part] + random.below(Math.max(span, 1)), LAST - 1);
  const current = real?.tickCurrentIndex ?? anywhere;
  const from = core.tickIndexToSqrtPrice(current);
  const to = core.tickIndexToSqrtPrice(current + 1);
  const between = random.below(8) ? from + (random.bits(120) % (to - from)) : from;
  const sqrtPrice = real?.sqrtPrice ?? between;
  const whirlpool = given?.[0] ?? random.key();
  const mint = held?.positionMint ?? random.key();
  const poolLiquidity = random.below(10) ? random.bits(20 + random.below(70)) : 0n;
  const ticks = [lower, upper].map((each) => recordedAt(each) ?? tick(random));
  const pool = real ?? {
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
  let liquidity = held?.liquidity ?? (random.below(12) ? random.bits(30 + random.below(60)) : 0n);
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
  if (held && !recordedAt(lower)) {
    ["A", "B"].forEach((each) => {
      const target = held[`feeGrowthCheckpoint${each}`] + since();
      const [name, over] = [`feeGrowthOutside${each}`, ticks[1][`feeGrowthOutside${each}`]];
      ticks[0][name] = outsideOf(lower, current, pool[`feeGrowthGlobal${each}`], over, target);
    });
  }
  const position = held ?? {
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
  const bundleIndex = seed % 5 || held ? undefined : random.below(256);
  const [address] =
    bundleIndex === undefined
      ? await client.getPositionAddress(mint)
      : await client.getBundledPositionAddress(mint, bundleIndex);
  const accounts = {
    [address]: own ?? base64(client.getPositionEncoder().encode(position)),
    [whirlpool]: given?.[1] ?? base64(client.getWhirlpoolEncoder().encode(pool)),
  };
  const isLocked = random.below(3) === 0 && !held;
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
    if (recorded.has(start)) {
      accounts[at] = recorded.get(start).each;
      continue;
    }
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
    ).filter(([each]) => each !== NO_REWARD),
    ticks: [lower, upper, current],
  };
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const answer = asked.ticks
      ? { roots: asked.ticks.map((each) => core.tickIndexToSqrtPrice(each).toString()) }
      : await world(asked);
    console.log(JSON.stringify(answer));
  }
}

main();
