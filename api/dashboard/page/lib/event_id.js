// Ids of events, "<ms>-<n>-<place>": ascending within a channel.

/** Return the three numbers of an id, or null for what is none. */
export function parseId(id) {
  const parts = typeof id === "string" ? id.split("-") : [];
  if (parts.length !== 3 || !parts.every((part) => /^\d{1,16}$/.test(part))) return null;
  return parts.map(Number);
}

/** Whether the first id comes after the second; ids of another form are taken for new. */
export function isAfter(id, other) {
  const [a, b] = [parseId(id), parseId(other)];
  if (a === null || b === null) return true;
  for (const place of [0, 1, 2]) {
    if (a[place] !== b[place]) return a[place] > b[place];
  }
  return false;
}

/** When the event was put into its stream, ms since the Unix epoch; null for what is no id. */
export function timeOf(id) {
  return parseId(id)?.[0] ?? null;
}
