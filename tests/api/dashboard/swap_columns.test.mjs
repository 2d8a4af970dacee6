import assert from "node:assert/strict";
import test from "node:test";

import { swapColumns } from "../../../api/dashboard/page/lib/swap_columns.js";

const columns = new Map(swapColumns({ of: () => null }).map((column) => [column.id, column]));

test("fees and tips are shown in SOL", () => {
  const swap = { fee_sol: 0.0105, priority_fee_sol: 0.01, tip_sol: 1.5 };
  assert.equal(columns.get("fee").content(swap), "0.0105");
  assert.equal(columns.get("fee").cellTitle(swap), "0.01 SOL of it for priority");
  assert.equal(columns.get("tip").content(swap), "1.5");
  assert.equal(columns.get("tip").content({ tip_sol: 0 }), "–");
});
