// Reads one question a line from stdin and writes one answer a line, both JSON:
//   {"decode": kind, "data": base64}            -> the account, as its coder names the fields
//   {"random": kind, "seed": n}                 -> {"data": base64, "account": the same}
//   {"activation": {stake, ...}, "epoch": n, "history": [[epoch, effective, activating, ...]]}
// Large integers are text, options are null or their value.
const readline = require("node:readline");
const kit = require("@solana/kit");
const stake = require("@solana-program/stake");
const token = require("@solana-program/token");
const token2022 = require("@solana-program/token-2022");
const metaplex = require("@metaplex-foundation/mpl-token-metadata");
const peer = require("@anza-xyz/solana-rpc-get-stake-activation");

const codecs = {
  stake: [stake.getStakeStateAccountEncoder(), stake.getStakeStateAccountDecoder()],
  mint: [token.getMintEncoder(), token.getMintDecoder()],
  token: [token.getTokenEncoder(), token.getTokenDecoder()],
  mint_2022: [token2022.getMintEncoder(), token2022.getMintDecoder()],
  token_2022: [token2022.getTokenEncoder(), token2022.getTokenDecoder()],
};
const metadata = metaplex.getMetadataAccountDataSerializer();

function plain(value) {
  if (typeof value === "bigint") return value.toString();
  if (value === null || typeof value !== "object") return value;
  if (value.__option) return value.__option === "Some" ? plain(value.value) : null;
  if (value instanceof Map) return [...value].map(plain);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (Array.isArray(value)) return value.map(plain);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, plain(each)]));
}

function decode(kind, data) {
  if (kind === "metadata") return plain(metadata.deserialize(data)[0]);
  return plain(codecs[kind][1].decode(data));
}

class Chance {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  u32() { // mulberry32
    let t = (this.state = (this.state + 0x6d2b79f5) >>> 0);
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }
  below(n) {
    return this.u32() % n;
  }
  flag() {
    return this.below(2) === 1;
  }
  bytes(n) {
    return Uint8Array.from({ length: n }, () => this.below(256));
  }
  u64() {
    const bits = BigInt(this.below(65)); // all sizes, the largest too
    return ((BigInt(this.u32()) << 32n) | BigInt(this.u32())) & ((1n << bits) - 1n);
  }
  i64() {
    const size = this.u64() >> 1n;
    return this.flag() ? size : -size;
  }
  i16() {
    return this.below(65536) - 32768;
  }
  f64() {
    return (this.u32() / 2 ** 32) * 10 ** (this.below(40) - 20);
  }
  address() {
    return kit.getAddressDecoder().decode(this.bytes(32));
  }
  option(make) {
    return this.flag() ? kit.some(make()) : kit.none();
  }
  text(most) {
    const letters = [..."abc XYZ019-_$żółw🐢雪"];
    const length = this.below(most);
    return Array.from({ length }, () => letters[this.below(letters.length)]).join("");
  }
  some(of) {
    return of.filter(() => this.flag());
  }
}

function fee(c) {
  return { epoch: c.u64(), maximumFee: c.u64(), transferFeeBasisPoints: c.below(10001) };
}

function mintExtensions(c) {
  return c.some([
    {
      __kind: "TransferFeeConfig",
      transferFeeConfigAuthority: c.address(),
      withdrawWithheldAuthority: c.address(),
      withheldAmount: c.u64(),
      olderTransferFee: fee(c),
      newerTransferFee: fee(c),
    },
    { __kind: "MintCloseAuthority", closeAuthority: c.address() },
    {
      __kind: "ConfidentialTransferMint",
      authority: c.option(() => c.address()),
      autoApproveNewAccounts: c.flag(),
      auditorElgamalPubkey: c.option(() => c.address()),
    },
    { __kind: "DefaultAccountState", state: c.below(3) },
    { __kind: "NonTransferable" },
    {
      __kind: "InterestBearingConfig",
      rateAuthority: c.address(),
      initializationTimestamp: c.u64() >> 1n, // the coder has it unsigned
      preUpdateAverageRate: c.i16(),
      lastUpdateTimestamp: c.u64() >> 1n,
      currentRate: c.i16(),
    },
    { __kind: "PermanentDelegate", delegate: c.address() },
    { __kind: "TransferHook", authority: c.address(), programId: c.address() },
    {
      __kind: "MetadataPointer",
      authority: c.option(() => c.address()),
      metadataAddress: c.option(() => c.address()),
    },
    {
      __kind: "TokenMetadata",
      updateAuthority: c.option(() => c.address()),
      mint: c.address(),
      name: c.text(30),
      symbol: c.text(10),
      uri: c.text(200),
      additionalMetadata: new Map([["first", c.text(9)], ["second", c.text(90)]].slice(c.below(3))),
    },
    {
      __kind: "GroupPointer",
      authority: c.option(() => c.address()),
      groupAddress: c.option(() => c.address()),
    },
    {
      __kind: "ScaledUiAmountConfig",
      authority: c.address(),
      multiplier: c.f64(),
      newMultiplierEffectiveTimestamp: c.u64() >> 1n,
      newMultiplier: c.f64(),
    },
    { __kind: "PausableConfig", authority: c.option(() => c.address()), paused: c.flag() },
    { __kind: "PermissionedBurn", authority: c.option(() => c.address()) },
  ]);
}

function accountExtensions(c) {
  return c.some([
    { __kind: "TransferFeeAmount", withheldAmount: c.u64() },
    {
      __kind: "ConfidentialTransferAccount",
      approved: c.flag(),
      elgamalPubkey: c.address(),
      pendingBalanceLow: c.bytes(64),
      pendingBalanceHigh: c.bytes(64),
      availableBalance: c.bytes(64),
      decryptableAvailableBalance: c.bytes(36),
      allowConfidentialCredits: c.flag(),
      allowNonConfidentialCredits: c.flag(),
      pendingBalanceCreditCounter: c.u64(),
      maximumPendingBalanceCreditCounter: c.u64(),
      expectedPendingBalanceCreditCounter: c.u64(),
      actualPendingBalanceCreditCounter: c.u64(),
    },
    { __kind: "ImmutableOwner" },
    { __kind: "MemoTransfer", requireIncomingTransferMemos: c.flag() },
    { __kind: "CpiGuard", lockCpi: c.flag() },
    { __kind: "NonTransferableAccount" },
    { __kind: "TransferHookAccount", transferring: c.flag() },
    { __kind: "PausableAccount" },
  ]);
}

function mint(c, extensions) {
  return {
    mintAuthority: c.option(() => c.address()),
    supply: c.u64(),
    decimals: c.below(256),
    isInitialized: true,
    freezeAuthority: c.option(() => c.address()),
    extensions,
  };
}

function account(c, extensions) {
  return {
    mint: c.address(),
    owner: c.address(),
    amount: c.u64(),
    delegate: c.option(() => c.address()),
    state: 1 + c.below(2),
    isNative: c.option(() => c.u64()),
    delegatedAmount: c.u64(),
    closeAuthority: c.option(() => c.address()),
    extensions,
  };
}

function stakeState(c) {
  const meta = {
    rentExemptReserve: c.u64(),
    authorized: { staker: c.address(), withdrawer: c.address() },
    lockup: { unixTimestamp: c.i64(), epoch: c.u64(), custodian: c.address() },
  };
  if (c.below(4) === 0) return { state: { __kind: "Initialized", fields: [meta] } };
  const delegation = {
    voterPubkey: c.address(),
    stake: c.u64(),
    activationEpoch: c.u64(),
    deactivationEpoch: c.u64(),
    reserved: [...c.bytes(8)],
  };
  const fields = [meta, { delegation, creditsObserved: c.u64() }, { bits: c.below(2) }];
  return { state: { __kind: "Stake", fields } };
}

function metadataAccount(c) {
  const padded = (text, size) => (c.flag() ? text : text.padEnd(size, "\0"));
  const creator = () => ({ address: c.address(), verified: c.flag(), share: c.below(101) });
  const list = Array.from({ length: c.below(6) }, creator);
  return {
    updateAuthority: c.address(),
    mint: c.address(),
    name: padded(c.text(16), 32),
    symbol: padded(c.text(8), 10),
    uri: padded(c.text(100), 200),
    sellerFeeBasisPoints: c.below(10001),
    creators: c.option(() => list),
    primarySaleHappened: c.flag(),
    isMutable: c.flag(),
    editionNonce: c.option(() => c.below(256)),
    tokenStandard: c.option(() => c.below(6)),
    collection: c.option(() => ({ verified: c.flag(), key: c.address() })),
    uses: kit.none(),
    collectionDetails: kit.none(),
    programmableConfig: kit.none(),
  };
}

function random(kind, seed) {
  const c = new Chance(seed);
  if (kind === "metadata") return metadata.serialize(metadataAccount(c));
  const made = {
    stake: () => stakeState(c),
    mint: () => mint(c),
    token: () => account(c),
    mint_2022: () => mint(c, c.option(() => mintExtensions(c))),
    token_2022: () => account(c, c.option(() => accountExtensions(c))),
  }[kind]();
  const data = codecs[kind][0].encode(made);
  if (kind !== "stake") return data;
  const account200 = new Uint8Array(200); // the account is longer than its state
  account200.set(data);
  return account200;
}

// The package rounds where the program cuts: `round` names which of both is asked for.
const rounds = { round: Math.round, trunc: Math.trunc };

function activation({ activation: of, epoch, history, round }) {
  Math.round = rounds[round];
  const delegation = {
    stake: BigInt(of.stake),
    activationEpoch: BigInt(of.activationEpoch),
    deactivationEpoch: BigInt(of.deactivationEpoch),
  };
  const entries = history.map((row) => {
    const [at, effective, activating, deactivating] = row.map(BigInt);
    return { epoch: at, effective, activating, deactivating };
  });
  return plain(peer.getStakeActivatingAndDeactivating(delegation, BigInt(epoch), entries));
}

function answer(question) {
  if (question.activation) return activation(question);
  if (question.decode) {
    return decode(question.decode, new Uint8Array(Buffer.from(question.data, "base64")));
  }
  const data = random(question.random, question.seed);
  return { data: Buffer.from(data).toString("base64"), account: decode(question.random, data) };
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(answer(JSON.parse(line))) + "\n");
});
