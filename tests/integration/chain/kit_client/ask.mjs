// Asks a Solana RPC endpoint through the official client, and prints what it understood.
// Usage: node ask.mjs ENDPOINT < calls, a JSON list of [method, [parameter, ...]].
// Prints one JSON object a call: {"value": ...} with whole numbers as text, or {"error": ...}.
import { createSolanaRpc, isSolanaError } from "@solana/kit";

const rpc = createSolanaRpc(process.argv[2]);
let text = "";
for await (const part of process.stdin) text += part;

const print = (answer) =>
  process.stdout.write(
    JSON.stringify(answer, (_, value) => (typeof value === "bigint" ? `${value}` : value)) + "\n",
  );

for (const [method, params] of JSON.parse(text)) {
  try {
    print({ value: await rpc[method](...params).send() });
  } catch (error) {
    if (!isSolanaError(error)) throw error;
    const { __code: code, ...context } = error.context;
    print({ error: { code, message: error.message, context } });
  }
}
