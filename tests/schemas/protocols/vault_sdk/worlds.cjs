// Worlds of a vault and its reserves: Anchor's coder writes their bytes, klend-sdk says what a
// share is worth. Reads {"idls": [lend, vault], "seeds": [...]}, writes a world a line.
const fs = require("node:fs");
const { deflateSync } = require("node:zlib");
const { createRequire } = require("node:module");

const from = createRequire(`${process.argv[2] ?? process.cwd()}/`);
const { BorshAccountsCoder, BN, web3 } = from("@coral-xyz/anchor");
const sdk = from("@kamino-finance/klend-sdk");
const Decimal = from("decimal.js");
Decimal.set({ precision: 80 });

const { idls, seeds } = JSON.parse(fs.readFileSync(0, "utf8"));
const [lend, kvault] = idls.map((path) => {
  const idl = JSON.parse(fs.readFileSync(path, "utf8"));
  return { idl, coder: new BorshAccountsCoder(idl) };
});

function chance(seed) {
  let state = (seed * 2654435761 + 97) >>> 0;
  const byte = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  };
  const bits = (n) => {
    let value = 0n;
    for (let i = 0; i < n; i += 8) value = (value << 8n) | BigInt(byte());
    return value;
  };
  const below = (n) => bits(96) % BigInt(n);
  const key = () => new web3.PublicKey(Buffer.from(Array.from({ length: 32 }, byte)));
  return { bits, below, key };
}

const SMALL = ["u8", "u16", "u32", "i8", "i16", "i32"];

function blank(idl, type) {
  if (type === "pubkey") return web3.PublicKey.default;
  if (type === "bool") return false;
  if (typeof type === "string") return SMALL.includes(type) ? 0 : new BN(0);
  if (type.array) return Array.from({ length: type.array[1] }, () => blank(idl, type.array[0]));
  const { fields } = idl.types.find((each) => each.name === type.defined.name).type;
  return Object.fromEntries(fields.map((each) => [each.name, blank(idl, each.type)]));
}

function encode({ coder }, name, size, value) {
  const { layout, discriminator } = coder.accountLayouts.get(name);
  const body = Buffer.alloc(size - 8);
  layout.encode(value, body);
  return Buffer.concat([Buffer.from(discriminator), body]);
}

const big = (value) => new BN(value.toString());
const packed = (data) => deflateSync(data, { level: 9 }).toString("base64");

function reserve(random, slot, elapsed) {
  const state = blank(lend.idl, { defined: { name: "Reserve" } });
  const available = random.below(10n ** 12n) + 1n;
  const debt = (available * random.below(400)) / 100n;
  state.last_update.slot = big(slot - elapsed);
  Object.assign(state.liquidity, {
    mint_decimals: big(6),
    total_available_amount: big(available),
    borrowed_amount_sf: big((debt << 60n) + random.bits(56)),
    accumulated_protocol_fees_sf: big(random.below(available << 54n)),
    accumulated_referrer_fees_sf: big(random.below(available << 52n)),
    pending_referrer_fees_sf: big(random.below(available << 50n)),
  });
  state.liquidity.cumulative_borrow_rate_bsf.value[0] = big(1n << 60n);
  state.collateral.mint_total_supply = big(random.below(16) ? random.below(10n ** 12n) + 1n : 0n);
  state.config.host_fixed_interest_rate_bps = Number(random.below(200));
  state.config.protocol_take_rate_pct = Number(random.below(31));
  const [low, middle] = [Number(random.below(500)), 500 + Number(random.below(1000))];
  state.config.borrow_rate_curve.points = Array.from({ length: 11 }, (_, at) => ({
    utilization_rate_bps: [0, 8000][at] ?? 10_000,
    borrow_rate_bps: [low, middle][at] ?? 5000,
  }));
  return { address: random.key(), data: encode(lend, "Reserve", 8624, state) };
}

async function world(seed) {
  const random = chance(seed);
  const slot = 300_000_000n;
  const elapsed = seed % 2 ? random.below(10_000) : 0n; // slots since reserves were refreshed
  const reserves = Array.from({ length: seed % 5 }, () => reserve(random, slot, elapsed));
  const state = blank(kvault.idl, { defined: { name: "VaultState" } });
  const decimals = 6 + Number(random.below(4));
  Object.assign(state, {
    token_mint: random.key(),
    shares_mint: random.key(),
    token_mint_decimals: big(decimals),
    shares_mint_decimals: big(decimals),
    token_available: big(random.below(10n ** 12n) + 10n ** 9n),
    shares_issued: big(random.below(10n ** 12n) + 1n),
    pending_fees_sf: big(random.below(10n ** 9n << 60n)),
  });
  reserves.forEach((each, n) => {
    const allocation = state.vault_allocation_strategy[n * 3];
    allocation.reserve = each.address;
    allocation.ctoken_allocation = big(random.below(10n ** 12n) + 1n);
  });
  const data = encode(kvault, "VaultState", 62552, state);
  const shares = random.below(BigInt(state.shares_issued.toString())) + 1n;
  const read = new Map(
    reserves.map((each) => {
      const of = sdk.Reserve.decode(each.data);
      const price = { price: new Decimal(1), mintAddress: of.liquidity.mintPubkey, decimals: new Decimal(1) };
      return [each.address.toString(), new sdk.KaminoReserve(of, each.address.toString(), price, null, 500)];
    }),
  );
  const client = new sdk.KaminoVaultClient(null, 500);
  const rate = await client.getTokensPerShareSingleVault(sdk.VaultState.decode(data), slot, read, slot);
  return {
    slot: slot.toString(),
    elapsed: Number(elapsed),
    vault: packed(data),
    reserves: Object.fromEntries(reserves.map((each) => [each.address.toString(), packed(each.data)])),
    shares: shares.toString(),
    shares_mint: state.shares_mint.toString(),
    mint: state.token_mint.toString(),
    worth: rate.mul(shares.toString()).toFixed(30), // as many decimals has the share
  };
}

(async () => {
  for (const seed of seeds) process.stdout.write(JSON.stringify(await world(seed)) + "\n");
  process.exit(0);
})();
