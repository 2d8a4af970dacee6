// Reads worlds of accounts from stdin, one JSON a line, and writes what the SDK says of each.
const { readFileSync } = require("node:fs");
const { answers } = require("./sdk.cjs");

for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  process.stdout.write(`${JSON.stringify(answers(JSON.parse(line)))}\n`);
}
