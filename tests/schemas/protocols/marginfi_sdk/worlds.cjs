// node worlds.cjs <count>: writes one world a line, {account, banks: {address: data}, answers},
// accounts encoded by Anchor's coder with the SDK's IDL, answers computed by the SDK.
// node worlds.cjs real: reads {banks: {address: data}, accounts: [data]} and writes a world of each
// account with those of its banks, and then ten of random balances in each bank.
const { BN, BorshAccountsCoder } = require("@coral-xyz/anchor");
const { PublicKey } = require("@solana/web3.js");
const BigNumber = require("bignumber.js").default ?? require("bignumber.js");
const dist = "@mrgnlabs/marginfi-client-v2/dist";
const { MARGINFI_IDL } = require(`${dist}/idl`);
const { Bank } = require(`${dist}/models/bank`);
const { MarginfiAccount, MarginRequirementType } = require(`${dist}/models/account`);
const { computeInterestRates } = require(`${dist}/services/bank`);
BigNumber.config({ DECIMAL_PLACES: 60 });

const { convertIdlToCamelCase } = require("@coral-xyz/anchor/dist/cjs/idl");
const idl = convertIdlToCamelCase(MARGINFI_IDL); // as the SDK hands it around
const coder = new BorshAccountsCoder(idl);
const SIZES = { bank: 1864, marginfiAccount: 2312 };
const nameOf = (kind) => [...coder.accountLayouts.keys()].find((n) => n.toLowerCase() === kind.toLowerCase());
function empty(kind) {
  const name = nameOf(kind);
  const data = Buffer.alloc(SIZES[kind]);
  coder.accountDiscriminator(name).copy(data);
  return coder.decode(name, data);
}
function encode(kind, account) {
  const name = nameOf(kind);
  const data = Buffer.alloc(SIZES[kind]);
  const body = Buffer.alloc(SIZES[kind]);
  const size = coder.accountLayouts.get(name).encode(account, body);
  coder.accountDiscriminator(name).copy(data);
  body.copy(data, 8, 0, size);
  return data;
}
let state = 0n;
const word = () => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return state >> 20n;
};
const below = (n) => Number(word() % BigInt(n));
const wrapped = (value) => ({ value: [...new BN(value.toString()).toArrayLike(Buffer, "le", 16)] });
const fixed = (whole, parts) => (BigInt(whole) << 48n) + BigInt(parts);
const fraction = () => word() << 4n; // below 1

function bank(group, decimals) {
  const one = empty("bank");
  one.mint = new PublicKey(Buffer.from(Array.from({ length: 32 }, () => below(256))));
  one.mintDecimals = decimals;
  one.group = group;
  one.assetShareValue = wrapped(fixed(1, fraction() / 3n));
  one.liabilityShareValue = wrapped(fixed(1, fraction() / 2n));
  const total = 10n ** 12n + (word() % 10n ** 14n);
  one.totalAssetShares = wrapped(total << 48n);
  one.totalLiabilityShares = wrapped(((total * BigInt(below(80))) / 100n) << 48n);
  one.lastUpdate = new BN(1763000000);
  const assetWeight = fixed(0, fraction());
  one.config.assetWeightMaint = wrapped(assetWeight);
  one.config.liabilityWeightMaint = wrapped(fixed(1, fraction() / 2n));
  const curve = one.config.interestRateConfig;
  curve.insuranceIrFee = wrapped(fraction() / 8n);
  curve.protocolIrFee = wrapped(fraction() / 8n);
  curve.protocolFixedFeeApr = wrapped(fraction() / 50n);
  curve.zeroUtilRate = below(2 ** 20);
  curve.points[0] = { util: 2 ** 30 + below(2 ** 30), rate: 2 ** 24 + below(2 ** 24) };
  curve.points[1] = { util: 3 * 2 ** 30 + below(2 ** 28), rate: 2 ** 26 + below(2 ** 26) };
  curve.hundredUtilRate = 2 ** 29 + below(2 ** 29);
  curve.curveType = 1;
  const price = fixed(below(300) + 1, fraction());
  const confidence = price / BigInt(20 + below(2000));
  one.cache.lastOraclePrice = wrapped(price);
  one.cache.lastOraclePriceConfidence = wrapped(confidence);
  return one;
}
const whole = (scaled) => new BigNumber(scaled.toString()).div(new BigNumber(2).pow(48));

function begin(seed) {
  state = BigInt(seed + 1) * 1234567891n;
  for (let warm = 0; warm < 8; warm += 1) word();
}

function say(data, banks) {
  const group = new PublicKey(data.subarray(8, 40));
  const sdkBanks = new Map();
  const prices = new Map();
  for (const [address, of] of Object.entries(banks)) {
    const bytes = Buffer.from(of, "base64");
    sdkBanks.set(address, Bank.fromBuffer(new PublicKey(address), bytes, idl, {}));
    const { cache } = coder.decode(nameOf("bank"), bytes);
    const [price, confidence] = [cache.lastOraclePrice, cache.lastOraclePriceConfidence].map(
      ({ value }) => BigInt(new BN(value, "le").toString()),
    );
    const side = {
      price: whole(price),
      confidence: whole(confidence),
      lowestPrice: whole(price - confidence),
      highestPrice: whole(price + confidence),
    };
    prices.set(address, { priceRealtime: side, priceWeighted: side, timestamp: new BigNumber(0) });
  }
  const parsed = MarginfiAccount.fromAccountDataRaw(group, data, idl);
  parsed.balances = parsed.balances.filter((each) => sdkBanks.has(each.bankPk.toBase58()));
  const active = parsed.balances.filter((each) => each.active);
  const { assets, liabilities } = parsed.computeHealthComponentsLegacy(
    sdkBanks, prices, MarginRequirementType.Maintenance);
  const answers = active.map((balance) => {
    const of = sdkBanks.get(balance.bankPk.toBase58());
    const quantity = balance.computeQuantity(of);
    const rates = computeInterestRates(of);
    return {
      bank: balance.bankPk.toBase58(),
      supplied: quantity.assets.toFixed(40),
      borrowed: quantity.liabilities.toFixed(40),
      lending: rates.lendingRate.toFixed(30),
      borrowing: rates.borrowingRate.toFixed(30),
      weights: [of.config.assetWeightMaint, of.config.liabilityWeightMaint].map((each) => each.toFixed(60)),
    };
  });
  const health = { assets: assets.toFixed(30), liabilities: liabilities.toFixed(30) };
  console.log(JSON.stringify({ account: data.toString("base64"), banks, answers, health }));
}

function balanceOf(account, n, key) {
  const shares = wrapped(((word() % 10n ** 12n) << 48n) + fraction());
  const balance = account.lendingAccount.balances[n];
  Object.assign(balance, { active: 1, bankPk: key });
  if (n % 2) balance.liabilityShares = shares;
  else balance.assetShares = shares;
}

function real({ banks, accounts }) {
  for (const each of accounts) say(Buffer.from(each, "base64"), banks);
  Object.keys(banks).forEach((address, number) => {
    for (let seed = 0; seed < 10; seed += 1) {
      begin(10 * number + seed);
      const account = empty("marginfiAccount");
      account.authority = new PublicKey(Buffer.alloc(32, 1));
      [0, 1].forEach((n) => balanceOf(account, n + (seed % 2), new PublicKey(address)));
      say(encode("marginfiAccount", account), { [address]: banks[address] });
    }
  });
}

if (process.argv[2] === "real") real(JSON.parse(require("node:fs").readFileSync(0, "utf8")));
for (let seed = 0; seed < Number(process.argv[2]); seed += 1) {
  begin(seed);
  const group = new PublicKey(Buffer.alloc(32, 9));
  const account = empty("marginfiAccount");
  account.group = group;
  account.authority = new PublicKey(Buffer.alloc(32, 1));
  const banks = {};
  for (let n = 0; n < 2 + below(4); n += 1) {
    const key = new PublicKey(Buffer.alloc(32, 20 + n));
    banks[key.toBase58()] = encode("bank", bank(group, [6, 9, 8, 5][below(4)])).toString("base64");
    balanceOf(account, n, key);
  }
  say(encode("marginfiAccount", account), banks);
}
