// node farm_rewards.cjs <number of worlds>: stakes in farms of each version, encoded by the SDK's
// layouts, and what the SDK says that they have earned.
const { PublicKey } = require("@solana/web3.js");
const BN = require("bn.js");
const sdk = require("@raydium-io/raydium-sdk-v2");

let state = 1n;
function next() {
  state = (state * 6364136223846793005n + 1442695040888963407n) & ((1n << 64n) - 1n);
  return state >> 33n;
}
const bytes = (n) => Buffer.from(Array.from({ length: n }, () => Number(next() & 255n)));
const below = (bits) => new BN(bytes(8)).shrn(64 - bits);
const key = () => new PublicKey(bytes(32));
const FARMS = {
  3: ["EhhTKczWMGQt46ynNeRX1WfeagwwJd7ufHvCDjRxjo5Q", sdk.realFarmStateV3Layout, sdk.farmLedgerLayoutV3_2],
  5: ["9KEPoZmtHUrBbhWN1v1KWLMkkvwY6WLtAVUCPRtRjP4z", sdk.realFarmStateV5Layout, sdk.farmLedgerLayoutV5_2],
  6: ["FarmqiPv5eAj3j1GMdMCMUGXqPUvmquZtMy86QH6rzhG", sdk.realFarmV6Layout, sdk.farmLedgerLayoutV6_1],
};
const SLOT = 300000000;
const TIME_S = 1763000000;

function encoded(layout, fields) {
  const data = Buffer.alloc(layout.span);
  layout.encode({ ...layout.decode(Buffer.alloc(layout.span)), ...fields }, data);
  return data;
}

function rewardV6(number) {
  const opens = TIME_S - Number(next() % 4000000n) + 500000;
  const counted = Math.min(opens + Number(next() % 1000000n), Math.max(opens, TIME_S));
  const total = below(50);
  return {
    rewardState: new BN(number > 2 ? 0 : 1 + (number % 2)), rewardOpenTime: new BN(opens),
    rewardEndTime: new BN(counted + Number(next() % 3000000n)), rewardLastUpdateTime: new BN(counted),
    totalReward: total, totalRewardEmissioned: total.mul(below(10)).shrn(10), rewardClaimed: new BN(0),
    rewardPerSecond: below(30), accRewardPerShare: below(50), rewardVault: key(), rewardMint: key(),
    rewardSender: key(), rewardType: new BN(0), padding: Array(15).fill(new BN(0)),
  };
}

function stateOf(version, lpMint, lpVault) {
  const lastSlot = new BN(SLOT - Number(next() % 1000000n));
  if (version === 3) {
    return {
      state: new BN(1), lpVault, rewardVault: key(), perShareReward: below(50), lastSlot,
      perSlotReward: below(24),
    };
  }
  if (version === 5) {
    return {
      state: new BN(1), lpVault, rewardVaultA: key(), perShareRewardA: below(62), perSlotRewardA: below(24),
      option: 1, rewardVaultB: key(), perShareRewardB: below(62), perSlotRewardB: below(20), lastSlot,
    };
  }
  return {
    state: new BN(1), validRewardTokenNum: new BN(3), rewardMultiplier: new BN(10).pow(new BN(9 + Number(next() % 7n))),
    lpMint, lpVault, rewardInfos: [0, 1, 2, 3, 4].map(rewardV6),
  };
}

async function world(version) {
  const [program, farmLayout, ledgerLayout] = FARMS[version];
  const [id, owner, lpMint, lpVault] = [key(), key(), key(), key()];
  const farm = encoded(farmLayout, stateOf(version, lpMint, lpVault));
  const deposited = below(40);
  const rewardDebts = Array.from({ length: { 3: 1, 5: 2, 6: 5 }[version] }, () => below(10));
  const ledger = encoded(ledgerLayout, { state: new BN(1), id, owner, deposited, rewardDebts });
  const token = Buffer.alloc(165);
  sdk.splAccountLayout.encode(
    {
      mint: lpMint, owner: key(), amount: Number(next() % 9n) ? deposited.add(below(40)) : new BN(0),
      delegateOption: 0, delegate: PublicKey.default, state: 1, isNativeOption: 0, isNative: new BN(0),
      delegatedAmount: new BN(0), closeAuthorityOption: 0, closeAuthority: PublicKey.default,
    },
    token,
  );
  const accounts = [farm, token, ledger].map((data) => ({ data }));
  const connection = { getMultipleAccountsInfo: async () => accounts, getSlot: async () => SLOT };
  const pool = { id: id.toBase58(), lpVault: lpVault.toBase58(), programId: program, version };
  const found = await sdk.fetchMultipleFarmInfoAndUpdate({
    connection, farmPools: [pool], owner, chainTime: TIME_S,
  });
  const { state: after, wrapped } = found[id.toBase58()];
  return {
    version, slot: SLOT, time_s: TIME_S,
    ledger: ledger.toString("base64"), farm: farm.toString("base64"), token: token.toString("base64"),
    rewards: after.rewardInfos.map((each, at) => [
      (each.rewardMint ?? each.rewardVault).toBase58(), wrapped.pendingRewards[at].toString(),
    ]),
  };
}

(async () => {
  for (let number = 0; number < Number(process.argv[2]); number += 1) {
    console.log(JSON.stringify(await world([3, 5, 6][number % 3])));
  }
})();
