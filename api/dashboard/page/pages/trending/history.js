// Lines that begin before this page did: candles of the first tokens in sight, a few at a time.
//
// An answer costs a credit, so each token is asked for once, of those that are looked at, and no more
// than a few dozen a visit; what is seen live draws the rest.

import { isAbort } from "../../lib/api.js";
import { HOUR_MS } from "../../lib/times.js";
import { closes } from "../../lib/trail.js";

const MOST_ASKED = 30; // of a visit
const PAUSE_MS = 1_500;

/** `found(mint, points)` hears prices of the last hour. Returns `{want(mints), stop()}`. */
export function createHistory({ api, found, clock = Date.now }) {
  const asked = new Set();
  const leaving = new AbortController();
  let wanted = [];
  let timer = null;

  async function next() {
    timer = null;
    const mint = wanted.find((each) => !asked.has(each));
    if (mint === undefined || asked.size >= MOST_ASKED) return;
    asked.add(mint);
    try {
      const path = `/api/tokens/${encodeURIComponent(mint)}/candles`;
      const query = { interval: "1m" };
      const answer = await api.get(path, { query, signal: leaving.signal });
      const since = clock() - HOUR_MS;
      found(mint, closes(answer, clock()).filter(([timeMs]) => timeMs >= since));
    } catch (error) {
      if (isAbort(error)) return;
      // Only a token that is not known is its own affair; else there are no lines from before.
      if (error.status !== 404) return leaving.abort();
    }
    plan();
  }

  function plan() {
    if (timer === null && !leaving.signal.aborted) timer = setTimeout(next, PAUSE_MS);
  }

  return {
    /** The tokens in sight now, the first first. */
    want(mints) {
      wanted = mints;
      plan();
    },
    stop() {
      leaving.abort();
      clearTimeout(timer);
    },
  };
}
