// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"dlmm": seed}   -> a random pair, its bin arrays and a position, encoded by Anchor's coder, and
//                       what the SDK's processPosition computes of them
//   {"damm": seed}   -> likewise a pool, a position and a vesting of DAMM v2, and its pure functions
//   {"pool": base64, "seed": n}  -> like "damm", with a recorded pool
//   {"bins": base64 of a pair, "arrays": [base64], "lower": n, "upper": n, "now": s}
//                    -> a position in recorded bins, which has a share of each
// Accounts are {name: base64}, addresses base58, amounts texts.
const readline = require("node:readline");
const anchor = require("@coral-xyz/anchor");
const { convertIdlToCamelCase } = require("@coral-xyz/anchor/dist/cjs/idl");
const BN = require("bn.js");
const { PublicKey, Keypair } = require("@solana/web3.js");
const dlmm = require("@meteora-ag/dlmm");
const damm = require("@meteora-ag/cp-amm-sdk");

const DLMM = new PublicKey("LBUZKhRxPF3XUpBCjp4YzTKgLccjZhTSDM9YuVaPwxo");
const program = dlmm.createProgram({ rpcEndpoint: "" });
const CP_IDL = convertIdlToCamelCase(damm.CpAmmIdl);
const dlmmCoder = new anchor.BorshCoder(program.idl);
const dammCoder = new anchor.BorshCoder(CP_IDL);

function dice(seed) {
  let state = (Math.imul(seed + 1, 2654435761) + 12345) >>> 0;
  const word = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const bits = (n) => {
    let value = new BN(0);
    for (let at = 0; at < n; at += 32) value = value.shln(32).add(new BN(word()));
    return value.maskn(n);
  };
  return {
    below: (n) => word() % n,
    bits: (n) => bits(n - (word() % Math.max(1, n >> 1))),
    key: () => new PublicKey(Buffer.from(Array.from({ length: 32 }, () => word() & 255))),
  };
}

// A value of a type of the IDL: zeros, and nobody's keys.
function zero(idl, type) {
  if (typeof type === "string") {
    if (type === "pubkey") return PublicKey.default;
    if (/^[ui](64|128)$/.test(type)) return new BN(0);
    return type === "bool" ? false : 0;
  }
  if (type.array) return Array.from({ length: type.array[1] }, () => zero(idl, type.array[0]));
  const named = idl.types.find((each) => each.name === type.defined.name);
  return Object.fromEntries(named.type.fields.map((each) => [each.name, zero(idl, each.type)]));
}

// Anchor's encoder has a buffer of 1,000 bytes; an account here has up to 10,136.
function encode(coder, idl, name, value) {
  const buffer = Buffer.alloc(20000);
  const size = coder.accounts.accountLayouts.get(name).layout.encode(value, buffer);
  const tag = Buffer.from(idl.accounts.find((each) => each.name === name).discriminator);
  return Buffer.concat([tag, buffer.subarray(0, size)]);
}

const text = (data) => data.toString("base64");

function pair(random, now) {
  const idl = program.idl;
  const lbPair = zero(idl, { defined: { name: "lbPair" } });
  lbPair.tokenXMint = random.key();
  lbPair.tokenYMint = random.key();
  lbPair.binStep = 1 + random.below(400);
  lbPair.activationType = random.below(2);
  lbPair.parameters.functionType = random.below(3);
  for (const reward of lbPair.rewardInfos) {
    if (random.below(3) === 0) continue;
    reward.mint = random.key();
    reward.rewardRate = random.bits(40).shln(64);
    reward.lastUpdateTime = new BN(now - random.below(100000));
    reward.rewardDurationEnd = reward.lastUpdateTime.addn(random.below(200000));
  }
  return lbPair;
}

async function dlmmWorld(seed) {
  const random = dice(seed);
  const now = 1763000000 + random.below(1000000);
  const slot = 380000000 + random.below(1000);
  const idl = program.idl;
  const lbPair = pair(random, now);
  const width = seed % 4 === 0 ? 71 + random.below(200) : 1 + random.below(70);
  const lower = random.below(2000) - 1000;
  const upper = lower + width - 1;
  lbPair.activeId = lower - 5 + random.below(width + 10);
  const position = zero(idl, { defined: { name: "positionV2" } });
  Object.assign(position, { lbPair: random.key(), owner: random.key(), lowerBinId: lower, upperBinId: upper });
  if (random.below(4) === 0) position.feeOwner = random.key();
  if (random.below(3) === 0)
    position.lockReleasePoint = new BN(lbPair.activationType ? now : slot).addn(random.below(2000) - 1000);
  const arrays = new Map();
  for (let index = Math.floor(lower / 70); index <= Math.floor(upper / 70); index++) {
    const array = zero(idl, { defined: { name: "binArray" } });
    array.index = new BN(index);
    array.lbPair = position.lbPair;
    arrays.set(index, array);
  }
  const more = [];
  for (let number = 0; number < width; number++) {
    const binId = lower + number;
    const index = Math.floor(binId / 70);
    const bin = arrays.get(index).bins[binId - index * 70];
    bin.amountX = random.bits(64);
    bin.amountY = random.bits(64);
    bin.liquiditySupply = random.bits(50).addn(1).shln(64).add(random.bits(64));
    for (const name of ["feeAmountXPerTokenStored", "feeAmountYPerTokenStored"]) bin[name] = random.bits(80);
    for (const name of ["fulfilledOrderAmountX", "limitOrderFeeAskSide"]) bin[name] = random.bits(64);
    for (const name of ["fulfilledOrderAmountY", "limitOrderFeeBidSide"]) bin[name] = random.bits(10);
    const share = random.below(5) ? bin.liquiditySupply.divn(1 + random.below(1000)) : new BN(0);
    if (random.below(10) === 0) bin.liquiditySupply = new BN(share.isZero() ? 0 : bin.liquiditySupply);
    const fee = {
      feeXPerTokenComplete: bin.feeAmountXPerTokenStored.divn(1 + random.below(9)),
      feeYPerTokenComplete: bin.feeAmountYPerTokenStored.divn(1 + random.below(9)),
      feeXPending: random.bits(40),
      feeYPending: random.bits(40),
    };
    const stored = (low, high) => high.shln(64).add(low);
    const reward = {
      rewardPerTokenCompletes: [
        stored(bin.fulfilledOrderAmountX, bin.fulfilledOrderAmountY).divn(1 + random.below(9)),
        stored(bin.limitOrderFeeAskSide, bin.limitOrderFeeBidSide).divn(1 + random.below(9)),
      ],
      rewardPendings: [random.bits(40), random.bits(40)],
    };
    if (number < 70) {
      position.liquidityShares[number] = share;
      position.feeInfos[number] = fee;
      position.rewardInfos[number] = reward;
    } else more.push({ liquidityShare: share, rewardInfo: reward, feeInfo: fee });
  }
  const coder = dlmmCoder;
  const tail = more.map((each) => coder.types.encode("positionBinData", each));
  const data = Buffer.concat([encode(coder, idl, "positionV2", position), ...tail]);
  const encoded = { [position.lbPair.toBase58()]: text(encode(coder, idl, "lbPair", lbPair)) };
  for (const [index, array] of arrays) {
    const [address] = dlmm.deriveBinArray(position.lbPair, new BN(index), DLMM);
    encoded[address.toBase58()] = text(encode(coder, idl, "binArray", array));
  }
  return judged(data, position.lbPair, encoded, now, slot);
}

async function judged(data, pairAddress, encoded, now, slot) {
  const known = Object.entries(encoded).map(([address, each]) => [address, Buffer.from(each, "base64")]);
  const lbPair = dlmm.decodeAccount(program, "lbPair", Buffer.from(encoded[pairAddress.toBase58()], "base64"));
  const arrays = new Map(
    known.filter(([, each]) => each.length === 10136)
      .map(([address, each]) => [address, dlmm.decodeAccount(program, "binArray", each)]),
  );
  const wrapped = dlmm.wrapPosition(program, Keypair.generate().publicKey, { data });
  const clock = { unixTimestamp: new BN(now), slot: new BN(slot), epoch: new BN(800) };
  const mint = { decimals: 6, tlvData: Buffer.alloc(0), address: PublicKey.default };
  const read = await dlmm.processPosition(
    program, lbPair, clock, wrapped, mint, mint, mint, mint, arrays);
  const point = lbPair.activationType === 0 ? slot : now;
  return {
    position: text(data),
    accounts: encoded,
    owner: read.owner.toBase58(),
    fee_owner: read.feeOwner.toBase58(),
    now, slot,
    x: read.totalXAmount, y: read.totalYAmount,
    fee_x: read.feeX.toString(), fee_y: read.feeY.toString(),
    rewards: [read.rewardOne.toString(), read.rewardTwo.toString()],
    reward_mints: lbPair.rewardInfos.map((each) => each.mint.toBase58()),
    mints: [lbPair.tokenXMint.toBase58(), lbPair.tokenYMint.toBase58()],
    lower: read.lowerBinId, upper: read.upperBinId, active: lbPair.activeId,
    is_locked: wrapped.lockReleasePoint().gt(new BN(point)),
    price_q64: [read.lowerBinId, read.upperBinId, lbPair.activeId]
      .map((each) => dlmm.getQPriceFromId(new BN(each), new BN(lbPair.binStep)).toString()),
  };
}

async function recorded(asked) {
  const random = dice(asked.lower + 5000);
  const idl = program.idl;
  const position = zero(idl, { defined: { name: "positionV2" } });
  const address = new PublicKey(asked.address);
  Object.assign(position, { lbPair: address, owner: random.key(), lowerBinId: asked.lower, upperBinId: asked.upper });
  const encoded = { [asked.address]: asked.bins };
  for (const each of asked.arrays) {
    const array = dlmm.decodeAccount(program, "binArray", Buffer.from(each, "base64"));
    encoded[dlmm.deriveBinArray(address, array.index, DLMM)[0].toBase58()] = each;
    for (let id = asked.lower; id <= asked.upper; id++) {
      const place = id - array.index.toNumber() * 70;
      if (place < 0 || place >= 70) continue;
      const bin = array.bins[place];
      position.liquidityShares[id - asked.lower] = bin.liquiditySupply.divn(1 + random.below(7));
      position.feeInfos[id - asked.lower].feeXPerTokenComplete = bin.feeAmountXPerTokenStored.divn(2);
    }
  }
  return judged(encode(dlmmCoder, idl, "positionV2", position), address, encoded, asked.now, 400000000);
}

const U256 = (value) => Array.from(value.toArrayLike(Buffer, "le", 32));

function randomPool(random, now) {
  const pool = zero(CP_IDL, { defined: { name: "pool" } });
  Object.assign(pool, {
    tokenAMint: random.key(), tokenBMint: random.key(), liquidity: random.bits(120).addn(1),
    activationType: random.below(2), collectFeeMode: random.below(3), tokenAAmount: random.bits(60).addn(1),
    tokenBAmount: random.bits(60).addn(1), feeAPerLiquidity: U256(random.bits(70)), feeBPerLiquidity: U256(random.bits(60)),
  });
  const [low, mid, high] = [random.bits(90), random.bits(90), random.bits(90)].sort((a, b) => a.cmp(b));
  Object.assign(pool, { sqrtMinPrice: low.addn(1), sqrtPrice: mid.addn(1), sqrtMaxPrice: high.addn(1) });
  for (const reward of pool.rewardInfos) {
    if (random.below(3) === 0) continue;
    Object.assign(reward, {
      initialized: 1, mint: random.key(), rewardRate: random.bits(90), rewardPerTokenStored: U256(random.bits(135)),
      lastUpdateTime: new BN(now - random.below(100000)),
    });
    reward.rewardDurationEnd = reward.lastUpdateTime.addn(random.below(200000));
  }
  return pool;
}

function dammWorld(seed, real) {
  const random = dice(seed);
  const idl = CP_IDL;
  const coder = dammCoder;
  const now = 1763000000 + random.below(1000000) + (real ? 100000000 : 0);
  const slot = 380000000 + random.below(1000);
  const pool = real ? coder.accounts.decode("pool", real) : randomPool(random, now);
  const point = pool.activationType ? now : slot;
  const schedule = () => {
    const inner = zero(idl, { defined: { name: "innerVesting" } });
    Object.assign(inner, {
      cliffPoint: new BN(point - 500 + random.below(1000)), periodFrequency: new BN(random.below(100)),
      cliffUnlockLiquidity: random.bits(90), liquidityPerPeriod: random.bits(80), numberOfPeriod: random.below(20),
    });
    const free = damm.getAvailableVestingLiquidity({ innerVesting: inner }, new BN(point));
    inner.totalReleasedLiquidity = free.divn(1 + random.below(4));
    return inner;
  };
  const vesting = zero(idl, { defined: { name: "vesting" } });
  vesting.position = random.key();
  const vestings = [];
  if (random.below(2)) vestings.push((vesting.innerVesting = schedule()));
  const position = zero(idl, { defined: { name: "position" } });
  if (random.below(2)) vestings.push((position.innerVesting = schedule()));
  const left = (each) => damm.getTotalLockedLiquidity({ innerVesting: each }).sub(each.totalReleasedLiquidity);
  Object.assign(position, {
    pool: random.key(), nftMint: random.key(), feeAPending: random.bits(40), feeBPending: random.bits(40),
    feeAPerTokenCheckpoint: U256(random.bits(66)), feeBPerTokenCheckpoint: U256(random.bits(50)),
    unlockedLiquidity: random.bits(110), permanentLockedLiquidity: random.below(2) ? random.bits(110) : new BN(0),
    vestedLiquidity: vestings.reduce((sum, each) => sum.add(left(each)), new BN(0)),
  });
  for (const reward of position.rewardInfos)
    Object.assign(reward, { rewardPendings: random.bits(40), rewardPerTokenCheckpoint: U256(random.bits(110)) });
  const data = {
    pool: real ?? encode(coder, idl, "pool", pool), position: encode(coder, idl, "position", position),
    vesting: encode(coder, idl, "vesting", vesting),
  };
  const read = (name) => coder.accounts.decode(name, data[name]);
  const [ofPool, ofPosition] = [read("pool"), read("position")];
  const claim = damm.getUnClaimLpFee(ofPool, ofPosition, new BN(now));
  const amounts = (liquidity) => [
    damm.getAmountAFromLiquidityDelta(ofPool.sqrtPrice, ofPool.sqrtMaxPrice, liquidity, damm.Rounding.Down,
      ofPool.collectFeeMode, ofPool.tokenAAmount, ofPool.liquidity).toString(),
    damm.getAmountBFromLiquidityDelta(ofPool.sqrtMinPrice, ofPool.sqrtPrice, liquidity, damm.Rounding.Down,
      ofPool.collectFeeMode, ofPool.tokenBAmount, ofPool.liquidity).toString(),
  ];
  const locks = vestings.filter((each) => !left(each).isZero()).map((each) => [
    left(each).toString(),
    damm.getAvailableVestingLiquidity({ innerVesting: each }, new BN(point)).toString(),
    each.cliffPoint.add(each.periodFrequency.muln(each.numberOfPeriod)).toString(),
  ]);
  const free = locks.reduce((sum, each) => sum.add(new BN(each[1])), ofPosition.unlockedLiquidity);
  return {
    pool: text(data.pool), position: text(data.position), vesting: text(data.vesting),
    pool_address: ofPosition.pool.toBase58(), nft: ofPosition.nftMint.toBase58(),
    position_address: vesting.position.toBase58(), now, slot,
    all: amounts(damm.positionLiquidity(ofPosition)), free: amounts(free),
    fees: [claim.feeTokenA.toString(), claim.feeTokenB.toString()],
    rewards: claim.rewards.map((each) => each.toString()),
    reward_mints: ofPool.rewardInfos.map((each) => (each.initialized ? each.mint.toBase58() : null)),
    mints: [ofPool.tokenAMint.toBase58(), ofPool.tokenBMint.toBase58()],
    locks, permanent: ofPosition.permanentLockedLiquidity.toString(), by_slot: ofPool.activationType === 0,
    sqrt_price: ofPool.sqrtPrice.toString(), mode: ofPool.collectFeeMode,
  };
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    const answer = asked.damm !== undefined ? dammWorld(asked.damm)
      : asked.pool !== undefined ? dammWorld(asked.seed, Buffer.from(asked.pool, "base64"))
      : asked.dlmm !== undefined ? await dlmmWorld(asked.dlmm) : await recorded(asked);
    console.log(JSON.stringify(answer));
  }
}

main();
