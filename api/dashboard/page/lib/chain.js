// Which chain the page shows, above every page while it is not mainnet.

const KNOWN_EVERY_MS = 30_000; // an operator may lead the pipeline to another chain
const UNKNOWN_EVERY_MS = 3_000;

const WORDS = {
  simulated: "Simulated chain: prices and wallets are invented",
  recorded: "Recorded chain: a replay of what happened before",
  devnet: "Devnet: its tokens have no value",
  testnet: "Testnet: its tokens have no value",
  mainnet: null,
};

/** What the banner says of `chain` of /api/health; null: there is no banner. */
export function chainWords({ network, genesis_hash: genesisHash }) {
  if (Object.hasOwn(WORDS, network)) return WORDS[network];
  return genesisHash ? `Unknown chain, genesis hash ${genesisHash}` : "Unknown chain";
}

/** Keep the banner as health says, for as long as the page is open. */
export async function watchChain(banner) {
  for (;;) {
    let isKnown = false;
    try {
      // Health answers without a key, and with 503 when a store is away.
      const { chain } = await (await fetch("api/health", { cache: "no-store" })).json();
      isKnown = chain.network !== null;
      const words = chainWords(chain);
      // A store that is away knows no chain: what was seen last still holds.
      if (isKnown || banner.hidden || banner.dataset.network === "unknown") {
        banner.dataset.network = chain.network ?? "unknown";
        banner.textContent = words ?? "";
        banner.hidden = words === null;
      }
    } catch {
      // The API is away: the connection says so.
    }
    await new Promise((resolve) => setTimeout(resolve, isKnown ? KNOWN_EVERY_MS : UNKNOWN_EVERY_MS));
  }
}
