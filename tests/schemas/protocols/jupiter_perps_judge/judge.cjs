// Runs in a checkout of Jupiter's published examples for its perpetuals, with what they depend on
// and tsx installed: reads {"position", "custody", "now_s"} a line, accounts in base64, and writes
// [borrow fee, closing fee], text in millionths of a dollar. The closing fee is null where the
// examples end in an error, as they do wherever it is more than linear.
const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");

const theirs = createRequire(`${process.cwd()}/judge.cjs`);
const { BN } = theirs("@coral-xyz/anchor");
const { JUPITER_PERPETUALS_PROGRAM: program, RATE_POWER } = theirs("./src/constants.ts");
const { getCumulativeInterest } = theirs("./src/examples/get-borrow-fee-and-funding-rate.ts");
const { getAdditivePriceImpactFeeBps, TradePoolType } = theirs("./src/examples/price-impact-fee.ts");
const { divCeil } = theirs("./src/utils.ts");

function closing(position, custody, now) {
  const way = TradePoolType.Decrease;
  try {
    const fee = getAdditivePriceImpactFeeBps(custody.decreasePositionBps, position.sizeUsd, way, custody, now);
    return fee.positionFeeUsd.toString();
  } catch {
    return null;
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const asked = JSON.parse(line);
  const read = (name, data) => program.coder.accounts.decode(name, Buffer.from(data, "base64"));
  const [position, custody] = [read("position", asked.position), read("custody", asked.custody)];
  const now = new BN(asked.now_s);
  const since = getCumulativeInterest(custody, now).sub(position.cumulativeInterestSnapshot);
  const borrow = divCeil(since.mul(position.sizeUsd), RATE_POWER).toString();
  process.stdout.write(`${JSON.stringify([borrow, closing(position, custody, now)])}\n`);
});
