// A browser's WebSocket and clock, under the test's control: the far end is the test itself.

import { Connection } from "../../../api/dashboard/page/lib/socket.js";

export class World {
  constructor({ key = "k", diagnosis = { words: "refused, says the API", isFinal: false } } = {}) {
    this.nowMs = 1_000_000;
    this.key = key;
    this.diagnosis = diagnosis;
    this.sockets = [];
    this.timers = new Map();
    this.lastTimer = 0;
    const world = this;
    this.connection = new Connection({
      url: () => this.key && `ws://gateway/ws?api_key=${this.key}`,
      diagnose: async () => this.diagnosis,
      WebSocketClass: class {
        constructor(url) {
          this.url = url;
          this.readyState = 0;
          this.sent = [];
          world.sockets.push(this);
        }
        send(text) {
          if (this.readyState !== 1) throw new Error("not open");
          this.sent.push(JSON.parse(text));
        }
        close() {
          this.readyState = 3;
        }
      },
      clock: () => this.nowMs,
      setTimer: (call, ms) => {
        this.lastTimer += 1;
        this.timers.set(this.lastTimer, { at: this.nowMs + ms, call });
        return this.lastTimer;
      },
      clearTimer: (id) => this.timers.delete(id),
      random: () => 1,
    });
  }

  get socket() {
    return this.sockets.at(-1);
  }

  /** Let time pass; what is due happens in order. */
  pass(ms) {
    const until = this.nowMs + ms;
    for (;;) {
      const due = [...this.timers].filter(([, { at }]) => at <= until).sort(([, a], [, b]) => a.at - b.at)[0];
      if (!due) break;
      this.timers.delete(due[0]);
      this.nowMs = due[1].at;
      due[1].call();
    }
    this.nowMs = until;
  }

  /** Wait for the next attempt. */
  retry() {
    this.pass(this.connection.status.retryAtMs - this.nowMs);
  }

  /** The handshake is done. */
  open() {
    this.socket.readyState = 1;
    this.socket.onopen();
  }

  /** The far end says something. */
  say(frame, socket = this.socket) {
    socket.onmessage({ data: typeof frame === "string" ? frame : JSON.stringify(frame) });
  }

  /** The connection ends. */
  end(code = 1006, reason = "") {
    this.socket.readyState = 3;
    this.socket.onclose({ code, reason });
  }

  /** Requests of an action, the latest last. */
  asked(action, channel) {
    return this.socket.sent.filter(
      (each) => each.action === action && (!channel || each.channel === channel),
    );
  }

  /** Answer the latest subscribe of a channel. */
  acknowledge(channel, more = {}) {
    const { request_id } = this.asked("subscribe", channel).at(-1);
    this.say({ type: "subscribed", channel, filter: {}, request_id, replaces: false, ...more });
  }

  swap(id, text = id) {
    this.say({ type: "swap", channel: "swaps", data: text, id });
  }
}

/** Listeners that write down what they hear. */
export function listening() {
  const heard = { events: [], gaps: [], states: [], snapshots: [], errors: [] };
  return {
    heard,
    onEvent: (data) => heard.events.push(data),
    onGap: ({ reason }) => heard.gaps.push(reason),
    onSnapshot: (data, asOf) => heard.snapshots.push([data, asOf]),
    onState: ({ state, error }) => {
      heard.states.push(state);
      if (error) heard.errors.push(error.code);
    },
  };
}
