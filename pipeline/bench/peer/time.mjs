// Times solana-dex-parser on the JSON lines of argv[2], argv[3] times over, after a warm-up.
// Run with the folder that holds node_modules as the current one. Prints one JSON line.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const require = createRequire(join(process.cwd(), 'package.json'));
const { DexParser } = require('solana-dex-parser');

const lines = readFileSync(process.argv[2], 'utf8').split('\n').filter(Boolean);
const transactions = lines.map((line) => JSON.parse(line));
const parser = new DexParser();
const perSecond = [];
let trades = 0;
let errors = 0;
for (let run = 0; run <= Number(process.argv[3]); run += 1) {
  trades = 0;
  errors = 0;
  const start = process.cpuUsage();
  for (const transaction of transactions) {
    try {
      trades += parser.parseAll(transaction).trades.length;
    } catch {
      errors += 1;
    }
  }
  const { user, system } = process.cpuUsage(start);
  if (run > 0) perSecond.push(transactions.length / ((user + system) / 1e6));
}
console.log(JSON.stringify({ perSecond, trades, errors }));
