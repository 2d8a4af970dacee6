// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"idl": path, "name": account, "seed": n, "set": {field: value}, "slots": [{field: value}]}
//     -> {"data": base64, "account": what Anchor's coder reads from it, "slots": likewise}
// Fields are random but where `set` has a value; integers are text, addresses hex. `slots` are
// Option<Position> in 200 bytes each, which follow the account; null is none.
const crypto = require("node:crypto");
const fs = require("node:fs");
const readline = require("node:readline");
const { BorshCoder } = require("@coral-xyz/anchor");
const BN = require("bn.js");
const { PublicKey } = require("@solana/web3.js");

const SLOT = 200;
const idls = new Map();

// An IDL of Anchor before 0.30 has other names for types, and no tags.
function modern(idl) {
  const text = JSON.stringify(idl)
    .replaceAll('"publicKey"', '"pubkey"')
    .replaceAll(/"defined":"(\w+)"/g, '"defined":{"name":"$1"}');
  const old = JSON.parse(text);
  if (old.address) return old;
  const accounts = old.accounts.map(({ name }) => {
    const seed = `account:${name[0].toUpperCase()}${name.slice(1)}`;
    return { name, discriminator: [...crypto.createHash("sha256").update(seed).digest().subarray(0, 8)] };
  });
  const types = [...old.types, ...old.accounts];
  const metadata = { name: old.name, version: old.version, spec: "0.1.0" };
  return { address: PublicKey.default.toBase58(), metadata, instructions: [], accounts, types };
}

function loaded(path) {
  if (!idls.has(path)) {
    const idl = modern(JSON.parse(fs.readFileSync(path, "utf8")));
    if (idl.types.some((each) => each.name === "Position")) {
      const fields = [{ name: "position", type: { option: { defined: { name: "Position" } } } }];
      idl.types.push({ name: "Slot", type: { kind: "struct", fields } });
    }
    idls.set(path, { idl, coder: new BorshCoder(idl) });
  }
  return idls.get(path);
}

function chance(seed) {
  let state = (seed * 2654435761 + 12345) >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 24;
  };
}

const BITS = { u8: 8, u16: 16, u32: 32, u64: 64, u128: 128, i8: 8, i16: 16, i32: 32, i64: 64, i128: 128 };

function value(idl, type, byte, set) {
  const bytes = (n) => Buffer.from(Array.from({ length: n }, byte));
  if (type === "pubkey") return new PublicKey(set === undefined ? bytes(32) : Buffer.from(set, "hex"));
  if (type === "bool") return set ?? byte() > 127;
  if (type in BITS) {
    let number = new BN(set ?? 0);
    if (set === undefined) {
      number = new BN(bytes(BITS[type] / 8));
      if (type[0] === "i") number = number.fromTwos(BITS[type]);
    }
    return BITS[type] <= 32 ? number.toNumber() : number;
  }
  if (type.option) {
    const isSome = set === undefined ? byte() > 127 : set !== null;
    return isSome ? value(idl, type.option, byte, set) : null;
  }
  if (type.array) {
    const [of, length] = type.array;
    return Array.from({ length }, (_, i) => value(idl, of, byte, set?.[i]));
  }
  const defined = idl.types.find((each) => each.name === type.defined.name).type;
  if (defined.kind === "enum") {
    const [name] = set === undefined ? [] : Object.keys(set);
    const variant = defined.variants.find((each) => each.name === name) ??
      defined.variants[byte() % defined.variants.length];
    return { [variant.name]: struct(idl, variant.fields ?? [], byte, set?.[name]) };
  }
  return struct(idl, defined.fields, byte, set);
}

function struct(idl, fields, byte, set) {
  return Object.fromEntries(fields.map((f) => [f.name, value(idl, f.type, byte, set?.[f.name])]));
}

function plain(read) {
  if (BN.isBN(read)) return read.toString();
  if (read instanceof PublicKey) return read.toBuffer().toString("hex");
  if (Array.isArray(read)) return read.map(plain);
  if (read && typeof read === "object") {
    return Object.fromEntries(Object.entries(read).map(([name, of]) => [name, plain(of)]));
  }
  return read;
}

function answer({ idl: path, name, seed, set, slots }) {
  const { idl, coder } = loaded(path);
  const byte = chance(seed);
  const made = value(idl, { defined: { name } }, byte, set);
  // The coder's own `encode` has room for 1,000 bytes only.
  const { layout, discriminator } = coder.accounts.accountLayouts.get(name);
  const body = Buffer.alloc(4096);
  const written = layout.encode(made, body);
  const parts = [Buffer.from(discriminator), body.subarray(0, written)];
  const read = [];
  for (const slot of slots ?? []) {
    const position = value(idl, { option: { defined: { name: "Position" } } }, byte, slot);
    const filled = Buffer.alloc(SLOT);
    coder.types.encode("Slot", { position }).copy(filled);
    parts.push(filled);
    read.push(plain(coder.types.decode("Slot", filled)).position);
  }
  const data = Buffer.concat(parts);
  const account = plain(coder.accounts.decode(name, data));
  return { data: data.toString("base64"), account, slots: read };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
});
