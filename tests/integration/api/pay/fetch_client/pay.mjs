// Pays for one GET. Standard input: {"url", "rpcUrl", "network", "asset", "secret"}.
import { readFileSync } from "node:fs";

import { createKeyPairSignerFromBytes } from "@solana/kit";
import { decodePaymentResponseHeader, wrapFetchWithPaymentFromConfig } from "@x402/fetch";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { toClientSvmSigner } from "@x402/svm";

const { url, rpcUrl, network, asset, secret } = JSON.parse(readFileSync(0, "utf8"));
const signer = toClientSvmSigner(await createKeyPairSignerFromBytes(Uint8Array.from(secret)));
const paying = wrapFetchWithPaymentFromConfig(fetch, {
  // Simulated dollars have the mint of mainnet's, on a network that is named devnet.
  spendControls: { allowedAssets: [{ network, asset, maxAmountPerPayment: "400" }] },
  schemes: [{ network, client: new ExactSvmScheme(signer, { rpcUrl }) }],
});
const answer = await paying(url);
const settled = decodePaymentResponseHeader(answer.headers.get("payment-response"));
console.log(JSON.stringify({ status: answer.status, body: await answer.text(), settled }));
