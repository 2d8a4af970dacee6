// What the parts of the still world share: programs and their coders, tokens, and what is noted.
// `clock` is when the chain starts: the parts run at several, to find where accounts have times.
const { createHash } = require("node:crypto");
const { readFileSync } = require("node:fs");
const path = require("node:path");
const { BN, BorshAccountsCoder, web3 } = require("@coral-xyz/anchor");

const { PublicKey } = web3;
const { idls: folder, wallets } = JSON.parse(readFileSync(0, "utf8"));
const world = { lines: [] };
const write = (line) => world.lines.push(line);

const [TRADER, LENDER, STAKER] = ["holder-0", "lender-1", "staker-0"].map(
  (name) => new PublicKey(wallets[name]),
);
const clock = { start_s: 1_785_500_000, start_slot: 400_000_000 }; // the chain's first
const DAY_S = 86_400;
const ONE_60 = 1n << 60n; // fractions of klend
const ONE_48 = 1n << 48n; // of marginfi
const ONE_64 = 1n << 64n; // of prices in concentrated pools
const WAD = 10n ** 18n;
const SCALE = 10n ** 12n; // exchange prices of Jupiter Lend
const NEVER = (1n << 64n) - 1n;

const SOL = new PublicKey("So11111111111111111111111111111111111111112");
const USDC = new PublicKey("EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v");
const USDT = new PublicKey("Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB");
const CRT = new PublicKey("CRTx1JouZhzSU6XytsE42UQraoGqiHgxabocVfARTy2s");
const TOKEN = new PublicKey("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA");
const sol = (whole) => BigInt(Math.round(whole * 1e9));
const usd = (whole) => BigInt(Math.round(whole * 1e6));

const named = (name) => new PublicKey(createHash("sha256").update(`still/${name}`).digest());
const text = (value) => (value instanceof PublicKey ? value.toBase58() : `${value}`);

class Program {
  constructor(address, file, change = (idl) => idl) {
    this.address = new PublicKey(address);
    if (!file) return;
    const idl = change(JSON.parse(readFileSync(path.join(folder, file), "utf8")));
    this.types = new Map(idl.types.map((each) => [each.name, each.type]));
    this.coder = new BorshAccountsCoder(idl);
  }

  derived(...seeds) {
    const bytes = seeds.map((each) => (each instanceof PublicKey ? each.toBuffer() : Buffer.from(each)));
    return PublicKey.findProgramAddressSync(bytes, this.address)[0];
  }

  value(type, set) {
    if (type === "pubkey") return set ?? PublicKey.default;
    if (type === "bool") return set ?? false;
    if (type === "f64") return set ?? 0;
    if (type.option) return set === undefined ? null : this.value(type.option, set);
    if (type.vec) return (set ?? []).map((each) => this.value(type.vec, each));
    if (typeof type === "string") {
      return /(8|16|32)$/.test(type) && !type.endsWith("128") ? Number(set ?? 0) : new BN(`${set ?? 0}`);
    }
    if (type.array) {
      const [of, length] = type.array;
      if (typeof set === "bigint") {
        return Array.from({ length }, (_, at) => Number((set >> BigInt(8 * at)) & 255n));
      }
      return Array.from({ length }, (_, at) => this.value(of, set?.[at]));
    }
    const defined = this.types.get(type.defined.name);
    if (defined.kind === "enum") return { [set ?? defined.variants[0].name]: {} };
    if (defined.kind === "type") return this.value(defined.alias, set);
    const known = new Set(defined.fields.map((each) => each.name));
    for (const name of Object.keys(typeof set === "object" ? set : {})) {
      if (!known.has(name) && !known.has(undefined)) throw new Error(`no field ${name}`);
    }
    return Object.fromEntries(
      defined.fields.map((each, at) =>
        each.name ? [each.name, this.value(each.type, set?.[each.name])] : [`${at}`, this.value(each, set)],
      ),
    );
  }

  bytes(kind, size, fields) {
    const room = Buffer.alloc(size + 4096); // the coder's own `encode` ends at 1,000 bytes
    const written = this.coder.accountLayouts
      .get(kind)
      .layout.encode(this.value({ defined: { name: kind } }, fields), room);
    if (written > size - 8) throw new Error(`${kind}: ${written + 8} bytes, not ${size}`);
    return Buffer.concat([this.coder.accountDiscriminator(kind), room.subarray(0, size - 8)]);
  }

  put(address, kind, size, fields) {
    this.raw(address, this.bytes(kind, size, fields));
    return address;
  }

  raw(address, data) {
    write({ address: text(address), owner: text(this.address), data });
    return address;
  }

  // An account whose program has no IDL: addresses, integers of 64 bits, and bytes by offset.
  placed(address, size, tag, at) {
    const data = Buffer.alloc(size);
    Buffer.from(tag, "hex").copy(data);
    for (const [offset, value] of Object.entries(at)) {
      bytesOf(value).copy(data, Number(offset));
    }
    return this.raw(address, data);
  }
}

function bytesOf(value) {
  if (value instanceof PublicKey) return value.toBuffer();
  if (Buffer.isBuffer(value)) return value;
  const data = Buffer.alloc(8);
  data.writeBigUInt64LE(BigInt(value));
  return data;
}

// An integer of so many bits, in bytes.
function wide(value, bits) {
  const bytes = Array.from({ length: bits / 8 }, (_, at) => Number((BigInt(value) >> BigInt(8 * at)) & 255n));
  return Buffer.from(bytes);
}

function mint(address, name, symbol, decimals, supply, held) {
  const amounts = Object.fromEntries(held.map(([wallet, amount]) => [text(wallet), text(amount)]));
  write({ mint: text(address), name, symbol, decimals, supply: text(supply), held: amounts });
}

// A token account that is no wallet's own.
function balance(address, of, owner, amount) {
  write({ token_account: text(address), mint: text(of), owner: text(owner), amount: text(amount) });
  return address;
}

function position(wallet, protocol, route, assets, more = {}) {
  const lines = assets.map(([role, of, amount]) => [role, text(of), amount === null ? null : text(amount)]);
  write({ wallet: text(wallet), protocol, route, assets: lines, ...more });
}

const about = (amount) => `~${amount}`;

// A pool of SOL and USDC at 150 dollars, and what liquidity between two ticks has in it.
const TICK = -18_973;
const root = (value) => {
  let low = BigInt(Math.floor(Math.sqrt(Number(value))));
  while (low * low > value) low -= 1n;
  while ((low + 1n) * (low + 1n) <= value) low += 1n;
  return low;
};
const SQRT_PRICE = root((15n * ONE_64 * ONE_64) / 100n);
function amountsOf(liquidity, lower, upper) {
  const [low, high] = [lower, upper].map((tick) => 1.0001 ** (tick / 2));
  const now = Math.sqrt(0.15);
  const whole = Number(liquidity);
  return [BigInt(Math.floor(whole * (1 / now - 1 / high))), BigInt(Math.floor(whole * (now - low)))];
}

module.exports = {
  about,
  amountsOf,
  balance,
  BN,
  clock,
  createHash,
  CRT,
  DAY_S,
  LENDER,
  mint,
  named,
  NEVER,
  ONE_48,
  ONE_60,
  ONE_64,
  position,
  Program,
  PublicKey,
  SCALE,
  sol,
  SOL,
  SQRT_PRICE,
  STAKER,
  text,
  TICK,
  TOKEN,
  TRADER,
  usd,
  USDC,
  USDT,
  WAD,
  wide,
  world,
};
