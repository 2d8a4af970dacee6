// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"encode": account, "idl": path, "seed": n, "fields"?: {field path: value}, "size"?: bytes}
//        -> {"data": base64, "fields": {...}} of an account with random values, but for `fields`
//   {"decode": account, "idl": path, "data": base64} -> {"fields": {...}}
//   {"event": name, "idl": path, "seed": n, "fields"?: {...}} -> {"data": base64, "fields": {...}}
//        of an event with random values, tag first
// Integers are text, addresses base58, bytes hex; an enum is {variant: fields}, of a tuple "0" on.
// A path of `fields` is as "ledgers.0.status"; what it names has the form of the answer.
// `size` fills up with zeros. The coder writes borsh: it knows no gaps that an IDL leaves out, and ends an
// enum with its variant, where a C enum fills up to the largest.
const { readFileSync } = require("node:fs");
const { createHash } = require("node:crypto");
const readline = require("node:readline");
const { BorshAccountsCoder, BorshEventCoder } = require("@coral-xyz/anchor");
const { PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");

const room = Buffer.alloc(1 << 24); // for an account; BorshAccountsCoder.encode ends at 1000 bytes
const BITS = /^([ui])(8|16|32|64|128|256)$/;
const idls = new Map();

// IDLs from before Anchor 0.30 have the types of accounts in place, and other names.
function modern(idl) {
  if (idl.accounts.every((each) => each.discriminator)) return idl;
  const type = (old) => {
    if (old === "publicKey") return "pubkey";
    if (typeof old !== "object") return old;
    if (typeof old.defined === "string") return { defined: { name: old.defined } };
    if (old.array) return { array: [type(old.array[0]), old.array[1]] };
    const [[key, of]] = Object.entries(old);
    return { [key]: type(of) };
  };
  const fields = (some) =>
    some?.map((each) => (each.name && each.type ? { ...each, type: type(each.type) } : type(each)));
  const definition = ({ name, type: of }) => ({
    name,
    type: {
      ...of,
      ...(of.fields && { fields: fields(of.fields) }),
      ...(of.variants && {
        variants: of.variants.map((each) => ({ ...each, fields: fields(each.fields) })),
      }),
    },
  });
  const tag = (name, of = "account") =>
    createHash("sha256").update(`${of}:${name}`).digest().subarray(0, 8);
  const events = idl.events ?? [];
  return {
    ...idl,
    accounts: idl.accounts.map(({ name }) => ({
      name,
      discriminator: [...tag(name[0].toUpperCase() + name.slice(1))],
    })),
    events: events.map(({ name }) => ({ name, discriminator: [...tag(name, "event")] })),
    types: [
      ...[...idl.accounts, ...(idl.types ?? [])].map(definition),
      ...events.map(({ name, fields: some }) => definition({ name, type: { kind: "struct", fields: some } })),
    ],
  };
}

function opened(path) {
  if (!idls.has(path)) {
    const idl = modern(JSON.parse(readFileSync(path)));
    const types = new Map(idl.types.map((each) => [each.name, each.type]));
    idls.set(path, { coder: new BorshAccountsCoder(idl), events: new BorshEventCoder(idl), types });
  }
  return idls.get(path);
}

function chance(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  const word = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const bytes = (size) => Buffer.from(Array.from({ length: size }, () => word() & 0xff));
  // Magnitudes of all lengths: even chances of bits would give large numbers only.
  const integer = (bits, signed) => {
    const some = bytes(bits / 8);
    const kept = 1 + (word() % (signed ? bits - 1 : bits));
    const value = new BN(some).maskn(kept);
    return signed && word() & 1 ? value.neg() : value;
  };
  return { below: (n) => word() % n, bytes, integer };
}

function sized(of, generics) {
  return typeof of === "number" ? of : Number(generics?.find((g) => g.kind === "const").value);
}

// Returns a random value of a type as the coder takes it.
function any(type, types, random, path, fixed, generics) {
  const set = fixed[path];
  const below = (each, name) =>
    any(each, types, random, path ? `${path}.${name}` : `${name}`, fixed, generics);
  const bits = typeof type === "string" && BITS.exec(type);
  if (bits) {
    const value = set === undefined ? random.integer(+bits[2], bits[1] === "i") : new BN(set);
    return +bits[2] <= 32 ? value.toNumber() : value;
  }
  if (type === "bool") return set ?? random.below(2) === 1;
  if (type === "f32" || type === "f64") return set ?? random.below(1 << 20) / 1024;
  if (type === "pubkey") return set === undefined ? new PublicKey(random.bytes(32)) : new PublicKey(set);
  if (type === "string") return set ?? random.bytes(random.below(24)).toString("hex");
  if (type === "bytes") return set === undefined ? random.bytes(random.below(48)) : Buffer.from(set, "hex");
  if (type.option) return set === null || (set === undefined && random.below(2)) ? null : below(type.option, "some");
  if (type.array || type.vec) {
    const length = type.array ? sized(type.array[1], generics) : (set ?? random.below(5));
    const each = type.array ? type.array[0] : type.vec;
    if (each === "u8" && typeof set === "string") return [...Buffer.from(set, "hex")];
    return Array.from({ length }, (_, n) => below(each, n));
  }
  if (type.generic) return below(generics.find((g) => g.kind === "type").type, "");
  const of = types.get(type.defined.name);
  const inner = type.defined.generics ?? generics;
  const struct = (fields, at) =>
    Object.fromEntries(
      (fields ?? []).map((each, n) => {
        const name = each.name ?? `${n}`;
        const to = at ? `${at}.${name}` : name;
        return [name, any(each.type ?? each, types, random, to, fixed, inner)];
      }),
    );
  if (of.kind === "type") return any(of.alias, types, random, path, fixed, inner);
  if (of.kind === "struct") return struct(of.fields, path);
  const variant =
    set === undefined
      ? of.variants[random.below(of.variants.length)]
      : of.variants.find((each) => each.name === set);
  return { [variant.name]: struct(variant.fields, `${path}.${variant.name}`) };
}

function plain(value) {
  if (BN.isBN(value)) return value.toString();
  if (value instanceof PublicKey) return value.toBase58();
  if (Buffer.isBuffer(value)) return value.toString("hex");
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
  }
  return typeof value === "number" && Number.isInteger(value) ? `${value}` : value;
}

function answer(question) {
  const { coder, events, types } = opened(question.idl);
  const name = question.encode ?? question.decode ?? question.event;
  if (question.decode) {
    return { fields: plain(coder.decode(name, Buffer.from(question.data, "base64"))) };
  }
  const fixed = question.fields ?? {};
  const value = any({ defined: { name } }, types, chance(question.seed), "", fixed);
  const { discriminator, layout } = (question.event ? events.layouts : coder.accountLayouts).get(name);
  const written = layout.encode(value, room);
  const data = Buffer.concat([Buffer.from(discriminator), room.subarray(0, written)]);
  room.fill(0, 0, written);
  const rest = Buffer.alloc(Math.max(0, (question.size ?? 0) - data.length));
  return { data: Buffer.concat([data, rest]).toString("base64"), fields: plain(value) };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
});
