// Writes `count` worlds, one a line: {"address", "vault", "lp_mint", "mint", "user", "request",
// "now_s", "shares", "worth", "pending"}; addresses are hex, accounts base64, amounts text.
// Anchor's coder writes the accounts by the SDK's IDL, and the SDK reads them from a connection
// that has nothing else. `pending` is what the SDK says of the request, null where it has none:
// of amounts above 2^53 the SDK only throws.
const { VoltrClient } = require("@voltr/vault-sdk");
const { BorshAccountsCoder } = require("@coral-xyz/anchor");
const { MintLayout, TOKEN_PROGRAM_ID } = require("@solana/spl-token");
const { Connection, PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");
const idl = require("@voltr/vault-sdk/dist/idl/voltr_vault.json");

const FRACTION_BITS = 48;
const coder = new BorshAccountsCoder(idl);
let state = 1515;
function byte() {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return state >>> 24;
}
const bytes = (n) => Buffer.from(Array.from({ length: n }, byte));
const below = (bits) => new BN(bytes(Math.ceil(bits / 8))).maskn(bits);
const upTo = (n) => below(31).toNumber() % n;
const part = (of) => of.mul(below(20)).shrn(20); // any part of an amount, not all of it

function filled(type) {
  if (type === "pubkey") return new PublicKey(bytes(32));
  if (type === "u8") return byte();
  if (type === "u16") return below(16).toNumber();
  if (type === "u64") return below(64);
  if (type === "u128") return below(128);
  if (type.array) return Array.from({ length: type.array[1] }, () => filled(type.array[0]));
  const { fields } = idl.types.find((each) => each.name === type.defined.name).type;
  return Object.fromEntries(fields.map((f) => [f.name, filled(f.type)]));
}

// The coder's own `encode` has room for 1,000 bytes only.
function encoded(name, made) {
  const { layout, discriminator } = coder.accountLayouts.get(name);
  const body = Buffer.alloc(2048);
  return Buffer.concat([Buffer.from(discriminator), body.subarray(0, layout.encode(made, body))]);
}

function filledVault(client, address, now, isLarge) {
  const vault = filled({ defined: { name: "Vault" } });
  const bits = isLarge ? 63 : 20 + upTo(18);
  const total = below(bits).addn(1);
  vault.asset.total_value = total;
  vault.lp.mint = client.findVaultLpMint(address);
  const lasts = [0, 1, 3600, 86_400, 2_000_000][upTo(5)];
  vault.vault_configuration.locked_profit_degradation_duration = new BN(lasts);
  vault.locked_profit_state.last_report = new BN(now - upTo(lasts + 9 + (lasts >> 2)));
  vault.locked_profit_state.last_updated_locked_profit = part(total);
  const fees = vault.fee_configuration;
  fees.redemption_fee = [0, 10, upTo(10_001)][upTo(3)];
  fees.manager_management_fee = upTo(2) * upTo(500);
  fees.admin_management_fee = upTo(2) * upTo(500);
  fees.protocol_management_fee = upTo(2) * upTo(100);
  vault.fee_update.last_management_fee_update_ts = new BN(upTo(9) ? now - upTo(40_000_000) + 9 : 0);
  for (const name of ["manager", "admin", "protocol"]) {
    vault.fee_state[`accumulated_lp_${name}_fees`] = below(upTo(bits) + 1);
  }
  vault.dead_weight = below(upTo(bits) + 1);
  return vault;
}

function mintData(supply) {
  const data = Buffer.alloc(MintLayout.span);
  const none = { mintAuthorityOption: 0, mintAuthority: PublicKey.default, decimals: 9, isInitialized: true };
  const more = { freezeAuthorityOption: 0, freezeAuthority: PublicKey.default };
  MintLayout.encode({ ...none, ...more, supply: BigInt(supply.toString()) }, data);
  return data;
}

async function main(count) {
  const connection = new Connection("http://127.0.0.1:1");
  const chain = new Map();
  connection.getAccountInfo = async (address) => chain.get(address.toBase58()) ?? null;
  connection.getAccountInfoAndContext = async (address) => ({
    context: { slot: 1 },
    value: chain.get(address.toBase58()) ?? null,
  });
  const client = new VoltrClient(connection);
  const put = (address, owner, data) =>
    chain.set(address.toBase58(), { data, owner, lamports: 1, executable: false });
  const program = new PublicKey(idl.address);

  for (let at = 0; at < count; at++) {
    const now = 1_790_000_000 + upTo(1_000_000);
    Date.now = () => now * 1000;
    const isLarge = at % 4 === 3;
    const [address, user] = [new PublicKey(bytes(32)), new PublicKey(bytes(32))];
    const made = filledVault(client, address, now, isLarge);
    const vault = encoded("Vault", made);
    const supply = below(isLarge ? 63 : 20 + upTo(20)).addn(1);
    const mint = mintData(supply);
    put(address, program, vault);
    put(made.lp.mint, TOKEN_PROGRAM_ID, mint);
    const shares = part(supply).addn(1);
    const worth = await client.calculateAssetsForWithdraw(address, shares);

    const request = filled({ defined: { name: "RequestWithdrawVaultReceipt" } });
    request.vault = address;
    request.user = user;
    request.amount_lp_escrowed = part(supply).addn(1);
    const then = await client.calculateAssetsForWithdraw(address, request.amount_lp_escrowed);
    const twice = then.addn(1).shln(FRACTION_BITS + 1);
    request.amount_asset_to_withdraw_decimal_bits = part(twice).add(below(FRACTION_BITS - 1));
    request.withdrawable_from_ts = new BN(now - 50 + upTo(100));
    const written = encoded("RequestWithdrawVaultReceipt", request);
    put(client.findRequestWithdrawVaultReceipt(address, user), program, written);
    let pending = null;
    if (!isLarge) {
      const said = await client.getPendingWithdrawalForUser(address, user);
      pending = {
        effective: said.amountAssetToWithdrawEffective,
        at_present: said.amountAssetToWithdrawAtPresent,
        withdrawable_from_s: said.withdrawableFromTs,
      };
    }
    const hex = (key) => key.toBuffer().toString("hex");
    process.stdout.write(
      JSON.stringify({
        address: hex(address),
        vault: vault.toString("base64"),
        lp_mint: hex(made.lp.mint),
        mint: mint.toString("base64"),
        asset: hex(made.asset.mint),
        user: hex(user),
        request: written.toString("base64"),
        now_s: now,
        shares: shares.toString(),
        worth: worth.toString(),
        pending,
      }) + "\n",
    );
  }
}

main(Number(process.argv[2]));
