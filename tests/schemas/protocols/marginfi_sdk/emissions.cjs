// node emissions.cjs <count>: writes one balance a line, {bank, supplied, borrowed, updated_s, time_s,
// earned}: a bank encoded by Anchor's coder with the SDK's IDL, what was earned computed by the SDK.
const { BN, BorshAccountsCoder } = require("@coral-xyz/anchor");
const { convertIdlToCamelCase } = require("@coral-xyz/anchor/dist/cjs/idl");
const { PublicKey } = require("@solana/web3.js");
const BigNumber = require("bignumber.js").default ?? require("bignumber.js");
const dist = "@mrgnlabs/marginfi-client-v2/dist";
const { MARGINFI_IDL } = require(`${dist}/idl`);
const { Bank } = require(`${dist}/models/bank`);
const { Balance } = require(`${dist}/models/balance`);
BigNumber.config({ DECIMAL_PLACES: 60 });

const SIZE = 1864;
const idl = convertIdlToCamelCase(MARGINFI_IDL); // as the SDK hands it around
const coder = new BorshAccountsCoder(idl);
const kind = [...coder.accountLayouts.keys()].find((each) => each.toLowerCase() === "bank");
let state = 0n;
const word = () => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return state >> 20n;
};
const below = (n) => Number(word() % BigInt(n));
const wrapped = (value) => ({ value: [...new BN(value.toString()).toArrayLike(Buffer, "le", 16)] });
const scaled = (value) => new BigNumber(value.toString()).div(new BigNumber(2).pow(48));

for (let seed = 0; seed < Number(process.argv[2]); seed += 1) {
  state = BigInt(seed + 1) * 1234567891n;
  for (let warm = 0; warm < 8; warm += 1) word();
  const data = Buffer.alloc(SIZE);
  coder.accountDiscriminator(kind).copy(data);
  const one = coder.decode(kind, data);
  one.mint = one.emissionsMint = new PublicKey(Buffer.alloc(32, 7));
  one.mintDecimals = [6, 9, 8, 5][below(4)];
  one.assetShareValue = wrapped((1n << 48n) + (word() << 3n));
  one.liabilityShareValue = wrapped((1n << 48n) + (word() << 2n));
  one.flags = new BN([1, 2, 0, 18][below(4)]);
  one.emissionsRate = new BN(below(2 ** 30));
  one.emissionsRemaining = wrapped(word() << BigInt(below(50)));
  const body = Buffer.alloc(SIZE);
  const size = coder.accountLayouts.get(kind).encode(one, body);
  body.copy(data, 8, 0, size);
  const shares = ((word() % 10n ** 12n) << 48n) + (word() << 4n);
  const [supplied, borrowed] = one.flags.toNumber() === 1 ? [0n, shares] : [shares, 0n];
  const key = new PublicKey(Buffer.alloc(32, 20));
  const updated = 1700000000 + below(2 ** 25);
  const time = updated + below(2 ** 25);
  const balance = new Balance(true, key, scaled(supplied), scaled(borrowed), scaled(0), updated);
  const earned = balance.computeClaimedEmissions(Bank.fromBuffer(key, data, idl, {}), time);
  console.log(JSON.stringify({
    bank: data.toString("base64"), supplied: `${supplied}`, borrowed: `${borrowed}`,
    updated_s: updated, time_s: time, earned: earned.toFixed(40),
  }));
}
