// What is measured of a stream: how many a second, how late. No DOM: tested with Node.

/** Events a second, over the last whole seconds. */
export class Rate {
  constructor(seconds = 5) {
    this._seconds = seconds;
    this._counts = new Map(); // second -> events
    this._first = null;
  }

  add(nowMs) {
    const second = Math.floor(nowMs / 1000);
    this._first ??= second;
    this._counts.set(second, (this._counts.get(second) ?? 0) + 1);
    if (this._counts.size > 2 * this._seconds) this._counts.delete(this._counts.keys().next().value);
  }

  /** Return events a second; null within the first second. */
  at(nowMs) {
    const now = Math.floor(nowMs / 1000);
    if (this._first === null || now <= this._first) return null;
    const seconds = Math.min(this._seconds, now - this._first);
    let events = 0;
    for (let second = now - seconds; second < now; second++) events += this._counts.get(second) ?? 0;
    return events / seconds;
  }
}

/** The last latencies, of at most ten seconds. */
export class Latencies {
  constructor({ most = 2_000, forMs = 10_000 } = {}) {
    this._most = most;
    this._forMs = forMs;
    this._samples = []; // [at, ms], oldest first
  }

  add(nowMs, latencyMs) {
    this._samples.push([nowMs, latencyMs]);
    if (this._samples.length >= 2 * this._most) this._samples.splice(0, this._most);
  }

  /** Return `{median, p99, count}` in ms; null where there was nothing. */
  at(nowMs) {
    const recent = this._samples.slice(-this._most).filter(([at]) => at > nowMs - this._forMs);
    if (recent.length === 0) return null;
    const sorted = recent.map(([, latency]) => latency).sort((a, b) => a - b);
    const place = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
    return { median: place(0.5), p99: place(0.99), count: sorted.length };
  }
}
