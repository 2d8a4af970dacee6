// Writes `count` worlds, one a line: {"position", "market", "custody", "lender", "oracle",
// "paid_in", "now_s", "profit", "loss", "lock_fee", "close", "liquidation", "exponent"}; accounts
// are base64, the SDK's answers text in millionths of a dollar, the price that liquidates a number
// with that exponent. Anchor's coder writes the accounts by the SDK's IDL.
// Oracles are at their average, stable tokens at a dollar: there the SDK takes the price as it is.
const { AnchorProvider, BN, BorshAccountsCoder, Wallet } = require("@coral-xyz/anchor");
const { Connection, Keypair, PublicKey } = require("@solana/web3.js");
const { OraclePrice, PerpetualsClient, PositionAccount } = require("flash-sdk");
const sdk = require("flash-sdk/dist/idl/perpetuals.json");

const NOW_S = 1_790_000_000;
const coder = new BorshAccountsCoder(sdk);
let state = 2718;
function byte() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 24;
}
const bytes = (n) => Buffer.from(Array.from({ length: n }, byte));
const below = (bits) => new BN(bytes(Math.ceil(bits / 8))).maskn(bits);
const upTo = (n) => below(31).toNumber() % n;
const one = (...some) => some[upTo(some.length)];
const about = (of, percent) => of.muln(1000 - 10 * percent + upTo(20 * percent)).divn(1000);

function filled(type) {
  if (type === "pubkey") return new PublicKey(bytes(32));
  if (type === "bool") return upTo(2) === 1;
  if (/^[ui](8|16|32)$/.test(type)) return 0;
  if (typeof type === "string") return new BN(0);
  if (type.array) return Array.from({ length: type.array[1] }, () => filled(type.array[0]));
  const of = sdk.types.find((each) => each.name === type.defined.name).type;
  if (of.kind === "enum") return { [of.variants[0].name]: {} };
  return Object.fromEntries(of.fields.map((f) => [f.name, filled(f.type)]));
}

function encoded(name, made) {
  const { layout, discriminator } = coder.accountLayouts.get(name);
  const body = Buffer.alloc(4096);
  return Buffer.concat([Buffer.from(discriminator), body.subarray(0, layout.encode(made, body))]);
}

function camel(value) {
  if (Array.isArray(value)) return value.map(camel);
  if (value === null || typeof value !== "object" || BN.isBN(value) || value instanceof PublicKey) return value;
  const name = (of) => of.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [name(key), camel(each)]));
}

function custodyOf(decimals, isStable) {
  const custody = filled({ defined: { name: "Custody" } });
  Object.assign(custody, { decimals, is_stable: isStable, inverse_price: false });
  custody.token_amount_multiplier = new BN(one(0, 0, 1_000_000_000, 1_234_567_890));
  Object.assign(custody.oracle, { max_divergence_bps: new BN(100), max_conf_bps: new BN(100) });
  const least = upTo(2000);
  custody.pricing.trade_spread_min = new BN(one(0, least));
  custody.pricing.trade_spread_max = new BN(one(least, least + upTo(3000)));
  custody.pricing.max_position_size_usd = below(50).addn(1);
  custody.pricing.max_leverage = 10_000 + upTo(5_000_000);
  custody.pricing.delay_seconds = new BN(upTo(30));
  custody.fees.close_position = new BN(upTo(2_000_000));
  custody.borrow_rate_state.current_rate = new BN(upTo(100_000));
  custody.borrow_rate_state.cumulative_lock_fee = below(40);
  custody.borrow_rate_state.last_update = new BN(NOW_S - upTo(4000) + 5);
  return custody;
}

function world(client) {
  const side = one("Long", "Short");
  const exponent = -one(6, 8, 9);
  const isStable = side === "Short" && upTo(4) > 0;
  const dollar = new BN(10).pow(new BN(-exponent));
  const decimals = one(5, 6, 8, 9);
  const custody = custodyOf(decimals, false);
  const isOne = side === "Long" && upTo(2) === 1;
  const lender = isOne ? custody : custodyOf(one(6, 9), isStable);
  const price = dollar.muln(1 + upTo(90_000)).divn(one(1, 100)).addn(upTo(10_000) + 1);
  const paidIn = isOne ? price : isStable ? dollar : dollar.muln(1 + upTo(300));
  const entry = about(price, 30);
  const position = filled({ defined: { name: "Position" } });
  const units = new BN(10).pow(new BN(decimals));
  position.entry_price = { price: entry, exponent };
  position.size_amount = units.muln(1 + upTo(10_000)).divn(one(1, 100, 1000)).addn(1);
  const shift = (of) => of.mul(entry).muln(1_000_000).div(units).div(dollar);
  position.size_usd = shift(position.size_amount).addn(1);
  position.collateral_usd = position.size_usd.divn(1 + upTo(100)).addn(1);
  const locked = position.size_usd.muln(one(0, 1, 2, 5)).add(position.collateral_usd);
  const lenderUnits = new BN(10).pow(new BN(lender.decimals));
  position.locked_amount = locked.mul(lenderUnits).mul(dollar).div(paidIn).divn(1_000_000);
  position.price_impact_usd = new BN(one(0, upTo(5_000_000)));
  position.unsettled_fees_usd = new BN(one(0, upTo(5_000_000)));
  const grown = lender.borrow_rate_state.cumulative_lock_fee;
  position.cumulative_lock_fee_snapshot = one(grown, grown.addn(50), BN.max(grown.sub(below(24)), new BN(0)));
  position.update_time = new BN(NOW_S - upTo(40));
  position.reference_price = { price: about(entry, 3), exponent };
  Object.assign(position, { is_active: true, size_decimals: decimals });
  const market = filled({ defined: { name: "Market" } });
  market.side = { [side]: {} };
  if (isOne) market.collateral_custody = market.target_custody;
  const oracle = (of) => {
    const made = filled({ defined: { name: "CustomOracle" } });
    const [of_price, publish_time] = [of, new BN(NOW_S)];
    return Object.assign(made, { price: of_price, expo: exponent, ema: of_price, publish_time, conf: new BN(1) });
  };

  const asked = (of) => OraclePrice.from({ price: of, exponent: new BN(exponent), confidence: new BN(1), timestamp: new BN(NOW_S) });
  const way = side === "Long" ? { long: {} } : { short: {} };
  const config = { getMarketConfigByPk: () => ({ side: way }) };
  const bet = PositionAccount.from(PublicKey.default, camel(position));
  const [target, paying] = [camel(custody), camel(lender)];
  const now = new BN(NOW_S);
  const prices = () => [asked(price), asked(price), target, asked(paidIn), asked(paidIn), paying, now];
  const metrics = client.getPositionMetrics(bet, ...prices(), config);
  const close = client.getFinalCloseAmountUsdSync(bet, true, way, ...prices(), config);
  return {
    position: encoded("Position", position).toString("base64"),
    market: encoded("Market", market).toString("base64"),
    custody: encoded("Custody", custody).toString("base64"),
    lender: encoded("Custody", lender).toString("base64"),
    oracle: encoded("CustomOracle", oracle(price)).toString("base64"),
    paid_in: encoded("CustomOracle", oracle(paidIn)).toString("base64"),
    now_s: NOW_S,
    profit: metrics.pnl.profitUsd.toString(),
    loss: metrics.pnl.lossUsd.toString(),
    lock_fee: metrics.fees.lockAndUnsettledFeeUsd.toString(),
    close: close.closeAmountUsd.toString(),
    liquidation: metrics.liquidationPrice.price.toString(),
    exponent,
  };
}

const wallet = new Wallet(Keypair.fromSeed(new Uint8Array(32)));
const provider = new AnchorProvider(new Connection("http://localhost:1"), wallet, {});
const programs = [sdk.address, PublicKey.default, PublicKey.default, PublicKey.default];
const client = new PerpetualsClient(provider, ...programs.map((each) => new PublicKey(each)), {});
for (let n = 0; n < Number(process.argv[2]); n += 1) {
  process.stdout.write(`${JSON.stringify(world(client))}\n`);
}
