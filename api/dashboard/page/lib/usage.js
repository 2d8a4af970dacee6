// Requests of an account, ready to be drawn.

/** Returns the requests of a day: `{day, paths: {path: number}}`. */
export function requestsOf({ paths }) {
  return Object.values(paths).reduce((sum, number) => sum + number, 0);
}

/** Returns a row for each path of some days, the last of which is today. */
export function byPath(days) {
  const rows = new Map();
  for (const { paths } of days) {
    for (const [path, number] of Object.entries(paths)) {
      const row = rows.get(path) ?? { path, requests: 0, today: 0 };
      row.requests += number;
      rows.set(path, row);
    }
  }
  for (const [path, number] of Object.entries(days.at(-1)?.paths ?? {})) rows.get(path).today = number;
  return [...rows.values()];
}
