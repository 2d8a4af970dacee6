// Reads {"idls": folder, "wallets": {name: address}} from stdin and writes, one JSON a line:
//   {"time_s", "slot"}                       when the chain starts, by the accounts
//   {"address", "owner", "data": base64, "times": [offset], "slots": [offset]}
//     an account, by Anchor's coder and its program's IDL, and where it has 8 bytes of a time in
//     seconds or of a slot: of a chain that starts at others, they are moved by the difference
//   {"mint", "name", "symbol", "decimals", "supply", "held": {wallet: amount}}
//   {"token_account", "mint", "owner", "amount"}  one at an address of a program's own
//   {"wallet", "protocol", "route", "assets": [[role, mint, amount]], "health"?, "in_range"?}
// The last kind is what the positions are when the chain starts; amounts are raw and text, null
// where nobody can know them, with a "~" where this script's arithmetic is not the program's.
// Fields that are not named are zero. Programs without an IDL have their fields put at the offsets
// that their sources, or public readers of the chain, publish. `parts.cjs` lists the files that say
// what there is.
const parts = require("./parts.cjs").flatMap((file) => require(file));
const { clock, world } = require("./world.cjs");

function written(later_s, later_slots) {
  world.lines = [];
  const { start_s, start_slot } = clock;
  Object.assign(clock, { start_s: start_s + later_s, start_slot: start_slot + later_slots });
  for (const part of parts) part();
  Object.assign(clock, { start_s, start_slot });
  return world.lines;
}

// Where numbers are one larger: their first bytes differ, and those that a carry reaches.
function changed(data, later) {
  const differs = (at) => at >= 0 && data[at] !== later[at];
  return [...data.keys()].filter((at) => differs(at) && !differs(at - 1));
}

const [now, second, slot] = [written(0, 0), written(1, 0), written(0, 1)];
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
say({ time_s: clock.start_s, slot: clock.start_slot });
now.forEach((line, at) => {
  if (!line.data) return say(line);
  const [times, slots] = [second, slot].map((each) => changed(line.data, each[at].data));
  say({ ...line, data: line.data.toString("base64"), times, slots });
});
