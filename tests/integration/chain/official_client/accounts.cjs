// Follows accounts of a Yellowstone endpoint with the official client, and prints each update, the
// block metas between them included, as base64, one a line, until the last slot's block meta.
// `compressed` in the request is a list of addresses: accounts, and transactions that name one.
// Usage: node accounts.cjs ENDPOINT FROM_SLOT LAST_SLOT COMMITMENT REQUEST_JSON
const {
  default: Client,
  CommitmentLevel,
  CompressedAccountFilterSet,
  SubscribeUpdate,
} = require("@triton-one/yellowstone-grpc");

const [endpoint, fromSlot, lastSlot, commitment, asked] = process.argv.slice(2);

async function main() {
  const client = new Client(endpoint, undefined, undefined);
  await client.connect();
  const { compressed, ...fields } = JSON.parse(asked);
  const request = {
    accounts: {},
    slots: {},
    transactions: {},
    transactionsStatus: {},
    blocks: {},
    entry: {},
    accountsDataSlice: [],
    ...fields,
    blocksMeta: { meta: {} },
    fromSlot,
    commitment: CommitmentLevel[commitment],
  };
  if (compressed) {
    const set = new CompressedAccountFilterSet(compressed.length);
    for (const address of compressed) set.insert(address);
    set.insertIntoSubscribeRequest(request, "compressed");
    set.insertIntoTransactionSubscribeRequest(request, "compressed");
  }
  const stream = await client.subscribe(request);
  await new Promise((resolve, reject) => {
    stream.on("error", reject);
    stream.on("end", () => reject(new Error("the stream ended")));
    stream.on("data", (update) => {
      process.stdout.write(Buffer.from(SubscribeUpdate.encode(update).finish()).toString("base64"));
      process.stdout.write("\n");
      if (update.blockMeta?.slot === lastSlot) resolve();
    });
  });
  stream.destroy();
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
