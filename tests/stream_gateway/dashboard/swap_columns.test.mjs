import assert from "node:assert/strict";
import test from "node:test";

import { swapColumns } from "../../../stream_gateway/dashboard/lib/swap_columns.js";

const columns = new Map(swapColumns({ of: () => null }).map((column) => [column.id, column]));

test("fees and tips come as text, and are told in SOL", () => {
  const swap = { fee_lamports: "10500000", priority_fee_lamports: "10000000", tip_lamports: "1500000000" };
  assert.equal(columns.get("fee").content(swap), "0.0105");
  assert.equal(columns.get("fee").cellTitle(swap), "0.01 SOL of it for priority");
  assert.equal(columns.get("tip").content(swap), "1.5");
  assert.equal(columns.get("tip").content({ tip_lamports: "0" }), "–");
});
