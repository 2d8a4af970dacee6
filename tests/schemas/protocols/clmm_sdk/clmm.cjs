// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"ticks": [n]}  -> {"roots": [text]}: square roots of prices, Q64
//   {"seed": n}     -> a random world: accounts by address (deflated, base64), and what the SDK
//                      says of them
//   {"seed": n, "pool": [address, base64], "array"?: base64} -> one in which the pool and an array
//                      of ticks, in which the lower end is, are these
const readline = require("node:readline");
const crypto = require("node:crypto");
const zlib = require("node:zlib");
const BN = require("bn.js");
const { PublicKey } = require("@solana/web3.js");
const sdk = require("@raydium-io/raydium-sdk-v2");

const PROGRAM = sdk.CLMM_PROGRAM_ID;
const LOCKS = sdk.CLMM_LOCK_PROGRAM_ID;
const LAST = 443636;
const SPACINGS = [1, 2, 4, 5, 10, 60, 100, 120, 500];
const MASK = (1n << 128n) - 1n;
const big = (value) => new BN(value.toString());
const root = (tick) => BigInt(sdk.TickUtil.getSqrtPriceAtTick(tick).toString());

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
  const key = () => new PublicKey(Uint8Array.from({ length: 32 }, () => below(256)));
  return { bits, below, key };
}

function inside(current, lower, upper, whole, outsideLower, outsideUpper) {
  const under = current >= lower ? outsideLower : whole - outsideLower;
  const over = current < upper ? outsideUpper : whole - outsideUpper;
  return (whole - under - over) & MASK;
}

const packed = (data) => zlib.deflateSync(data).toString("base64");

function encoded(layout, name, fields) {
  const data = Buffer.alloc(layout.span);
  layout.encode(fields, data);
  crypto.createHash("sha256").update(`account:${name}`).digest().copy(data, 0, 0, 8);
  return packed(data);
}

function tick(index, random) {
  const of = (count) => big(random ? random.bits(count) : 0n);
  return {
    tick: index,
    liquidityNet: of(100),
    liquidityGross: of(100),
    feeGrowthOutsideX64A: of(128),
    feeGrowthOutsideX64B: of(128),
    rewardGrowthsOutsideX64: [of(128), of(128), of(128)],
  };
}

const bytes = (text) => Buffer.from(text, "base64");

async function world({ seed, pool: given, array: recorded }) {
  const random = chance(seed);
  const real = given && sdk.PoolInfoLayout.decode(bytes(given[1]));
  const array = recorded && sdk.TickArrayLayout.decode(bytes(recorded));
  const spacing = real?.tickSpacing ?? SPACINGS[random.below(SPACINGS.length)];
  const last = Math.floor(LAST / spacing);
  const near = seed % 2 ? Math.min(last, 400) : last;
  const first = array && array.startTickIndex / spacing;
  const ends = array
    ? [first + random.below(60), first + 60 + random.below(last - first - 60)]
    : [random.below(2 * near + 1) - near, random.below(2 * near + 1) - near];
  if (ends[0] === ends[1]) ends[1] = ends[0] === near ? -near : ends[0] + 1;
  const [lower, upper] = ends.sort((a, b) => a - b).map((each) => each * spacing);
  const spans = [-LAST, lower, upper, LAST];
  const part = random.below(3);
  const span = spans[part + 1] - spans[part];
  const anywhere = Math.min(spans[part] + random.below(Math.max(span, 1)), LAST - 1);
  const current = real?.tickCurrent ?? anywhere;
  const from = root(current);
  const sqrtPrice = from + (random.bits(120) % (root(current + 1) - from));
  const poolId = given ? new PublicKey(given[0]) : random.key();
  const nft = random.key();
  const ticks = [
    array ? array.ticks[(lower - array.startTickIndex) / spacing] : tick(lower, random),
    tick(upper, random),
  ];
  const updated = 1_700_000_000n + random.bits(24);
  const pool = real ?? {
    bump: 1,
    mintA: random.key(),
    mintB: random.key(),
    mintDecimalsA: random.below(10),
    mintDecimalsB: random.below(10),
    tickSpacing: spacing,
    liquidity: big(random.below(10) ? random.bits(20 + random.below(70)) : 0n),
    sqrtPriceX64: big(sqrtPrice),
    tickCurrent: current,
    feeGrowthGlobalX64A: big(random.bits(128)),
    feeGrowthGlobalX64B: big(random.bits(128)),
    rewardInfos: [0, 1, 2].map(() => ({
      state: 2,
      openTime: big(updated - 1000n + random.bits(16)),
      endTime: big(updated + random.bits(18)),
      lastUpdateTime: big(updated),
      emissionsPerSecondX64: big(random.below(4) ? random.bits(40 + random.below(44)) : 0n),
      totalEmissioned: big(random.below(4) ? random.bits(50) : (1n << 64n) - 2n - random.bits(20)),
      claimed: big(random.bits(40)),
      mint: random.key(),
      vault: random.key(),
      creator: random.key(),
      growthGlobalX64: big(random.bits(127)),
    })),
  };
  let liquidity = random.below(12) ? random.bits(30 + random.below(60)) : 0n;
  let amounts;
  for (;;) {
    const [under, over] = [big(root(lower)), big(root(upper))];
    const at = pool.sqrtPriceX64;
    try {
      amounts = sdk.LiquidityMathUtil.getAmountsForLiquidity(at, under, over, big(liquidity), false);
      break;
    } catch {
      liquidity >>= 4n; // its tokens are more than a u64 has
    }
  }
  const since = (whole, outside) =>
    big(
      (inside(current, lower, upper, ...[whole, ...outside].map((each) => BigInt(each.toString()))) -
        random.bits(20 + random.below(40))) &
        MASK,
    );
  const position = {
    bump: 1,
    nftMint: nft,
    poolId,
    tickLower: lower,
    tickUpper: upper,
    liquidity: big(liquidity),
    feeGrowthInsideLastX64A: since(
      pool.feeGrowthGlobalX64A,
      ticks.map((each) => each.feeGrowthOutsideX64A),
    ),
    feeGrowthInsideLastX64B: since(
      pool.feeGrowthGlobalX64B,
      ticks.map((each) => each.feeGrowthOutsideX64B),
    ),
    tokenFeesOwedA: big(random.bits(40)),
    tokenFeesOwedB: big(random.bits(40)),
    rewardInfos: pool.rewardInfos.map((each, at) => ({
      growthInsideLastX64: since(
        each.growthGlobalX64,
        ticks.map((one) => one.rewardGrowthsOutsideX64[at]),
      ),
      rewardAmountOwed: big(random.bits(40)),
    })),
  };
  const address = sdk.getPdaPersonalPositionAddress(PROGRAM, nft).publicKey.toBase58();
  const accounts = {
    [address]: encoded(sdk.PersonalPositionLayout, "PersonalPositionState", position),
    [poolId.toBase58()]: given
      ? packed(bytes(given[1]))
      : encoded(sdk.PoolInfoLayout, "PoolState", pool),
  };
  const placed = new Map();
  [lower, upper].forEach((index, number) => {
    const start = Math.floor(index / (60 * spacing)) * 60 * spacing;
    if (!placed.has(start)) placed.set(start, Array.from({ length: 60 }, () => tick(0)));
    placed.get(start)[(index - start) / spacing] = ticks[number];
  });
  for (const [start, all] of placed) {
    const at = sdk.getPdaTickArrayAddress(PROGRAM, poolId, start).publicKey.toBase58();
    const made = { poolId, startTickIndex: start, ticks: all, initializedTickCount: 2 };
    accounts[at] =
      start === array?.startTickIndex
        ? packed(bytes(recorded))
        : encoded(sdk.TickArrayLayout, "TickArrayState", made);
  }
  let [held, mint] = [address, nft];
  const isLocked = random.below(3) === 0;
  if (isLocked) {
    mint = random.key();
    held = sdk.getPdaLockClPositionIdV2(LOCKS, mint).publicKey.toBase58();
    accounts[held] = encoded(sdk.LockClPositionLayoutV2, "LockedClmmPositionState", {
      bump: 1,
      lockOwner: random.key(),
      poolId,
      positionId: new PublicKey(address),
      nftAccount: random.key(),
      lockNftMint: mint,
    });
  }
  const now = Number(BigInt(real?.rewardInfos[0].lastUpdateTime ?? updated) + random.bits(18));
  const programs = { rewardDefaultInfos: [0, 1, 2].map(() => ({ mint: { programId: PROGRAM } })) };
  // Those of a reward that has emitted all that u64 counts are left out: there is none here.
  const rewardInfos = await sdk.PoolUtil.updatePoolRewardInfos({
    apiPoolInfo: programs,
    chainTime: now,
    poolLiquidity: pool.liquidity,
    rewardInfos: pool.rewardInfos,
  });
  const fees = sdk.PositionUtils.GetPositionFees(pool, position, ...ticks);
  const rewards = sdk.PositionUtils.GetPositionRewards({ ...pool, rewardInfos }, position, ...ticks);
  const mints = [pool.mintA, pool.mintB, ...pool.rewardInfos.map((each) => each.mint)];
  const lines = (raw) =>
    raw
      .map((each, at) => [mints[at], each.toString()])
      .filter(([each]) => !each.equals(PublicKey.default)) // a reward that the pool does not have
      .map(([each, amount]) => [each.toBase58(), amount]);
  return {
    accounts,
    held,
    mint: mint.toBase58(),
    isLocked,
    now,
    amounts: lines([amounts.amountA, amounts.amountB]),
    owed: lines([fees.tokenFeeAmountA, fees.tokenFeeAmountB, ...rewards]),
    before: lines([
      position.tokenFeesOwedA,
      position.tokenFeesOwedB,
      ...position.rewardInfos.map((each) => each.rewardAmountOwed),
    ]),
    ticks: [lower, upper, current],
  };
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const answer = asked.ticks
      ? { roots: asked.ticks.map((each) => root(each).toString()) }
      : await world(asked);
    console.log(JSON.stringify(answer));
  }
}

main();
