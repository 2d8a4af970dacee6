// A connection to the gateway: subscriptions that survive it, each event once.
//
// One subscription a channel, as the gateway has it. The id of the last event of each is kept; when
// the connection comes back, `since` asks for what was missed. An answer belongs to the request
// whose `request_id` it carries: events that come before the answer to a new filter are of the old
// one, and are left out. A subscription that was acknowledged may end by an error after all: it is asked
// for again. The connection is there while something is subscribed to.

import { isAfter } from "./event_id.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;
const STEADY_MS = 10_000; // what lasted this long, connection or subscription: the next wait begins small again
const PING_MS = 5_000;
const SILENCE_MS = 12_000; // without any frame, pongs among them: the connection is dead
const OPENING_MS = 10_000;
const UNUSED_MS = 250; // a page goes, the next one subscribes: not worth a new connection

// Errors that end a subscription, acknowledged or not, and when it is asked for again: later and later where
// that fails. Every other error leaves what was in force before.
export const ENDED_AGAIN_MS = new Map([
  ["store_unavailable", 2_000],
  ["too_many_new_wallets", 60_000],
]);

const KEY_REVOKED = 4001;
const REASONS = {
  1001: "The gateway is restarting, or the plan has changed",
  1006: "The connection was lost",
  4001: "The API key was revoked, the account is suspended, or the session has ended",
  4008: "This page did not keep up with the events",
  4009: "Nothing was asked for a long time",
  4029: "The page sent too many messages",
};

/**
 * `url()` gives the address with the key, or null while there is no key. `diagnose()` says in words
 * why a connection may have been refused, and whether trying again is of no use: browsers do not
 * do not say so to pages. The rest is the world, given by tests.
 */
export class Connection {
  constructor({
    url,
    diagnose,
    WebSocketClass = globalThis.WebSocket,
    clock = Date.now,
    setTimer = (...all) => setTimeout(...all),
    clearTimer = (id) => clearTimeout(id),
    random = Math.random,
  }) {
    Object.assign(this, { _url: url, _diagnose: diagnose, _WebSocket: WebSocketClass });
    Object.assign(this, { _now: clock, _setTimer: setTimer, _clearTimer: clearTimer });
    this._random = random;
    this._subscriptions = new Map(); // channel -> Subscription
    this._listeners = { state: new Set(), notice: new Set() };
    this._timers = new Map();
    this._requests = 0;
    this._failures = 0; // attempts in a row
    this._socket = null;
    this._over = null;
    this._pinged = null;
    this._heardMs = 0;
    this._status = { state: "idle", words: "", rttMs: null, clockOffsetMs: null, retryAtMs: null };
  }

  /** What is the case: `{state, words, rttMs, clockOffsetMs, retryAtMs}`; `state` is idle, connecting,
   *  open, waiting (for the next attempt) or refused (until `reconnect`). `clockOffsetMs` is how far
   *  the gateway's clock is ahead of this one's, give or take half of `rttMs`. */
  get status() {
    return this._status;
  }

  /** Hear every change of `status`; the first call is now. Returns what stops it. */
  onState(listener) {
    this._listeners.state.add(listener);
    listener(this._status);
    return () => this._listeners.state.delete(listener);
  }

  /** Hear notices: `{code, message}`; `lagging` has `dropped` as well. Returns what stops it. */
  onNotice(listener) {
    this._listeners.notice.add(listener);
    return () => this._listeners.notice.delete(listener);
  }

  /**
   * Subscribe to a channel with the fields of its filter. Listeners, each may be left out:
   * `onEvent(data, id, frame)`; `onGap({reason, after, before, message})`;
   * `onSnapshot(data, as_of_id)`; `onState({state, filter, error, isRetried})`, where state is `away`,
   * `asking`, `live` or `refused`; filter the one asked for or in force, null where a refusal leaves none;
   * error `{code, message, accepted}` or null; `isRetried`: it is asked for again by itself.
   * Returns `{stop(), change(filter)}`. Throws where the channel is taken.
   */
  subscribe(channel, filter = {}, listeners = {}) {
    if (this._subscriptions.has(channel)) throw new Error(`${channel} is subscribed to already`);
    const subscription = {
      channel,
      filter, // wanted
      inForce: null, // the gateway's, while another is asked for
      listeners,
      lastId: null,
      requestId: null, // the newest, until it is answered
      asked: new Map(), // request id -> filter, of all that were not answered
      isLive: false, // events that come are ours
      liveMs: 0, // since when
      ends: 0, // in a row, each soon after its acknowledgement
    };
    this._subscriptions.set(channel, subscription);
    this._forget("unused");
    if (this._isOpen()) this._ask(subscription);
    else {
      this._announce(subscription, "away");
      if (this._socket === null && !this._timers.has("retry")) this._open();
    }
    return {
      stop: () => this._stop(subscription),
      change: (wanted) => this._change(subscription, wanted),
    };
  }

  /** Try now: there is another key, or the network is back. */
  reconnect({ anew = false } = {}) {
    if (anew) this._drop();
    if (this._socket !== null || this._subscriptions.size === 0) return;
    this._failures = 0;
    this._forget("retry");
    this._open();
  }

  /** End the connection now where nothing is subscribed to: another one may want its place. */
  rest() {
    if (this._subscriptions.size === 0) this.close();
  }

  /** End the connection and forget the subscriptions. */
  close() {
    this._subscriptions.clear();
    this._drop();
    this._become("idle", "");
  }

  _stop(subscription) {
    if (this._subscriptions.get(subscription.channel) !== subscription) return;
    this._subscriptions.delete(subscription.channel);
    this._forget(`again ${subscription.channel}`);
    if (this._isOpen()) this._send({ action: "unsubscribe", channel: subscription.channel });
    if (this._subscriptions.size === 0) this._after("unused", UNUSED_MS, () => this.close());
  }

  _change(subscription, wanted) {
    if (this._subscriptions.get(subscription.channel) !== subscription) return;
    if (subscription.isLive) subscription.inForce = subscription.filter;
    subscription.filter = wanted;
    if (this._isOpen()) this._ask(subscription, { resume: false });
    else {
      subscription.lastId = null; // what was missed is of another filter
      this._announce(subscription, "away");
      this.reconnect();
    }
  }

  // The connection.

  _open() {
    const url = this._url();
    if (url === null) return this._become("refused", "An API key is needed");
    this._forget("retry");
    this._become("connecting", this._failures ? "Connecting again" : "Connecting");
    let socket;
    try {
      socket = new this._WebSocket(url);
    } catch {
      return this._become("refused", "The address of the gateway is not one");
    }
    this._socket = socket;
    let wasOpen = false;
    let openedMs = 0;
    const over = (code, reason) => {
      if (this._socket !== socket) return;
      this._detach();
      if (wasOpen && this._now() - openedMs >= STEADY_MS) this._failures = 0;
      this._ended(wasOpen, code, reason);
    };
    this._over = over;
    socket.onopen = () => {
      if (this._socket !== socket) return socket.close(1000); // it was left while it was opening
      wasOpen = true;
      openedMs = this._now();
      this._forget("opening");
      this._become("open", "Connected");
      for (const subscription of this._subscriptions.values()) this._ask(subscription);
      this._heard();
      this._ping();
    };
    socket.onmessage = ({ data }) => {
      if (this._socket === socket) this._receive(data);
    };
    socket.onclose = ({ code, reason }) => over(code, reason);
    this._after("opening", OPENING_MS, () => this._giveUp("The gateway does not answer"));
  }

  _ended(wasOpen, code, reason) {
    for (const subscription of this._subscriptions.values()) {
      subscription.isLive = false;
      subscription.requestId = null;
      subscription.asked.clear();
      subscription.inForce = null;
      this._forget(`again ${subscription.channel}`);
      this._announce(subscription, "away");
    }
    if (this._subscriptions.size === 0) return this._become("idle", "");
    const words = REASONS[code] ?? (reason || `The connection was closed (${code})`);
    if (code === KEY_REVOKED) return this._become("refused", words);
    this._failures += 1;
    const longest = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (this._failures - 1));
    const wait = Math.round(longest * (0.5 + this._random() / 2));
    this._become("waiting", words, { retryAtMs: this._now() + wait });
    this._after("retry", wait, () => this._open());
    if (!wasOpen) this._askWhy();
  }

  /** A handshake was refused: browsers do not say why, `diagnose` may know. */
  async _askWhy() {
    const failures = this._failures;
    const { words, isFinal } = await this._diagnose();
    if (this._failures !== failures || this._status.state !== "waiting") return;
    if (isFinal) {
      this._forget("retry");
      this._become("refused", words);
    } else this._become("waiting", words, { retryAtMs: this._status.retryAtMs });
  }

  /** Take a connection for dead without waiting for its close, which may never come. */
  _giveUp(words) {
    const [socket, over] = [this._socket, this._over];
    if (socket === null) return;
    over(0, words);
    socket.close();
  }

  _drop() {
    const socket = this._socket;
    this._detach();
    this._forget("retry");
    // One that is still opening ends itself when it is open: browsers warn of what is cut off.
    if (socket?.readyState === 1) socket.close(1000);
  }

  _detach() {
    this._socket = null;
    this._pinged = null;
    for (const timer of ["ping", "silence", "opening", "unused"]) this._forget(timer);
  }

  _isOpen() {
    return this._socket?.readyState === 1;
  }

  _send(message) {
    this._socket.send(JSON.stringify(message));
  }

  _ping() {
    this._pinged = { requestId: this._nextId("ping"), atMs: this._now() };
    this._send({ action: "ping", request_id: this._pinged.requestId });
    this._after("ping", PING_MS, () => this._ping());
  }

  _heard() {
    this._heardMs = this._now();
    if (!this._timers.has("silence")) this._listenOn(SILENCE_MS);
  }

  _listenOn(ms) {
    this._after("silence", ms, () => {
      const left = this._heardMs + SILENCE_MS - this._now();
      if (left <= 0) this._giveUp("The gateway fell silent");
      else this._listenOn(left);
    });
  }

  // Subscriptions.

  _ask(subscription, { resume = true } = {}) {
    this._forget(`again ${subscription.channel}`);
    subscription.requestId = this._nextId(subscription.channel);
    subscription.asked.set(subscription.requestId, subscription.filter);
    const { channel, filter, requestId: request_id } = subscription;
    const message = { action: "subscribe", channel, ...filter, request_id };
    if (resume && subscription.lastId !== null) {
      message.since = subscription.lastId;
      delete message.snapshot; // one or the other: what the page knows is brought up to date
    } else subscription.lastId = null;
    subscription.isLive = false;
    this._announce(subscription, "asking");
    this._send(message);
  }

  _receive(text) {
    this._heard();
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      return; // no frame of the gateway's
    }
    const handler = HANDLERS.get(frame?.type);
    if (handler) this[handler](frame);
    else if (frame !== null && typeof frame === "object" && "data" in frame) this._event(frame);
  }

  _event(frame) {
    const subscription = this._subscriptions.get(frame.channel);
    if (!subscription?.isLive) return;
    if (frame.id !== undefined) {
      if (subscription.lastId !== null && !isAfter(frame.id, subscription.lastId)) return;
      subscription.lastId = frame.id;
    }
    subscription.listeners.onEvent?.(frame.data, frame.id ?? null, frame);
  }

  _subscribed(frame) {
    const answered = this._answered(frame);
    if (answered === null) return;
    const { subscription, filter, isNewest } = answered;
    if (!isNewest) {
      subscription.inForce = filter; // until the newest request is answered, or for good if it is refused
      return;
    }
    subscription.inForce = null;
    subscription.isLive = true;
    subscription.liveMs = this._now();
    this._announce(subscription, "live", { filter: frame.filter ?? {} });
  }

  _pong(frame) {
    const pinged = this._pinged;
    if (pinged === null || frame.request_id !== pinged.requestId) return;
    const rttMs = this._now() - pinged.atMs;
    const clockOffsetMs = frame.timestamp - (pinged.atMs + rttMs / 2);
    this._become("open", "Connected", { rttMs, clockOffsetMs });
  }

  _gap(frame) {
    const subscription = this._subscriptions.get(frame.channel);
    if (!subscription?.isLive) return;
    // Streams that were lost may begin anew with smaller ids.
    if (frame.reason === "epoch") subscription.lastId = null;
    subscription.listeners.onGap?.(frame);
  }

  _snapshot(frame) {
    const subscription = this._subscriptions.get(frame.channel);
    if (subscription?.isLive) subscription.listeners.onSnapshot?.(frame.data, frame.as_of_id ?? null);
  }

  _error(frame) {
    const { code } = frame;
    if (ENDED_AGAIN_MS.has(code)) return this._endedBy(frame);
    const answered = this._answered(frame);
    if (answered === null) return this._notice(frame);
    const { subscription, isNewest } = answered;
    if (!isNewest) return; // something else is wanted by now
    if (subscription.inForce !== null) {
      // The gateway goes on with the filter before.
      subscription.filter = subscription.inForce;
      subscription.inForce = null;
      subscription.isLive = true;
    }
    const isRetried = code === "bad_since" && subscription.lastId !== null;
    this._refused(subscription, frame, isRetried);
    const isSubscribed = this._subscriptions.get(subscription.channel) === subscription;
    // A listener may have stopped it, or asked for something else.
    if (!isRetried || !isSubscribed || subscription.requestId !== null) return;
    subscription.lastId = null;
    this._ask(subscription);
  }

  /** The gateway ended a subscription that it had acknowledged: nothing is in force on its channel. */
  _endedBy(frame) {
    const subscription = this._answered(frame)?.subscription ?? this._subscriptions.get(frame.channel);
    if (!subscription) return this._notice(frame);
    subscription.inForce = null;
    if (subscription.requestId !== null) return; // a newer request is on its way
    if (subscription.isLive && this._now() - subscription.liveMs >= STEADY_MS) subscription.ends = 0;
    subscription.isLive = false;
    const first = ENDED_AGAIN_MS.get(frame.code);
    const wait = Math.max(first, Math.min(LONGEST_WAIT_MS, first * 2 ** subscription.ends));
    subscription.ends += 1;
    // Before anybody hears of it: a listener may stop the subscription, or change it.
    this._after(`again ${subscription.channel}`, wait, () => {
      if (this._isOpen()) this._ask(subscription);
    });
    this._refused(subscription, frame, true);
  }

  _refused(subscription, { code, message, accepted = null }, isRetried) {
    const filter = subscription.isLive ? subscription.filter : null;
    this._announce(subscription, "refused", { filter, error: { code, message, accepted }, isRetried });
  }

  _lagging(frame) {
    const cause = frame.reason === "budget" ? "Its plan's bytes are used up" : "This page was too slow";
    const message = `${cause}: ${frame.dropped} events were left out`;
    for (const subscription of this._subscriptions.values()) {
      const lost = { reason: "lagging", after: subscription.lastId, before: null, message };
      subscription.listeners.onGap?.({ ...lost, dropped: frame.dropped });
    }
    this._notice({ code: "lagging", message, dropped: frame.dropped });
  }

  _notice(frame) {
    for (const listener of this._listeners.notice) listener(frame);
  }

  /** Returns `{subscription, filter, isNewest}` of the request that a frame answers, null if this page sent none. */
  _answered({ request_id: requestId }) {
    for (const subscription of this._subscriptions.values()) {
      const filter = subscription.asked.get(requestId);
      if (filter === undefined) continue;
      subscription.asked.delete(requestId);
      const isNewest = subscription.requestId === requestId;
      if (isNewest) subscription.requestId = null;
      return { subscription, filter, isNewest };
    }
    return null;
  }

  _announce(subscription, state, { filter = subscription.filter, error = null, isRetried = false } = {}) {
    subscription.listeners.onState?.({ state, filter, error, isRetried });
  }

  // Small things.

  _become(state, words, more = {}) {
    const kept = state === "open" && this._status.state === "open" ? this._status : {};
    const { rttMs = null, clockOffsetMs = null } = kept;
    this._status = { state, words, rttMs, clockOffsetMs, retryAtMs: null, ...more };
    for (const listener of this._listeners.state) listener(this._status);
  }

  _nextId(what) {
    this._requests += 1;
    return `${what}-${this._requests}`;
  }

  _after(name, ms, call) {
    this._forget(name);
    const id = this._setTimer(() => {
      this._timers.delete(name);
      call();
    }, ms);
    this._timers.set(name, id);
  }

  _forget(name) {
    if (!this._timers.has(name)) return;
    this._clearTimer(this._timers.get(name));
    this._timers.delete(name);
  }
}

const HANDLERS = new Map([
  ["subscribed", "_subscribed"],
  ["pong", "_pong"],
  ["error", "_error"],
  ["gap", "_gap"],
  ["lagging", "_lagging"],
  ["notice", "_notice"],
  ["snapshot", "_snapshot"],
]);
