// Writes `count` worlds, one a line: {"is_old", "root", "ticks": [[index, left, right, parent, rate,
// pt, sy, shares, epoch, split parent, its epoch]], "shares": [[left, right, epoch, raw]],
// "pt", "sy"}; integers are text, rates doubles.
// Intervals are split as the program does: the new tick has the epoch of the one that it splits,
// whose own is one more. `pt` and `sy` are what a withdrawal of all liquidity pays by the SDK, null
// where it refuses.
const path = require("node:path");
const root = path.dirname(require.resolve("@exponent-labs/market-three-math/package.json"));
const { getPtAndSyOnWithdrawLiquidity } = require(path.join(root, "build", "withdrawLiquidity.js"));

const ONE = 10n ** 12n;
const NONE = 0xffffffff;
let state = 1414;
function word() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 8;
}
const upTo = (n) => word() % n;
const large = (bits) => {
  let value = 0n;
  for (let at = 0; at < bits; at += 24) value = (value << 24n) | BigInt(word());
  return value & ((1n << BigInt(bits)) - 1n);
};

function tick(rate) {
  return {
    impliedRate: rate,
    apyBasePoints: 1 + Math.floor(rate * 1e4),
    principalPt: large(20 + upTo(36)),
    principalSy: large(20 + upTo(36)),
    principalShareSupply: 0n,
    emissions: [],
    lastSplitEpoch: 0n,
    splitParentIdx: NONE,
    splitParentEpoch: 0n,
    isInitialized: true,
  };
}

// A tree over ticks of ascending rates, of any form: nothing here depends on its balance.
function planted(ticks, order, parent) {
  if (order.length === 0) return 0;
  const middle = upTo(order.length);
  const index = order[middle];
  const left = planted(ticks, order.slice(0, middle), index);
  const right = planted(ticks, order.slice(middle + 1), index);
  ticks[index - 1].treeNode = { left, right, parent, colorOrFree: 0 };
  return index;
}

function made() {
  const ticks = Array.from({ length: 2 + upTo(5) }, (_, at) => tick(1.01 + at / 50 + word() / 2 ** 32));
  let order = ticks.map((_, at) => at + 1); // ascending by rate
  const trackers = [];
  const take = () => {
    const at = upTo(order.length - 1);
    const lpShare = large(30 + upTo(60));
    const [tickIdx, rightTickIdx] = [order[at], order[at + 1]];
    trackers.push({ tickIdx, rightTickIdx, splitEpoch: ticks[tickIdx - 1].lastSplitEpoch, lpShare, emissions: [] });
  };
  const split = () => {
    const at = upTo(order.length - 1);
    const [left, right] = [ticks[order[at] - 1], ticks[order[at + 1] - 1]];
    const added = tick(left.impliedRate + (right.impliedRate - left.impliedRate) * ((1 + upTo(98)) / 100));
    added.splitParentIdx = order[at];
    added.splitParentEpoch = left.lastSplitEpoch;
    added.lastSplitEpoch = left.lastSplitEpoch;
    left.lastSplitEpoch += 1n;
    ticks.push(added);
    order = [...order.slice(0, at + 1), ticks.length, ...order.slice(at + 1)];
  };
  for (let step = 0; step < 3 + upTo(9); step += 1) (upTo(3) ? split : take)();
  take();
  for (const each of ticks) each.principalShareSupply = large(70) + trackers.reduce((sum, { lpShare }) => sum + lpShare, 0n);
  if (upTo(9) === 0) ticks[upTo(ticks.length)].principalShareSupply = 0n;
  const planted_at = planted(ticks, order, 0);
  return { ticks: { ticksTree: ticks, currentTick: 1 }, root: planted_at, shareTrackers: trackers };
}

function worthOf({ ticks, shareTrackers }) {
  const position = { lpBalance: 1n, shareTrackers };
  try {
    return getPtAndSyOnWithdrawLiquidity({ trackers: [] }, ticks, position, 1n);
  } catch (error) {
    if (!`${error}`.includes("WithdrawLiquidityInvariantViolated")) throw error;
    return { totalPtOut: null, totalSyOut: null };
  }
}

for (let count = Number(process.argv[2]); count > 0; count -= 1) {
  const world = made();
  const shares = world.shareTrackers.map((each) => [each.tickIdx, each.rightTickIdx, `${each.splitEpoch}`, `${each.lpShare}`]);
  const rows = world.ticks.ticksTree.map((each, at) => [
    at + 1,
    each.treeNode.left,
    each.treeNode.right,
    each.treeNode.parent,
    each.impliedRate,
    `${each.principalPt}`,
    `${each.principalSy}`,
    `${each.principalShareSupply}`,
    `${each.lastSplitEpoch}`,
    each.splitParentIdx,
    `${each.splitParentEpoch}`,
  ]);
  const isOld = rows.every((row) => row[9] === NONE);
  const { totalPtOut: pt, totalSyOut: sy } = worthOf(world);
  const answer = { is_old: isOld, root: world.root, ticks: rows, shares, pt: pt === null ? null : `${pt}`, sy: sy === null ? null : `${sy}` };
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
