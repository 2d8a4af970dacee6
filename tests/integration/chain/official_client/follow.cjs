// Asks a Yellowstone endpoint everything the official client can ask, and prints one JSON object a
// line: what it decoded, encoded again, so that the test can compare it with what was sent.
// Usage: node follow.cjs ENDPOINT X_TOKEN FROM_SLOT LAST_SLOT
const {
  default: Client,
  CommitmentLevel,
  SlotStatus,
  SubscribeUpdate,
  SubscribeUpdateDeshred,
  txEncode,
  txErrDecode,
} = require("@triton-one/yellowstone-grpc");

const [endpoint, xToken, fromSlot, lastSlot] = process.argv.slice(2);

const emit = (kind, value) => process.stdout.write(JSON.stringify({ kind, value }) + "\n");
const base64 = (bytes) => Buffer.from(bytes).toString("base64");

const nothing = {
  accounts: {},
  slots: {},
  transactions: {},
  transactionsStatus: {},
  blocks: {},
  blocksMeta: {},
  entry: {},
  accountsDataSlice: [],
};

function transactionFilter(fields) {
  return { accountInclude: [], accountExclude: [], accountRequired: [], ...fields };
}

// Resolves with whatever `look` returns that is not undefined.
function follow(stream, look) {
  return new Promise((resolve, reject) => {
    stream.on("error", reject);
    stream.on("end", () => reject(new Error("the stream ended")));
    const onData = (update) => {
      const found = look(update);
      if (found === undefined) return;
      stream.off("data", onData);
      resolve(found);
    };
    stream.on("data", onData);
  });
}

const isLast = (update) =>
  update.slot?.slot === lastSlot && update.slot.status === SlotStatus.SLOT_PROCESSED;

async function everything(client) {
  const stream = await client.subscribe({
    ...nothing,
    fromSlot,
    commitment: CommitmentLevel.PROCESSED,
    slots: { slots: { interslotUpdates: true } },
    transactions: { all: transactionFilter({}), failed: transactionFilter({ failed: true }) },
    transactionsStatus: { status: transactionFilter({ vote: false }) },
    blocks: { block: { accountInclude: [] } },
    blocksMeta: { meta: {} },
  });
  await follow(stream, (update) => {
    emit("update", base64(SubscribeUpdate.encode(update).finish()));
    const info = update.transaction?.transaction;
    if (info) {
      emit("rpc_json", txEncode.encode(info, txEncode.encoding.Json, 0, true));
      if (info.meta.err) emit("error", txErrDecode.decode(info.meta.err.err));
    }
    return isLast(update) ? true : undefined;
  });
  // The same stream, other filters, and a ping.
  stream.write({ ...nothing, fromSlot, blocksMeta: { again: {} } });
  stream.write({ ...nothing, ping: { id: 42 } });
  let pong;
  await follow(stream, (update) => {
    pong ??= update.pong?.id;
    if (update.filters[0] === "again") emit("again", update.blockMeta.slot);
    return pong && update.blockMeta?.slot === lastSlot ? true : undefined;
  });
  emit("pong", pong);
  stream.destroy();
}

async function deshred(client) {
  const stream = await client.subscribeDeshred();
  const seen = follow(stream, (update) => {
    emit("deshred", base64(SubscribeUpdateDeshred.encode(update).finish()));
    return update.pong ? true : undefined;
  });
  stream.write({ deshredTransactions: {}, slots: {}, ping: { id: 43 } });
  await seen;
  stream.destroy();
}

async function refused() {
  const stranger = new Client(endpoint, "wrong", undefined);
  await stranger.connect();
  await stranger.getVersion().then(
    () => emit("refused", "no"),
    (error) => emit("refused", String(error.message ?? error)),
  );
}

async function main() {
  const client = new Client(endpoint, xToken, undefined);
  await client.connect();
  emit("version", (await client.getVersion()).version);
  emit("ping", (await client.ping(7)).count);
  emit("slot", (await client.getSlot(CommitmentLevel.CONFIRMED)).slot);
  emit("height", (await client.getBlockHeight(CommitmentLevel.CONFIRMED)).blockHeight);
  const latest = await client.getLatestBlockhash(CommitmentLevel.FINALIZED);
  emit("blockhash", latest.blockhash);
  emit("valid", (await client.isBlockhashValid(latest.blockhash)).valid);
  emit("replay", (await client.subscribeReplayInfo()).firstAvailable);
  await refused();
  await everything(client);
  await deshred(client);
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
