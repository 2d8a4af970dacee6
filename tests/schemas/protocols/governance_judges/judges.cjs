// `judges.cjs idls` writes the IDLs that the clients bring, one file each, into this folder.
// `judges.cjs records` reads records of SPL Governance from stdin, base64 and one a line, and writes
// what the official client reads from each, as JSON; integers are text, addresses base58.
// `judges.cjs configs` does so with configs of DAOs: plugins and types of their tokens, and where the
// shared program has the config.
const { writeFileSync } = require("node:fs");
const path = require("node:path");
const readline = require("node:readline");
const { PublicKey } = require("@solana/web3.js");

if (process.argv[2] === "idls") {
  const { IDL } = require("@blockworks-foundation/voter-stake-registry-client/voter_stake_registry");
  writeFileSync(path.join(__dirname, "registry.json"), JSON.stringify(IDL));
  const file = "node_modules/@tribecahq/tribeca-sdk/dist/cjs/idls/locked_voter.js";
  const { LockedVoterJSON } = require(path.join(__dirname, file));
  writeFileSync(path.join(__dirname, "locked_voter.json"), JSON.stringify(LockedVoterJSON));
} else if (process.argv[2] === "configs") {
  const {
    GovernanceAccountParser,
    GoverningTokenType,
    RealmConfigAccount,
    getRealmConfigAddress,
  } = require("@solana/spl-governance");
  const shared = new PublicKey("GovER5Lthms3bLBqWub97yVrMmEogzX7xNjdXpPPCVZw");
  const lines = readline.createInterface({ input: process.stdin });
  (async () => {
    for await (const line of lines) {
      const info = { data: Buffer.from(line, "base64"), owner: shared, lamports: 1, executable: false };
      const { account } = GovernanceAccountParser(RealmConfigAccount)(PublicKey.default, info);
      const tokens = [account.communityTokenConfig, account.councilTokenConfig];
      const plugins = tokens.map((each) => each.voterWeightAddin?.toBase58() ?? null);
      const isMembership = tokens.map((each) => each.tokenType === GoverningTokenType.Membership);
      const address = await getRealmConfigAddress(shared, account.realm);
      const found = { address: address.toBase58(), plugins, isMembership };
      process.stdout.write(JSON.stringify(found) + "\n");
    }
  })();
} else {
  const { GovernanceAccountParser, TokenOwnerRecord } = require("@solana/spl-governance");
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const data = Buffer.from(line, "base64");
    const info = { data, owner: PublicKey.default, lamports: 1, executable: false };
    const { account } = GovernanceAccountParser(TokenOwnerRecord)(PublicKey.default, info);
    const delegate = account.governanceDelegate;
    const found = {
      realm: account.realm.toBase58(),
      mint: account.governingTokenMint.toBase58(),
      owner: account.governingTokenOwner.toBase58(),
      deposit: account.governingTokenDepositAmount.toString(),
      votes: account.unrelinquishedVotesCount,
      proposals: account.outstandingProposalCount,
      delegate: delegate ? delegate.toBase58() : null,
    };
    process.stdout.write(JSON.stringify(found) + "\n");
  });
}
