// What @sonarwatch/portfolio-plugins finds of wallets on a chain.
//
// `node read.cjs <folder>`: the folder has the package installed. From stdin {rpc, now_ms, wallets,
// prices: [{mint, decimals, usd}], answers}, to stdout {jobs, fetchers, lines}: errors, or null, by
// name, and what was found. Of remote services it gets the `answers`, by URL; others are errors.
const Module = require("node:module");
const path = require("node:path");

const PLUGINS = [
  "kamino", "marginfi", "drift", "jupiter", "orca", "raydium", "meteora", "daos", "parcl",
  "native-stake", "adrena", "loopscale", "exponent", "defituna", "pyth", "staratlas", "streamflow",
  "voltr", "wormhole", "perena", "hylo", "carrot",
];
// Those that look for the wallet's tokens are one fetcher of `tokens`, whose jobs read price services.
const OTHER_FETCHERS = ["tokens/fetchers/solana"];
const IGNORED = /airdrop|jupuary|asr|lfg|-s1$|native-stake-active-validators/; // airdrops; of another chain

const folder = path.resolve(process.argv[2], "package.json");
const asked = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
process.env.PORTFOLIO_SOLANA_RPC = asked.rpc;
Date.now = () => asked.now_ms;

// Packages of other chains are not installed: package.json has another in their place.
const absent = Object.keys(require("./package.json").overrides);
const nothing = new Proxy(function () {}, { get: (_, name) => (name === "__esModule" ? true : nothing) });
const load = Module._load;
Module._load = function (name, ...rest) {
  const isAbsent = absent.some((each) => name === each || name.startsWith(`${each}/`));
  return isAbsent ? nothing : load.call(this, name, ...rest);
};

const installed = Module.createRequire(folder);
const within = (file) => installed(`@sonarwatch/portfolio-plugins/src/${file}`);
const plugin = (name) => within(`plugins/${name}`);
installed("axios").defaults.adapter = async (config) => {
  const data = asked.answers[config.url];
  if (data === undefined) throw new Error(`a remote service: ${new URL(config.url).origin}`);
  return { data, status: 200, statusText: "OK", headers: {}, config };
};

const { Cache } = within("Cache");
const { runFetcherSafe } = within("Fetcher");

async function main() {
  const cache = new Cache({ type: "memory", params: {} });
  await cache.setTokenPriceSources(asked.prices.map(({ mint, decimals, usd }) => ({
    id: "coingecko", // preferred to other sources of a price
    weight: 1,
    networkId: "solana",
    platformId: "wallet-tokens",
    address: mint,
    decimals,
    price: usd,
    timestamp: Date.now(),
  })));
  const plugins = PLUGINS.map(plugin);
  const jobs = {};
  for (const job of plugins.flatMap((each) => each.jobs)) {
    if (IGNORED.test(job.id)) continue;
    try {
      await job.executor(cache);
      jobs[job.id] = null;
    } catch (error) {
      jobs[job.id] = error.message;
    }
  }
  const fetchers = {};
  const lines = [];
  const others = OTHER_FETCHERS.map((each) => plugin(each).default);
  for (const fetcher of [...plugins.flatMap((each) => each.fetchers), ...others]) {
    if (fetcher.networkId !== "solana" || IGNORED.test(fetcher.id)) continue;
    fetchers[fetcher.id] = null;
    for (const wallet of asked.wallets) {
      const { error, elements } = await runFetcherSafe(wallet, fetcher, cache);
      if (error) fetchers[fetcher.id] = error;
      for (const element of elements)
        for (const line of linesOf(element)) lines.push({ wallet, fetcher: fetcher.id, ...line });
    }
  }
  process.stdout.write(JSON.stringify({ jobs, fetchers, lines }), () => process.exit(0));
}

function* linesOf({ type, platformId: platform, data }) {
  if (type === "multiple") {
    for (const each of data.assets) yield line(platform, "supply", each, data.ref);
  } else if (type === "liquidity") {
    for (const { assets, rewardAssets, ref } of data.liquidities) {
      for (const each of assets) yield line(platform, "supply", each, ref);
      for (const each of rewardAssets) yield line(platform, "reward", each, ref);
    }
  } else if (type === "borrowlend") {
    for (const each of data.suppliedAssets) yield line(platform, "supply", each, data.ref);
    for (const each of data.borrowedAssets) yield line(platform, "borrow", each, data.ref);
    for (const each of data.rewardAssets) yield line(platform, "reward", each, data.ref);
    for (const each of data.unsettled.assets) yield line(platform, "unsettled", each, data.ref);
  } else if (type === "leverage") {
    for (const each of data.isolated.positions) {
      const { address, side, size, entryPrice, collateralValue } = each;
      yield { platform, role: side, account: null, mint: address, amount: size, entryPrice, usd: collateralValue };
    }
  } else throw new Error(`an element of type ${type}`);
}

function line(platform, role, { data, ref, value, name }, of) {
  const account = ref ?? of ?? null;
  return { platform, role, account, mint: data.address ?? name, amount: data.amount, usd: value };
}

main();
