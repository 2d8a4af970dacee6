// Whether the lots of a position add up to its figures, to the last unit. Pure.

/** Returns the exact sum of integers in text; null counts as nothing. */
export function sum(values) {
  return values.reduce((total, value) => total + BigInt(value ?? 0), 0n);
}

/**
 * Compare what all pages of `/lots` hold with their position. Returns a list of
 * `{what, stated, found, isEqual}`; `stated` and `found` are BigInt, in the smallest unit.
 */
export function audit(position, openLots, matches) {
  const lines = [
    ["held quantity", position.held_raw, sum(openLots.map((lot) => lot.quantity_raw))],
    [
      "cost of what is held, millionths of a dollar",
      position.held_cost_usd_micros,
      sum(openLots.map((lot) => lot.cost_usd_micros)),
    ],
    [
      "realized, millionths of a dollar",
      position.realized_usd_micros,
      sum(matches.map((match) => match.realized_usd_micros)),
    ],
    [
      "realized, lamports",
      position.realized_lamports,
      sum(matches.map((match) => match.realized_lamports)),
    ],
  ];
  return lines.map(([what, stated, found]) => {
    const exactly = BigInt(stated ?? 0);
    return { what, stated: exactly, found, isEqual: exactly === found };
  });
}
