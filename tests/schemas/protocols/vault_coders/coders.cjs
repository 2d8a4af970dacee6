// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"idl": path, "name": account, "size": n, "seed": n, "set": {field: value}}
//     -> {"data": base64, "account": what Anchor's coder reads from it}
// Fields are random but where `set` has a value; integers are text, addresses hex.
const fs = require("node:fs");
const readline = require("node:readline");
const { BorshAccountsCoder } = require("@coral-xyz/anchor");
const BN = require("bn.js");
const { PublicKey } = require("@solana/web3.js");

const idls = new Map();

function loaded(path) {
  if (!idls.has(path)) {
    const idl = JSON.parse(fs.readFileSync(path, "utf8"));
    idls.set(path, { idl, coder: new BorshAccountsCoder(idl) });
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
  if (type.array) {
    const [of, length] = type.array;
    return Array.from({ length }, (_, i) => value(idl, of, byte, set?.[i]));
  }
  const name = type.defined.name ?? type.defined;
  const defined = idl.types.find((each) => each.name === name).type;
  if (defined.kind === "enum") {
    const at = set ?? byte() % defined.variants.length;
    return { [defined.variants[at].name]: {} };
  }
  return Object.fromEntries(
    defined.fields.map((f) => [f.name, value(idl, f.type, byte, set?.[f.name])]),
  );
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

function answer({ idl: path, name, size, seed, set }) {
  const { idl, coder } = loaded(path);
  const made = value(idl, { defined: { name } }, chance(seed), set);
  // The coder's own `encode` has room for 1,000 bytes only.
  const { layout, discriminator } = coder.accountLayouts.get(name);
  const data = Buffer.alloc(size);
  Buffer.from(discriminator).copy(data);
  const body = Buffer.alloc(size + 1024);
  const written = layout.encode(made, body);
  body.copy(data, 8, 0, Math.min(written, size - 8));
  return { data: data.toString("base64"), written: written + 8, account: plain(coder.decode(name, data)) };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
});
