// Writes `count` worlds, one a line: {"escrow", "vault": base64, "now_s", "feeA", "feeB": text}.
// The SDK's own coder writes the accounts, `getUserStakeAndClaimBalance` computes the fees. The
// vault collected from its pool within the last 300 s, so that the SDK adds nothing from there.
const { createStakeFeeProgram, STAKE_FOR_FEE_PROGRAM_ID, default: StakeForFee } = require("@meteora-ag/m3m3");
const { BorshAccountsCoder } = require("@coral-xyz/anchor");
const { Connection, PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");

let state = 20260;
function byte() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 24;
}
const bytes = (n) => Buffer.from(Array.from({ length: n }, byte));
const below = (bits) => new BN(bytes(Math.ceil(bits / 8))).maskn(bits);
const upTo = (n) => below(31).toNumber() % n;

function filled(idl, type) {
  if (type === "publicKey") return new PublicKey(bytes(32));
  if (type === "u8") return byte();
  if (type === "u64") return below(1 + upTo(62));
  if (type === "i64") return below(1 + upTo(62));
  if (type === "u128") return below(1 + upTo(70));
  if (type.array) return Array.from({ length: type.array[1] }, () => filled(idl, type.array[0]));
  const name = type.defined.name ?? type.defined;
  const of = idl.types.find((each) => each.name === name).type;
  return Object.fromEntries(of.fields.map((f) => [f.name, filled(idl, f.type)]));
}

function account(idl, name) {
  const of = idl.accounts.find((each) => each.name === name).type;
  return Object.fromEntries(of.fields.map((f) => [f.name, filled(idl, f.type)]));
}

// The coder's own `encode` has room for 1,000 bytes only.
function encoded(coder, name, made) {
  const body = Buffer.alloc(2048);
  const written = coder.accountLayouts.get(name).encode(made, body);
  return Buffer.concat([BorshAccountsCoder.accountDiscriminator(name), body.subarray(0, written)]);
}

async function main(count) {
  const connection = new Connection("http://127.0.0.1:1");
  const program = createStakeFeeProgram(connection, new PublicKey(STAKE_FOR_FEE_PROGRAM_ID));
  const idl = program.idl;
  const coder = program.coder.accounts;
  for (let at = 0; at < count; at++) {
    const now = 1_790_000_000 + upTo(1_000_000);
    const vault = account(idl, "feeVault");
    const escrow = account(idl, "stakeEscrow");
    escrow.inTopList = upTo(4) === 0 ? 0 : 1;
    vault.configuration.secondsToFullUnlock = new BN(1 + upTo(90_000));
    const info = vault.topStakerInfo;
    info.lastClaimFeeAt = new BN(now - upTo(300) + 9);
    info.lastUpdatedAt = new BN(now - upTo(100_000) + 99);
    info.effectiveStakeAmount = upTo(9) === 0 ? new BN(0) : below(50).addn(1);
    info.cumulativeFeeAPerLiquidity = escrow.feeAPerLiquidityCheckpoint.add(below(1 + upTo(70)));
    info.cumulativeFeeBPerLiquidity = escrow.feeBPerLiquidityCheckpoint.add(below(1 + upTo(70)));
    const data = {
      stakeEscrow: encoded(coder, "stakeEscrow", escrow),
      feeVault: encoded(coder, "feeVault", vault),
    };
    const read = (name) => coder.decode(name, data[name]);
    const self = {
      feeVaultKey: new PublicKey(bytes(32)),
      stakeForFeeProgram: {
        programId: program.programId,
        account: { stakeEscrow: { fetchNullable: async () => read("stakeEscrow") } },
      },
      accountStates: { feeVault: read("feeVault"), clock: { unixTimestamp: new BN(now) } },
    };
    const { unclaimFee } = await StakeForFee.prototype.getUserStakeAndClaimBalance.call(self, escrow.owner);
    const fees = { feeA: unclaimFee.feeA.toString(), feeB: unclaimFee.feeB.toString() };
    process.stdout.write(JSON.stringify({ escrow: data.stakeEscrow.toString("base64"), vault: data.feeVault.toString("base64"), now_s: now, ...fees }) + "\n");
  }
}

main(Number(process.argv[2]));
